#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work --exec: what a command gets besides its payload: the environment, and descriptor 3,
by which it reports its progress and gives orders."""

import os
import pathlib
import resource
import signal
import time

import lib_cli
from lib_cli import CliTest, only

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class EnvironmentTest(CliTest):
    def seen(self, *task, options=()):
        """The environment of a command that runs this task, by name."""
        self.enqueue("t", *task)
        self.drain("t=env -0 > seen", options=options)
        return dict(text.split("=", 1) for text in self.read("seen").split("\0") if text)

    def test_environment_has_limits_and_cause(self):
        seen = self.seen("--retry", "3", "--deadline", "@4922899200", "--timeout", "never")
        self.assertEqual([seen[f"QUERN_{name}"] for name in ("RETRY_MAX", "DEADLINE", "CAUSE")],
                         ["3", "4922899200", ""])
        seen = self.seen("--retry", "never", "--timeout", "never")
        self.assertEqual((seen["QUERN_RETRY_MAX"], seen["QUERN_DEADLINE"]), ("-1", ""))

    def test_environment_has_headers_and_the_trace(self):
        self.env.update({"QUERN_HEADER_OLD": "of the worker", "TRACEPARENT": "of the worker"})
        seen = self.seen("--header", "x-user=ann", "--header", "X_User=bob", "--header", "a b=c",
                         "--header", "text=two\nlines", "--header", "empty=",
                         "--header", "traceparent=" + PARENT)
        headers = {name: value for name, value in seen.items() if name.startswith("QUERN_HEADER_")}
        self.assertEqual(headers, {"QUERN_HEADER_X_USER": "ann", "QUERN_HEADER_EMPTY": "",
                                   "QUERN_HEADER_TEXT": "two\nlines",
                                   "QUERN_HEADER_TRACEPARENT": PARENT})
        self.assertEqual(seen["QUERN_HEADERS_OMITTED"], "2")  # a second X_USER, and a blank
        self.assertEqual((seen["TRACEPARENT"], seen["TRACESTATE"]), (PARENT, ""))
        self.assertEqual(self.seen()["TRACEPARENT"], "of the worker")
        seen = self.seen("--header", "traceparent=00-ab-cd-01", "--header", "tracestate=a=b")
        self.assertEqual(seen["TRACEPARENT"], "of the worker")  # what is not valid is dropped

    def test_all_64_headers_are_there(self):
        seen = self.seen("--header", "traceparent=" + PARENT,
                         *(word for number in range(63)
                           for word in ("--header", f"h{number}={number}")))
        self.assertEqual(seen["QUERN_HEADERS_OMITTED"], "0")
        self.assertEqual(seen["QUERN_HEADER_H62"], "62")

    def test_headers_beyond_64_kib_are_left_out(self):
        seen = self.seen(*(word for number in range(10)
                           for word in ("--header", f"h{number}=" + "x" * 8000)))
        self.assertEqual(seen["QUERN_HEADERS_OMITTED"], "2")
        self.assertEqual(len(seen["QUERN_HEADER_H7"]), 8000)

    def test_cause_is_why_the_task_runs_again(self):
        self.fifo("never")
        task_id = self.enqueue("t", "--retry", "2")
        command = ("t=echo \"$QUERN_CAUSE\" > cause-$QUERN_RETRY_COUNT-$QUERN_FENCE; "
                   "[ -e stays ] && exec cat never; true")
        self.write("stays", "")
        worker = self.start("work", "--lease", "1s", "--exec", command)
        first = self.until(lambda: [name for name in os.listdir(self.home)
                                    if name.startswith("cause-") and self.read(name)], "it runs")
        worker.kill()
        self.end(worker)
        os.remove(self.path("stays"))
        self.drain(command)
        causes = sorted((name for name in os.listdir(self.home) if name.startswith("cause-")),
                        key=lambda name: int(name.rsplit("-", 1)[1]))
        self.assertEqual(causes[:1], first)
        self.assertEqual([self.read(name) for name in causes], ["\n", "worker died\n"])
        self.assertEqual(self.state(task_id), "gone")

    def limited(self, *args):
        """A worker whose commands may have 128 KiB of arguments and environment, the least that
        the kernel allows; it uses a part of that itself."""
        limits = resource.getrlimit(resource.RLIMIT_STACK)
        worker = self.start("work", *args)
        self.until(lambda: "worker starts" in self.read(worker.log_name), "it runs")
        zygote = int(pathlib.Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text())
        resource.prlimit(zygote, resource.RLIMIT_STACK, (1 << 19, limits[1]))
        return worker

    @only("sqlite")
    def test_environment_too_large_for_the_system_uses_the_attempts_up(self):
        self.ok("db", "init")
        self.env["PADDING"] = "x" * 80000
        worker = self.limited("--exec", "t=echo ran >> seen")
        large = [word for number in range(7)
                 for word in ("--header", f"h{number}=" + "x" * 8000)]
        task_id = self.enqueue("t", "--retry", "never", *large)
        task = self.wait_state(task_id, "archived")
        self.assertIn("command was not started: ", task["error"])
        self.assertIn("too large", task["error"])
        self.assertIn("ulimit -s", task["error"])
        self.wait_state(self.enqueue("t", "--retry", "never"), "gone")  # with a small one it runs
        self.assertEqual(self.read("seen"), "ran\n")
        self.assertEqual(self.stop(worker), 0)
        self.assertNotIn("commands cannot be started", self.read(worker.log_name))


class TaskLimitTest(CliTest):
    def test_limits_of_a_task_are_those_of_its_command(self):
        task_id = self.enqueue("t", "--memory", "512M", "--cpu", "6500ms", "--retention", "1h")
        self.drain("t=ulimit -Sv; ulimit -Hv; ulimit -St; ulimit -Ht")
        self.assertEqual(self.task(task_id)["result"], "524288\n524288\n7\n8\n")

    def test_command_that_ignores_sigterm_is_killed_when_its_task_says(self):
        task_id = self.enqueue("t", "--kill-after", "200ms", "--timeout", "100ms",
                               "--retry", "never")
        # That of its command would outlast the test.
        self.drain("t=trap '' TERM; while :; do sleep 0.05; done", options=["--kill-after", "1h"])
        self.assertIn("timeout of 100ms", self.task(task_id)["error"])


class OrderTest(CliTest):
    def test_orders_decide_together_with_the_exit_code(self):
        kinds = {"snoozes": "echo snooze=1h >&3",
                 "rests": "echo snooze=1h >&3; echo busy >&2; exit 1",
                 "retries": "echo 50 half >&3; echo retry-in=2h >&3; exit 1",
                 "ends": "echo no-retry=bad-address >&3; echo nobody >&2; exit 1",
                 "well": "echo retry-in=1h >&3; echo no-retry=x >&3; exit 0",
                 "errs": "echo snooze=soon >&3; exit 0"}
        ids = {kind: self.enqueue(kind) for kind in kinds}
        options = [word for kind, text in kinds.items() for word in ("--exec", f"{kind}={text}")]
        worker = self.start("work", *options)
        for kind in ("well", "errs"):
            self.wait_state(ids[kind], "gone")
        tasks = {}
        for kind, state in (("snoozes", "scheduled"), ("rests", "scheduled"), ("retries", "retry"),
                            ("ends", "archived")):
            tasks[kind] = self.until(lambda kind=kind, state=state: self.task(ids[kind])["state"]
                                     in (state, "retry") and self.task(ids[kind]), kind)
        self.assertEqual([tasks[kind]["retry_count"] for kind in ("snoozes", "rests", "retries")],
                         [0, 0, 1])
        self.assertIn('class "bad-address" is not retried: exit status 1: nobody',
                      tasks["ends"]["error"])
        for kind, seconds in (("snoozes", 3600), ("rests", 3600), ("retries", 7200)):
            left = tasks[kind]["due_at_ms"] / 1000 - time.time()
            self.assertTrue(seconds - 600 < left <= seconds + 1, (kind, left))
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertEqual(log.count("is no order"), 1, log)
        self.assertIn("snooze=soon", log)

    @only("sqlite")
    def test_strange_orders_lose_nothing(self):
        wrong = {"negative": "echo retry-in=-1 >&3", "long": "echo retry-in=999999999h >&3",
                 "empty": "echo snooze= >&3", "classless": "echo no-retry= >&3"}
        odd = {"unknown": "echo retry_in=3s >&3; echo stop-all=now >&3",
               "closed": "exec 3>&-; exit 1", "taken": "exec 3</dev/null; exit 1",
               "large": "head -c 1000000 /dev/zero | tr '\\0' s >&3",
               "bytes": "head -c 100000 /dev/urandom >&3",
               "late": "(trap '' TERM HUP; sleep 1000; echo snooze=1h >&3) & true"}
        right = {"open": "printf snooze=1h >&3", "twice": "echo snooze=2h >&3; echo snooze=1h >&3",
                 "behind": "head -c 1000000 /dev/zero >&3; echo >&3; echo snooze=1h >&3"}
        ids = {}
        options = []
        for kind, text in {**wrong, **odd, **right}.items():
            ids[kind] = self.enqueue(kind, "--retry", "never")
            ending = "; exit 0" if kind in right else "; exit 1"
            options += ["--exec", f"{kind}={text}{ending}"]
        worker = self.start("work", *options)
        for kind in (*wrong, *odd):
            self.assertIn("exit status 1", self.wait_state(ids[kind], "archived")["error"], kind)
        for kind in right:
            self.until(lambda kind=kind: self.task(ids[kind])["state"] in ("scheduled", "retry"),
                       f"{kind} is snoozed")
            left = self.task(ids[kind])["due_at_ms"] / 1000 - time.time()
            self.assertTrue(3000 < left <= 3601, (kind, left))
        log = self.read(worker.log_name)
        self.assertEqual(log.count("is no order, it is ignored"), len(wrong), log)
        for text in wrong.values():
            self.assertIn(text.split()[1], log)
        self.assertIn("retry-in=30s, snooze=5m", log)
        self.assertEqual(self.stop(worker), 0)

    def test_a_crash_says_what_the_command_used(self):
        task_id = self.enqueue("t")
        worker = self.start("work", "--exec", "t=echo last words >&2; kill -SEGV $$")
        self.until(lambda: "run crashed" in self.read(worker.log_name), "it crashes")
        self.assertRegex(self.read(worker.log_name),
                         r"killed by signal 11 \(SIGSEGV\); CPU [0-9.]+m?s, memory [0-9]+ [KM]iB"
                         r": last words")
        self.stop(worker)

    @only("sqlite")
    def test_no_new_privs(self):
        for options, value in (((), "0"), (("--no-new-privs",), "1")):
            self.enqueue("t")
            self.drain("t=grep NoNewPrivs: /proc/self/status > seen", options=options)
            self.assertEqual(self.read("seen").split(), ["NoNewPrivs:", value])


class ProgressTest(CliTest):
    def progress(self, task_id):
        task = self.task(task_id)
        return task["progress"], task["progress_note"]

    def wait_progress(self, task_id, *progress):
        self.until(lambda: self.progress(task_id) == progress, f"the progress is {progress}")

    def write_fifo(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_lines_on_descriptor_3_are_the_progress(self):
        self.fifo("go")
        task_id = self.enqueue("t", "--retention", "1h")
        worker = self.start("work", "--exec", "t=exec 4<>go; while read -r line <&4; do "
                            "echo \"$line\" >&3; [ \"$line\" != 100% ] || exit 0; done")
        for line, percent, note in (("reading", 0, "reading"), ("50", 50, ""),
                                    ("60% row 6\t\x1b[31mof 10", 60, "row 6\t\x1b[31mof 10"),
                                    ("row 7", 60, "row 7"), ("70 größer", 70, "größer")):
            self.write_fifo("go", line + "\n")
            self.wait_progress(task_id, percent, note)
        text = self.ok("task", "inspect", task_id)
        self.assertRegex(text, r"progress: +70% größer\n")
        self.write_fifo("go", "100%\n")
        self.wait_state(task_id, "completed")
        self.assertEqual(self.progress(task_id), (None, ""))
        self.assertEqual(self.stop(worker), 0)

    @only("sqlite")
    def test_garbage_costs_a_line_in_the_log(self):
        ids = [self.enqueue("t") for _ in range(2)]
        for task_id in ids:
            self.fifo(f"go-{task_id}")
        worker = self.start("work", "--concurrency", "2", "--exec",
                            "t=head -c 100000 /dev/urandom | tr -d '\\n' >&3; "
                            "printf '\\n7 \\377 and ' >&3; head -c 500 /dev/zero | tr '\\0' x >&3; "
                            "echo >&3; read x < go-$QUERN_TASK_ID; exit 0")
        note = ("\ufffd and " + "x" * 500).encode()[:256].decode()
        for task_id in ids:
            self.wait_progress(task_id, 7, note)
        for task_id in ids:
            self.write_fifo(f"go-{task_id}", "go\n")
        for task_id in ids:
            self.wait_state(task_id, "gone")
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertEqual(log.count("progress of a command was cut or is not UTF-8"), 1, log)

    @only("sqlite")
    def test_flood_leaves_the_worker_and_its_other_commands_alone(self):
        self.fifo("go")
        task_id = self.enqueue("flood")
        worker = self.start("work", "--concurrency", "2", "--exec",
                            "flood=yes '7 many' >&3 & read x < go; exit 0", "--exec", "t=true")
        self.wait_progress(task_id, 7, "many")
        for _ in range(3):
            self.wait_state(self.enqueue("t"), "gone")
        self.assertEqual(self.state(task_id), "active")
        self.write_fifo("go", "go\n")
        self.wait_state(task_id, "gone")
        self.assertEqual(self.stop(worker), 0)

    @only("sqlite")
    def test_flood_ends_at_a_cancellation(self):
        task_id = self.enqueue("flood")
        worker = self.start("work", "--exec", "flood=exec yes '7 many' >&3")
        self.wait_progress(task_id, 7, "many")
        self.ok("task", "cancel", task_id)
        self.assertIn("cancelled", self.wait_state(task_id, "retry")["error"])
        self.assertEqual(self.progress(task_id), (None, ""))
        self.assertEqual(self.stop(worker), 0)

    @only("sqlite")
    def test_commands_may_close_it_ignore_it_or_leave_it_to_others(self):
        ids = [self.enqueue(kind) for kind in ("closes", "ignores", "leaves")]
        self.drain("closes=exec 3>&-; true", "ignores=true",
                   "leaves=setsid sh -c 'echo $$ > stranger; exec sleep 1000' "
                   ">/dev/null 2>&1 </dev/null & until [ -s stranger ]; do :; done; exit 0")
        os.kill(int(self.read("stranger")), signal.SIGKILL)  # it was not waited for
        self.assertEqual([self.state(task_id) for task_id in ids], ["gone"] * 3)

    @only("sqlite")
    def test_a_command_has_no_descriptor_of_another_one(self):
        self.fifo("go")
        first = self.enqueue("waits")
        worker = self.start("work", "--concurrency", "2", "--exec", "waits=echo 1 >&3; read x < go",
                            "--exec", "lists=ls /proc/self/fd > seen; true")
        self.wait_progress(first, 1, "")
        self.wait_state(self.enqueue("lists"), "gone")
        self.assertEqual(self.read("seen").split(), ["0", "1", "2", "3", "4"])  # that of ls
        self.write_fifo("go", "go\n")
        self.wait_state(first, "gone")
        self.assertEqual(self.stop(worker), 0)

    def test_progress_of_a_worker_that_was_killed_is_gone_in_the_next_run(self):
        self.fifo("never")
        self.write("writes", "")
        task_id = self.enqueue("t")
        command = "t=[ ! -e writes ] || echo '50 half' >&3; echo $$ >> began; exec cat never"
        worker = self.start("work", "--lease", "1s", "--exec", command)
        self.wait_progress(task_id, 50, "half")
        worker.kill()
        self.end(worker)
        os.remove(self.path("writes"))
        self.start("work", "--lease", "1s", "--exec", command)
        self.until(lambda: self.read("began").count("\n") == 2, "it runs again")
        task = self.task(task_id)
        self.assertEqual((task["state"], task["progress"], task["progress_note"]),
                         ("active", None, ""))


if __name__ == "__main__":
    lib_cli.main()
