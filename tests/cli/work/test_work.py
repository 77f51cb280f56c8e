#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work: shell commands as handlers, their verdicts, and the end of a worker."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import time

import lib_cli
from lib_cli import CliTest, PATIENCE_S, EXIT_USAGE, is_alive, only
from lib_quern import FULL


class VerdictTest(CliTest):
    def test_exit_0_is_done_and_the_task_is_gone(self):
        task_id = self.enqueue("t", "hello")
        self.drain("t=cat > seen")
        self.assertEqual(self.read("seen"), "hello")
        self.assertEqual(self.state(task_id), "gone")

    def test_exit_75_is_retried(self):
        task_id = self.enqueue("t")
        worker = self.start("work", "--exec", "t=echo not now >&2; exit 75")
        task = self.wait_state(task_id, "retry")
        self.assertEqual(task["retry_count"], 1)
        self.assertIn("not now", task["error"])
        self.assertEqual(self.stop(worker), 0)

    def test_exit_65_is_archived_though_retries_are_left(self):
        task_id = self.enqueue("t")
        self.drain("t=echo bad address >&2; exit 65")
        task = self.task(task_id)
        self.assertEqual((task["state"], task["retry_count"]), ("archived", 0))
        self.assertIn("bad address", task["error"])

    def test_other_exit_codes_are_failures(self):
        task_id = self.enqueue("t", "--retry", "never")
        self.drain("t=exit 3")
        task = self.task(task_id)
        self.assertEqual(task["state"], "archived")
        self.assertIn("3", task["error"])

    def test_last_lines_of_stderr_become_the_error(self):
        task_id = self.enqueue("t", "--retry", "never")
        self.drain("t=seq 100000 >&2; echo the last word >&2; exit 1")
        error = self.task(task_id)["error"]
        self.assertIn("the last word", error)
        self.assertLess(len(error), 5000)

    def test_stdout_is_the_result_with_retention_only(self):
        kept = self.enqueue("t", "21", "--retention", "1h")
        lost = self.enqueue("t", "21")
        self.drain("t=read n; echo $((n * 2))", options=["--verbose"])
        task = self.task(kept)
        self.assertEqual((task["state"], task["result"]), ("completed", "42\n"))
        self.assertEqual(self.state(lost), "gone")

    def test_environment_tells_the_task(self):
        task_id = self.enqueue("mail:welcome", "--queue", "q")
        self.drain("mail:=env > seen", options=["--queue", "q"])
        seen = dict(line.split("=", 1) for line in self.read("seen").splitlines() if "=" in line)
        self.assertEqual(seen["QUERN_TASK_ID"], task_id)
        self.assertEqual(seen["QUERN_TASK_TYPE"], "mail:welcome")
        self.assertEqual(seen["QUERN_QUEUE"], "q")
        self.assertEqual(seen["QUERN_RETRY_COUNT"], "0")
        self.assertGreater(int(seen["QUERN_FENCE"]), 0)

    def test_longest_pattern_wins_and_ends_at_the_first_equals_sign(self):
        for kind in ("a", "a:b", "a:b:c", "a:x"):
            self.enqueue(kind)
        self.drain("a=echo exact >> seen", "a:=echo prefix >> seen", "a:b=X=long; echo $X >> seen")
        self.assertEqual(sorted(self.read("seen").split()),
                         ["exact", "long", "long", "prefix"])

    def test_star_serves_every_other_type(self):
        for kind in ("a", "b:c", "größe"):
            self.enqueue(kind)
        self.drain("a=echo a >> seen", "*=echo $QUERN_TASK_TYPE >> seen")
        self.assertEqual(sorted(self.read("seen").split()), ["a", "b:c", "größe"])

    def test_star_at_the_end_of_a_pattern_is_explained(self):
        result = self.quern("work", "--drain", "--exec", "mail:*=true")
        self.assertIn("write 'mail:'", result.stderr)

    def test_type_without_pattern_is_left_to_others(self):
        task_id = self.enqueue("other", "--retry", "never")
        worker = self.start("work", "--exec", "t=true")
        task = self.wait_state(task_id, "retry")
        self.assertEqual(task["retry_count"], 0)
        self.assertIn('no handler for type "other"', task["error"])
        self.assertEqual(self.stop(worker), 0)
        self.assertIn('worker serves types=t others=left', self.read(worker.log_name))

    def test_drain_reports_that_nobody_here_serves_what_is_left_and_how_to_end(self):
        self.enqueue("other")
        self.enqueue("t")
        worker = self.start("work", "--drain", "--exec", "t=true")
        self.until(lambda: "retry=1 unserved=1" in self.read(worker.log_name), "it says so")
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertIn("--unknown archive", log)
        self.assertIn("done 1, retried 0, archived 0, given back 0, crashed 0", log)

    def test_type_without_pattern_fails_where_that_is_wanted(self):
        for what in ("retry", "archive"):
            task_id = self.enqueue("other", "--retry", "never")
            self.drain("t=true", options=["--unknown", what])
            self.assertEqual(self.state(task_id), "archived")
        self.fails(EXIT_USAGE, "work", "--exec", "t=true", "--unknown", "drop")

    def test_no_exec_at_all_is_a_usage_error_and_takes_no_task(self):
        task_id = self.enqueue("t")
        self.assertIn("--exec", self.fails(EXIT_USAGE, "work", "--drain"))
        self.assertEqual(self.state(task_id), "pending")

    def run_into_timeout(self, command):
        """Runs a command that shows by the file "set" that it has set its trap. Where the machine
        is too busy for that within the timeout, again with a longer one; gives the task's id."""
        self.fifo("never")
        for timeout in ("500ms", "3s", "20s"):
            task_id = self.enqueue("t", "--timeout", timeout, "--retry", "never")
            self.drain("t=" + command)
            if self.read("set"):
                return task_id
        return self.fail("the command never came to set its trap")

    def test_timeout_sends_term(self):
        task_id = self.run_into_timeout(
            "trap 'echo term > seen; exit 1' TERM; echo on > set; cat never & wait")
        task = self.task(task_id)
        self.assertEqual((task["state"], self.read("seen")), ("archived", "term\n"))
        self.assertRegex(task["error"], "timeout|deadline exceeded")

    def test_timeout_that_ignores_term_gets_kill_for_its_whole_group(self):
        task_id = self.run_into_timeout("trap '' TERM; cat never & echo $! > child; "
                                        "echo $$ > shell; echo on > set; cat never")
        self.assertEqual(self.state(task_id), "archived")
        for name in ("child", "shell"):
            pid = int(self.read(name))
            self.until(lambda pid=pid: not is_alive(pid), f"the {name} is gone")

    def test_json_prints_a_line_for_each_run(self):
        ids = {self.enqueue("t", str(n), "--retry", "never") for n in range(5)}
        ids.add(self.enqueue("bad", "--retry", "never"))
        result = self.quern("--json", "work", "--drain", "--exec", "t=true",
                            "--exec", "bad=echo oh >&2; exit 65")
        runs = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual({run["id"] for run in runs}, ids)
        outcomes = sorted(run["outcome"] for run in runs)
        self.assertEqual(outcomes, ["archive", "done", "done", "done", "done", "done"])
        self.assertTrue(all(run["applied"] for run in runs))


