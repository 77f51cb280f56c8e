#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work --exec-loop: commands that never start, and processes that break the protocol in every
way: each costs one run at most, the slot is free again, and the next task gets a new process."""

import os
import time

import lib_cli
from lib_loop import LoopTest, SCRIPT

READY = "echo '{\"ready\":true}';"


class HostileLoopTest(LoopTest):
    def work(self, command, *options):
        return self.start("work", "--concurrency", "1", "--exec-loop", f"t={command}", *options)

    def work_script(self, *options, before=""):
        return self.work(before + "exec python3 loop.py", *options)

    def starts(self):
        return len(self.read("starts")) if os.path.exists(self.path("starts")) else 0

    # --- Commands that do not start ---

    def test_one_that_is_never_ready_is_named_and_ended(self):
        worker = self.work("echo $$ >> pids; exec sleep 1000", "--exec-loop-start", "200ms")
        self.assertEqual(self.failed("answer()"),
                         "'echo $$ >> pids; exec sleep 1000' was not ready: killed by signal 9"
                         " (SIGKILL), it did not write the line {\"ready\":true} within 200ms")
        pid = int(self.read("pids"))
        self.until(lambda: not os.path.exists(f"/proc/{pid}"), "it is dead")
        self.assertIn("was not ready", self.read(worker.log_name))
        self.assertEqual(self.stop(worker), 0)

    def test_one_that_dies_of_a_signal_before_its_task_is_no_crash(self):
        for before in ("", READY):  # the second could have taken a task, and did not
            worker = self.work(before + "kill -SEGV $$")
            task_id = self.do("answer()", options=("--retry", "never"))
            task = self.wait_state(task_id, "archived")
            self.assertIn("took no task" if before else "was not ready", task["error"])
            self.assertIn("killed by signal 11 (SIGSEGV)", task["error"])
            self.assertEqual(task["crash_count"], 0)
            self.assertNotIn("crashed", self.read(worker.log_name))
            self.assertEqual(self.stop(worker), 0)

    def test_starts_that_fail_are_further_and_further_apart(self):
        worker = self.work("printf x >> starts; exit 1")
        began = time.monotonic()
        for _ in range(4):
            self.failed("answer()")
        self.assertGreater(time.monotonic() - began, 0.7)  # 100, 200 and 400 ms
        self.assertEqual(self.starts(), 4)
        self.assertEqual(self.stop(worker), 0)

    def test_no_task_is_lost_while_a_command_is_mended(self):
        worker = self.work("[ -e ok ] || exit 1; exec python3 loop.py")
        ids = [self.do("answer()", options=("--backoff", "fixed:200ms")) for _ in range(3)]
        self.until(lambda: "was not ready" in self.read(worker.log_name), "one start has failed")
        self.write("ok", "")
        for task_id in ids:
            self.assertEqual(self.wait_state(task_id, "completed")["crash_count"], 0)
        self.assertEqual(self.stop(worker), 0)

    def test_the_start_is_no_part_of_the_timeout(self):
        worker = self.work_script(before="sleep 1.5; ")
        task_id = self.do("answer(result=task['deadline_at_ms'] - int(time.time() * 1000))",
                          options=("--timeout", "1s", "--retry", "never"))
        left_ms = int(self.wait_state(task_id, "completed")["result"])
        self.assertLessEqual(left_ms, 1000)
        self.assertGreater(left_ms, 0)
        self.assertIn("timeout of 1s", self.failed("time.sleep(1000)", options=("--timeout", "1s")))
        self.assertEqual(self.stop(worker), 0)

    def test_it_gets_no_new_rights_if_that_is_wanted(self):
        worker = self.work_script("--no-new-privs")
        task_id = self.do("answer(result=open('/proc/self/status').read())")
        self.assertRegex(self.wait_state(task_id, "completed")["result"], r"NoNewPrivs:\s+1\n")
        self.assertEqual(self.stop(worker), 0)

    def test_the_stop_of_the_worker_ends_a_start(self):
        worker = self.work("echo $$ >> pids; exec sleep 1000", "--shutdown-timeout", "100ms")
        task_id = self.do("answer()")
        self.until(lambda: os.path.exists(self.path("pids")) and self.read("pids"), "it starts")
        self.assertEqual(self.stop(worker), 0)
        task = self.task(task_id)
        self.assertEqual((task["state"], task["retry_count"], task["crash_count"]),
                         ("pending", 0, 0))

    # --- Processes that break the protocol ---

    def test_each_breach_costs_one_run_and_says_why(self):
        self.write("loop.py", "import subprocess\n"
                   "def sleep(**options):\n"
                   "    child = subprocess.Popen(['sleep', '1000'], **options)\n"
                   "    print(child.pid, file=open('sleepers', 'a'), flush=True)\n" + SCRIPT)
        worker = self.work_script()
        faults = [
            ("sys.stdout.write(json.dumps({'id': task['id'], 'outcome': 'done'}))"
             "; sys.stdout.flush(); os._exit(0)", "exit status 0, in the middle of a line"),
            ("os._exit(0)", "exit status 0, without an answer"),
            ("sys.stdout.buffer.write(b'\\0' * 100 + b'\\n'); sys.stdout.flush()",
             "no JSON object"),
            ("print(json.dumps({'id': task['id'], 'outcome': 'done'}) + '\\0', flush=True)",
             "no JSON object"),
            ("say(id=task['id'] + '\\0x', outcome='done')", "it answered for another task"),
            ("answer('done\\0x')", "unknown outcome"),
            ("answer('retry', **{'class': 'a\\0b'})", "its class is not"),
            ("say(id=task['id'], outcome='done', result='\\ud800')", "no JSON object"),
            ("print('{\"id\":\"' + task['id'] + '\",\"id\":\"x\",\"outcome\":\"done\"}',"
             " flush=True)", "no JSON object"),
            ("sys.stdout.write('x' * 100000000); sys.stdout.flush()", "a line of more than"),
            ("os.close(1); time.sleep(1000)", "it closed its output and went on"),
            ("sleep(start_new_session=True); os._exit(3)", "exit status 3"),
            ("sleep(); os._exit(4)", "exit status 4"),
        ]
        for line, words in faults:
            began = time.monotonic()
            self.assertIn(words, self.failed(line), line)
            self.assertLess(time.monotonic() - began, 20, line)  # its timeout is half an hour
            self.assertEqual(self.wait_state(self.do("answer()"), "completed")["error"], "")
        daemon, other = [int(word) for word in self.read("sleepers").split()]
        self.until(lambda: not os.path.exists(f"/proc/{other}"), "its group is dead")
        os.kill(daemon, 9)  # a session of its own: left behind on purpose
        self.assertEqual(self.stop(worker), 0)

    def test_what_comes_after_the_answer_costs_no_run_and_is_reported_once(self):
        worker = self.work_script()
        for line in ("answer(); answer()", "answer(); print('more', flush=True)",
                     "answer(); sys.stdout.write('x' * 10000000)"):
            self.wait_state(self.do(line), "completed")
        self.wait_state(self.do("answer()"), "completed")
        log = self.read(worker.log_name)
        self.assertNotIn("failed", log)
        self.assertEqual(log.count("it has written something after its answer"), 1)
        self.assertEqual(self.stop(worker), 0)

    def test_one_that_no_longer_reads_costs_no_run(self):
        worker = self.work_script()
        for line in ("answer(); os.close(0); time.sleep(1000)", "answer(); os._exit(0)",
                     "answer(); os.kill(os.getpid(), signal.SIGKILL)"):
            self.wait_state(self.do(line, options=("--retry", "never")), "completed")
            task = self.wait_state(self.do("answer()", options=("--retry", "never")), "completed")
            self.assertEqual(task["crash_count"], 0)
        self.assertNotIn("crashed", self.read(worker.log_name))
        self.assertEqual(self.stop(worker), 0)

    def test_one_that_never_reads_is_ended_with_the_timeout(self):
        worker = self.work(READY + "exec sleep 1000", "--exec-loop-runs", "5")
        error = self.failed("answer()", options=("--timeout", "1s"))
        self.assertIn("timeout of 1s: killed by signal 15", error)
        self.assertEqual(self.stop(worker), 0)

    def test_one_that_closes_its_input_took_no_task(self):
        worker = self.work(READY + "exec <&-; exec sleep 1000")
        self.assertIn("took no task: killed by signal 9 (SIGKILL), it closed its input or output",
                      self.failed("answer()"))
        self.assertEqual(self.stop(worker), 0)

    def test_one_that_closes_its_input_after_it_read_may_answer(self):
        worker = self.work_script()
        self.wait_state(self.do("os.close(0); time.sleep(1.5); answer()",
                                options=("--retry", "never")), "completed")
        self.wait_state(self.do("answer()"), "completed")
        self.assertEqual(self.stop(worker), 0)


if __name__ == "__main__":
    lib_cli.main()
