#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work --exec-loop: processes that stay, and everything that they may do wrong."""

import json
import os
import pathlib
import time

import lib_cli
from lib_cli import is_alive, only
from lib_loop import LoopTest

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples/loop.py"


class StayTest(LoopTest):
    def work(self, *options, command="t=exec python3 loop.py"):
        return self.start("work", "--concurrency", "1", "--exec-loop", command, *options)

    def pids(self):
        return self.read("pids").split() if os.path.exists(self.path("pids")) else []

    def test_one_process_runs_many_tasks_and_gets_all_about_them(self):
        worker = self.work()
        ids = [self.do("answer(result=task)", options=("--header", "a=b")) for _ in range(8)]
        for task_id in ids:
            result = json.loads(self.wait_state(task_id, "completed")["result"])
            self.assertEqual((result["id"], result["type"], result["queue"]),
                             (task_id, "t", "default"))
            self.assertEqual((result["headers"], result["retry_count"]), ({"a": "b"}, 0))
            self.assert_ran_once(result)
            self.assertGreater(result["deadline_at_ms"] / 1000, time.time())
        self.assertEqual(len(self.pids()), 1)
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.read("ends"), "end of input\n")  # a chance to clean up

    def test_all_outcomes(self):
        worker = self.work()
        ids = {kind: self.do(line) for kind, line in (
            ("text", "answer(result='plain')"),
            ("bytes", "answer(result_base64='AP8=')"),
            ("drop", "answer('drop')"),
            ("archive", "answer('archive', error='no', **{'class': 'http/404'})"),
            ("retry", "answer('retry', error='busy', delay='2h')"),
            ("snooze", "answer('snooze', delay_ms=3600000)"),
            ("stderr", "print('from stderr', file=sys.stderr); answer('retry')"))}
        self.assertEqual(self.wait_state(ids["text"], "completed")["result"], "plain")
        self.assertEqual(self.wait_state(ids["bytes"], "completed")["result_base64"], "AP8=")
        self.wait_state(ids["drop"], "gone")
        self.assertEqual(self.wait_state(ids["archive"], "archived")["error"], "no")
        task = self.wait_state(ids["retry"], "retry")
        self.assertEqual((task["error"], task["retry_count"]), ("busy", 1))
        self.assertGreater(task["due_at_ms"] / 1000, time.time() + 7000)
        task = self.until(lambda: self.task(ids["snooze"])["state"] in ("retry", "scheduled") and
                          self.task(ids["snooze"]), "it is snoozed")
        self.assertEqual(task["retry_count"], 0)
        self.assertGreater(task["due_at_ms"] / 1000, time.time() + 3000)
        self.assertEqual(self.wait_state(ids["stderr"], "retry")["error"], "from stderr")
        self.assertEqual(len(self.pids()), 1)
        self.assertEqual(self.stop(worker), 0)

    def test_progress(self):
        self.fifo("go")
        worker = self.work()
        task_id = self.do("say(progress=40, note='half')", "say(progress=None, note='more')",
                          "open('go').read()", "answer()")
        self.until(lambda: (self.task(task_id)["progress"], self.task(task_id)["progress_note"])
                   == (40, "more"), "the progress is stored")
        self.write("go", "")
        self.wait_state(task_id, "completed")
        self.assertEqual(self.stop(worker), 0)

    def test_large_payloads_and_binary_ones(self):
        worker = self.work()
        text = "answer(result=str(len(text)))#" + "x" * 3000000
        task_id = self.enqueue("t", "-", "--retention", "1h", stdin=text)
        self.assertGreater(int(self.wait_state(task_id, "completed")["result"]), 3000000)
        self.assertEqual(self.stop(worker), 0)

    def test_a_fault_costs_one_run_and_its_process(self):
        worker = self.work()
        faults = [
            ("print('garbage', flush=True)", "it wrote a line that is no JSON object: 'garbage'"),
            ("say(id='other', outcome='done')", "it answered for another task, 'other'"),
            ("answer('perhaps')", "unknown outcome 'perhaps'"),
            ("say(ready=True)", "it was ready a second time"),
            ("say(other=1)", "an object without id, progress or ready"),
            ("say(progress=101)", "its progress is not 0 to 100"),
            ("answer(delay='soon', result=1)", "its delay is no duration"),
            ("print('[' * 100000, flush=True)", "no JSON object"),
            ("sys.stdout.write('x' * 9000000); sys.stdout.flush()", "a line of more than"),
            ("sys.stdout.buffer.write(b'{\"id\":\"\\xff\"}\\n'); sys.stdout.flush()",
             "no JSON object"),
            ("sys.exit(3)", "exit status 3"),
            ("os.close(1); time.sleep(0.01); sys.exit(4)", "exit status 4"),
            ("raise ValueError('no such row')", "ValueError: no such row"),
        ]
        ids = [self.do_once(line) for line, _ in faults]
        self.wait_state(self.do("answer()"), "completed")
        for task_id, (line, words) in zip(ids, faults):
            self.assertIn(words, self.wait_state(task_id, "archived")["error"], line)
        self.assertEqual(len(self.pids()), len(faults) + 1)
        self.assertEqual(self.stop(worker), 0)

    def test_death_by_a_signal_is_a_crash_with_its_facts(self):
        worker = self.work()
        task_id = self.do("if task['cause'] is None:",
                          " print('last words', file=sys.stderr, flush=True)",
                          " os.kill(os.getpid(), signal.SIGSEGV)", "answer()")
        self.wait_state(task_id, "completed")  # it was run again, and no attempt is used up
        self.until(lambda: "run crashed" in self.story(), "it is logged")
        self.assertRegex(self.story(), r"run crashed.*killed by signal 11 \(SIGSEGV\); CPU .*"
                         r" memory .*iB: last words")
        self.assertEqual(self.stop(worker), 0)

    def test_one_that_hangs_is_cancelled_and_killed(self):
        worker = self.work()
        error = self.failed("time.sleep(1000)", options=("--timeout", "1s"))
        self.assertIn("timeout of 1s: killed by signal 15 (SIGTERM)", error)
        self.wait_state(self.do("answer()"), "completed")
        self.wait_state(self.do("signal.signal(signal.SIGTERM, signal.SIG_IGN); answer()"),
                        "completed")
        error = self.failed("time.sleep(1000)", options=("--timeout", "1s"))
        self.assertIn("killed by signal 9 (SIGKILL), it did not end", error)
        self.wait_state(self.do("answer()"), "completed")
        self.assertEqual(self.stop(worker), 0)

    def test_an_answer_after_the_cancellation_counts(self):
        worker = self.work()
        self.wait_state(self.do("signal.signal(signal.SIGTERM, lambda *_: answer(result='late'))",
                                "answer()"), "completed")
        task_id = self.do("time.sleep(1000)", options=("--timeout", "1s"))
        self.assertEqual(self.wait_state(task_id, "completed")["result"], "late")
        self.wait_state(self.do("answer()"), "completed")
        self.assertEqual(len(self.pids()), 2)
        self.assertEqual(self.stop(worker), 0)

    def test_what_happens_between_two_runs_costs_none(self):
        """Each of them has happened before the next task is there, else it would cost that one."""
        worker = self.work()
        self.wait_state(self.do("answer()", "print('too much', flush=True)",
                                "open('said', 'w').close()"), "completed")
        self.until(lambda: os.path.exists(self.path("said")), "it has said too much")
        self.wait_state(self.do("answer()", "os._exit(0)"), "completed")
        pid = int(self.pids()[1])
        self.until(lambda: not is_alive(pid), "it has ended")
        self.wait_state(self.do("answer()"), "completed")
        self.assertEqual(len(self.pids()), 3)
        self.assertNotIn("failed", self.read(worker.log_name))
        self.assertEqual(self.stop(worker), 0)

    def test_a_command_that_cannot_start_fails_with_its_reason_after_growing_pauses(self):
        worker = self.work(command="t=echo no such module >&2; echo >> starts; exit 1")
        ids = [self.do_once("answer()") for _ in range(3)]
        for task_id in ids:
            self.assertEqual(self.wait_state(task_id, "archived")["error"],
                             "'echo no such module >&2; echo >> starts; exit 1' was not ready:"
                             " exit status 1: no such module")
        self.assertEqual(self.read("starts"), "\n" * 3)
        self.assertEqual(self.stop(worker), 0)
        worker = self.work(command="t=echo hello; cat")
        self.assertIn("'echo hello; cat' was not ready: killed by signal 9 (SIGKILL),"
                      " it wrote a line that is no", self.failed("answer()"))
        self.assertEqual(self.stop(worker), 0)

    def test_processes_are_replaced_after_their_runs(self):
        worker = self.work("--exec-loop-runs", "3")
        for _ in range(7):
            self.wait_state(self.do("answer()"), "completed")
        self.assertEqual(len(self.pids()), 3)
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.read("ends"), "end of input\n" * 3)

    @only("sqlite")
    def test_one_that_ignores_the_end_of_its_input_is_terminated(self):
        worker = self.work()
        self.wait_state(self.do("answer()", "time.sleep(1000)"), "completed")
        pid = int(self.pids()[0])
        self.assertEqual(self.stop(worker), 0)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    @only("sqlite")
    def test_processes_die_with_a_worker_that_is_killed(self):
        worker = self.work()
        self.wait_state(self.do("answer()"), "completed")
        pid = int(self.pids()[0])
        worker.kill()
        self.end(worker)
        self.until(lambda: not is_alive(pid), "it is dead")

    def test_the_example(self):
        worker = self.work(command=f"count:=exec python3 {EXAMPLE}")
        task_id = self.enqueue("count:words", "one two three", "--retention", "1h")
        self.assertEqual(json.loads(self.wait_state(task_id, "completed")["result"]), {"words": 3})
        self.assertEqual(self.wait_state(self.enqueue("count:other"), "archived")["error"],
                         "no handler for count:other")
        self.assertEqual(self.stop(worker), 0)

    @only("sqlite")
    def test_wrong_options_are_refused(self):
        for option in ("t", "=x", "t=", "t= "):
            self.assertIn("is not PATTERN=COMMAND",
                          self.fails(lib_cli.EXIT_USAGE, "work", "--exec-loop", option))
        self.fails(lib_cli.EXIT_USAGE, "work", "--exec-loop", "t=x", "--exec", "t=y")


if __name__ == "__main__":
    lib_cli.main()