class LimitTest(CliTest):
    def start_limited(self, files, *options):
        """A worker that may have only so many open files."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
        try:
            return self.start("work", *options)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_commands_that_cannot_be_started_cost_their_tasks_nothing(self):
        text = "".join(f'{{"type":"t","payload":"{n}","retry_max":-1}}\n' for n in range(40))
        self.ok("enqueue", "--from", "-", stdin=text)
        self.write("ran", "")
        self.fifo("gate")
        gate = os.open(self.path("gate"), os.O_RDWR)
        self.addCleanup(os.close, gate)
        worker = self.start_limited(64, "--drain", "--concurrency", "20", "--exec",
                                    "t=echo $QUERN_TASK_ID >> ran; read -r line < gate || :")
        self.until(lambda: "commands cannot be started" in self.read(worker.log_name),
                   "it is reported")
        os.write(gate, b"\n" * 100)  # a line for each run
        log = self.read(worker.log_name)
        self.assertIn("64 open files are allowed (RLIMIT_NOFILE), too few for concurrency 20", log)
        self.assertEqual(log.count("commands cannot be started"), 1)
        self.assertIn("Too many open files", log)
        self.assertEqual(self.end(worker), 0)
        ran = self.read("ran").split()
        self.assertEqual((len(ran), len(set(ran))), (40, 40))
        self.assertEqual(sum(self.counts().values()), 0)
        self.assertEqual(self.json("stats")["totals"]["failed_today"], 0)

    @only("sqlite")
    def test_output_beyond_the_limit_is_marked_and_warned_of(self):
        task_id = self.enqueue("t", "--retention", "1h")
        worker = self.quern("work", "--drain", "--exec", "t=head -c 2000000 /dev/zero | tr '\\0' x")
        self.assertIn("output of a command was cut", worker.stderr)
        self.assertIn("dropped_bytes=951424", worker.stderr)
        result = self.task(task_id)["result"]
        self.assertTrue(result.endswith("x\n[quern: cut here, 951424 bytes more]\n"), result[-60:])

    @only("sqlite")
    def test_stderr_of_a_command_that_succeeds_is_logged_on_request(self):
        for options in ((), ("--log-stderr",)):
            with self.subTest(options=options):
                self.enqueue("t")
                log = self.quern("work", "--drain", "--exec", "t=echo a hint >&2", *options).stderr
                self.assertEqual('stderr="a hint"' in log, bool(options), log)


class EndTest(CliTest):
    def test_first_line_names_broker_durability_queues_and_concurrency(self):
        self.enqueue("t", "--queue", "a")  # so the file is there
        result = self.quern("work", "--drain", "--exec", "t=true", "--queue", "a=3", "--queue",
                            "b", "--concurrency", "7", "--strict-priority")
        self.assertEqual(result.returncode, 0)
        first = result.stderr.splitlines()[0]
        for text in (self.broker, "durability D", "a=3", "b=1", "concurrency 7", "strict"):
            self.assertIn(text, first)

    def test_queue_that_does_not_exist_yet_is_named_at_the_start(self):
        self.enqueue("t", "--queue", "mail")
        log = self.quern("work", "--drain", "--exec", "t=true", "--queue", "mail", "--queue",
                         "mial").stderr
        self.assertIn("does not exist yet", log)
        self.assertIn("queue=mial", log)
        self.assertNotIn("queue=mail\n", log)

    @only("sqlite")
    def test_lists_and_patterns_of_queues_are_refused_unless_a_queue_is_named_so(self):
        for name in ("a,b", "*", "mail*=3"):
            with self.subTest(name=name):
                error = self.fails(EXIT_USAGE, "work", "--exec", "t=true", "--queue", name)
                self.assertIn("each queue its own --queue", error)
                self.assertEqual(os.listdir(self.home), [])  # nor is a database made for it
        self.enqueue("t", "--queue", "a,b")
        self.drain("t=echo ran > seen", options=["--queue", "a,b"])
        self.assertEqual(self.read("seen"), "ran\n")

    def test_term_lets_the_running_task_finish(self):
        self.fifo("go")
        task_id = self.enqueue("t")
        worker = self.start("work", "--exec",
                            "t=echo on > started; read x < go; echo end > ended")
        self.until(lambda: self.read("started"), "the task has started")
        worker.send_signal(signal.SIGTERM)
        self.write("go", "go\n")
        self.assertEqual(self.end(worker), 0)
        self.assertEqual(self.read("ended"), "end\n")
        self.assertEqual(self.state(task_id), "gone")

    def test_killed_worker_takes_its_commands_with_it(self):
        self.enqueue("t")
        # The shell does not become the program, since it has more to do.
        worker = self.start("work", "--exec", "t=sh -c 'echo $$ > pid; exec sleep 1000'; true")
        self.until(lambda: self.read("pid").endswith("\n"), "the command has started")
        program = int(self.read("pid"))
        self.assertTrue(is_alive(program))
        worker.kill()
        self.end(worker)
        self.until(lambda: not is_alive(program), "the command is gone")

    def test_second_signal_ends_at_once_and_gives_the_task_back(self):
        self.fifo("never")
        task_id = self.enqueue("t")
        worker = self.start("work", "--shutdown-timeout", "1h", "--exec",
                            "t=echo on > started; exec cat never")
        self.until(lambda: self.read("started"), "the task has started")
        worker.send_signal(signal.SIGINT)
        self.until(lambda: [each for each in self.json("worker", "list")
                                 if each["status"] == "draining"], "the worker drains")
        self.assertEqual(self.stop(worker, signal.SIGINT), 0)
        task = self.task(task_id)
        self.assertEqual((task["state"], task["retry_count"]), ("pending", 0))

    @only("sqlite")
    def test_signal_before_the_worker_serves_ends_it_as_one_after_that(self):
        self.ok("db", "init")
        for _ in range(5):
            worker = self.start("work", "--exec", "t=true")
            self.until(lambda: self.read(worker.log_name), "its first line")
            self.assertEqual(self.stop(worker), 0, self.read(worker.log_name))
            self.assertIn("done 0, retried 0,", self.read(worker.log_name))

    @only("sqlite")
    def test_signal_that_its_parent_has_blocked_ends_it_too(self):
        self.ok("db", "init")
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            worker = self.start("work", "--exec", "t=true")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.assertEqual(self.stop(worker), 0)  # wherever it is by now
        self.assertIn("done 0, retried 0,", self.read(worker.log_name))

    @only("sqlite")
    def test_strict_is_another_name_of_strict_priority(self):
        self.enqueue("t")
        result = self.quern("work", "--until-idle", "--exec", "t=true", "--strict")
        self.assertEqual(result.returncode, 0)
        self.assertIn(", strict", result.stderr.splitlines()[0])

    @only("sqlite")
    def test_hup_and_quit_drain_as_term_does(self):
        for number in (signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number=number):
                self.fifo(f"go{number}")
                task_id = self.enqueue("t")
                worker = self.start("work", "--exec", f"t=echo on > on{number}; read x < "
                                    f"go{number}")
                self.until(lambda: self.read(f"on{number}"), "the task has started")
                worker.send_signal(number)
                self.until(lambda: "1 run left, 8 s; again to stop now" in
                                self.read(worker.log_name), "the drain says what is left")
                self.write(f"go{number}", "go\n")
                self.assertEqual(self.end(worker), 0)
                self.assertEqual(self.state(task_id), "gone")

    @only("sqlite")
    def test_hup_can_be_kept_for_reloading_which_reports_that_there_is_nothing(self):
        self.ok("db", "init")
        worker = self.start("work", "--exec", "t=true", "--on-hup", "reload")
        self.until(lambda: "worker starts" in self.read(worker.log_name), "it runs")
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: "nothing to reload" in self.read(worker.log_name), "it says so")
        self.wait_state(self.enqueue("t"), "gone")
        self.assertEqual(self.stop(worker), 0)

    @only("sqlite")
    def test_cont_takes_tasks_again_after_tstp(self):
        self.ok("db", "init")
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: "worker starts" in self.read(worker.log_name), "it runs")
        worker.send_signal(signal.SIGTSTP)
        self.until(lambda: "worker is quiet" in self.read(worker.log_name), "it is quiet")
        task_id = self.enqueue("t")
        worker.send_signal(signal.SIGCONT)
        self.wait_state(task_id, "gone")
        self.until(lambda: "worker takes tasks again" in self.read(worker.log_name), "it says so")
        self.assertEqual(self.stop(worker), 0)

    @only("sqlite")
    def test_usr1_logs_what_runs(self):
        self.fifo("never")
        task_id = self.enqueue("t")
        worker = self.start("work", "--exec", "t=echo on > started; exec cat never")
        self.until(lambda: self.read("started"), "the task has started")
        worker.send_signal(signal.SIGUSR1)
        self.until(lambda: f"id={task_id}" in self.read(worker.log_name), "it is named")
        self.assertIn("worker state", self.read(worker.log_name))
        worker.send_signal(signal.SIGTERM)
        self.until(lambda: "1 run left" in self.read(worker.log_name), "it drains")
        worker.send_signal(signal.SIGUSR1)
        self.until(lambda: self.read(worker.log_name).count("worker state") == 2,
                        "a worker that drains says what it waits for")
        self.assertEqual(self.stop(worker), 0)

    def test_signals_that_end_nothing_do_no_harm_until_the_process_is_gone(self):
        self.ok("db", "init")
        # The search for leaks at the end stops all threads, and never ends under such a rain.
        self.env["ASAN_OPTIONS"] = self.env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: self.json("worker", "list"), "the worker has announced itself")
        worker.send_signal(signal.SIGTERM)
        ends = time.monotonic() + PATIENCE_S
        while worker.poll() is None and time.monotonic() < ends:
            for number in (signal.SIGUSR1, signal.SIGTSTP, signal.SIGCONT):
                worker.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(0.0005)  # it wants to get on meanwhile
        self.assertEqual(self.end(worker), 0)

    def test_tstp_takes_no_more_tasks(self):
        self.ok("db", "init")
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: self.json("worker", "list"), "the worker has announced itself")
        worker.send_signal(signal.SIGTSTP)
        self.until(lambda: [each for each in self.json("worker", "list")
                                 if each["status"] == "quiet"], "the worker is quiet")
        task_id = self.enqueue("t")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.state(task_id), "pending")

    def test_reader_of_the_log_that_goes_away_does_not_end_the_worker(self):
        self.ok("db", "init")
        worker = self.start("--json", "work", "--exec", "t=true")
        worker.stdout.close()
        worker.stdout = None
        for _ in range(3):
            self.wait_state(self.enqueue("t"), "gone")
        self.assertEqual(self.stop(worker), 0)

    def test_groups_without_aggregator_are_reported(self):
        task_id = self.enqueue("t", "--group", "g")
        result = self.quern("work", "--drain", "--exec", "t=true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("1 task in groups", result.stderr)
        self.assertIn("aggregator", result.stderr)
        self.assertEqual(self.state(task_id), "aggregating")

    def test_delayed_tasks_hold_a_drain_up(self):
        self.enqueue("t", "--in", "700ms")
        self.drain("t=echo ran > seen")
        self.assertEqual(self.read("seen"), "ran\n")

    def test_two_workers_drain_many_tasks_none_twice(self):
        count = 1000 if FULL else 200
        text = "".join(f'{{"type":"n","payload":"{n}"}}\n' for n in range(count))
        self.ok("enqueue", "--from", "-", stdin=text)
        ids = sorted(task["id"] for task in self.json("task", "list", "--size", "10000"))
        self.write("ran", "")
        workers = [self.start("work", "--drain", "--exec",
                              "n=read -r n; echo $QUERN_TASK_ID >> ran") for _ in range(2)]
        for part in range(100, count + 1, 100):  # each in its time: the machine may be busy
            self.until(lambda: self.read("ran").count("\n") >= part, f"{part} are run")
        for worker in workers:
            self.assertEqual(self.end(worker), 0, self.read(worker.log_name))
        self.assertEqual(sorted(self.read("ran").split()), ids)
        self.assertEqual(sum(self.counts().values()), 0)
        self.assertEqual(self.json("stats")["totals"]["processed_today"], count)
        self.ok("doctor")


if __name__ == "__main__":
    lib_cli.main()
