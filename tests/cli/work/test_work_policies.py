#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work: options of single commands, and a shutdown in stages."""

import os
import signal

from lib_cli import CliTest, EXIT_USAGE, main


class WorkPoliciesTest(CliTest):
    def work(self, *options):
        return self.quern("work", "--until-idle", *options)

    def inspect(self, task):
        return self.json("task", "inspect", task)

    def test_options_are_for_all_commands_or_for_one_pattern(self):
        tasks = {kind: self.enqueue(kind) for kind in ("a", "b")}
        own = self.enqueue("a", "", "--retry-max", "3")
        self.work("--exec", "a=exit 2", "--exec", "b=exit 2", "--retry-max", "b=7",
                  "--retry-max", "never")
        self.assertEqual(self.inspect(tasks["a"])["state"], "archived")
        self.assertEqual(self.inspect(tasks["b"])["state"], "retry")
        self.assertEqual(self.inspect(own)["state"], "retry")  # it was enqueued with its own

    def test_classes_crashes_and_final_failures(self):
        tasks = {kind: self.enqueue(kind) for kind in ("code", "only", "ack", "slow", "crash",
                                                       "drop")}
        self.work("--exec", "code=exit 2", "--no-retry-on", "code=exit/2,exit/3",
                  "--exec", "only=echo error-class=dns >&3; exit 1", "--only-retry", "only=dns",
                  "--exec", "ack=exit 1", "--ack-on", "ack=failure",
                  "--exec", "slow=sleep 60", "--timeout", "slow=100ms", "--ack-on", "slow=timeout",
                  "--exec", "crash=kill -9 $$", "--on-crash", "crash=archive",
                  "--exec", "drop=kill -9 $$", "--on-crash", "drop=drop")
        states = {kind: self.inspect(task)["state"] for kind, task in tasks.items()
                  if kind != "drop"}
        self.assertEqual(states, {"code": "archived", "only": "retry", "ack": "archived",
                                  "slow": "archived", "crash": "archived"})
        self.assertEqual(self.inspect(tasks["code"])["error"],
                         'class "exit/2" is not retried: exit status 2')
        self.assertNotEqual(self.quern("task", "inspect", tasks["drop"]).returncode, 0)

    def test_limits_of_a_pattern(self):
        """Those of the task come first."""
        for kind in ("cpu", "memory", "free"):
            self.enqueue(kind, "--id", kind)
        self.enqueue("memory", "--id", "own", "--memory", "4G", "--retention", "1h")
        show = "ulimit -v >&2; exit 1"
        self.work("--exec", "cpu=while :; do :; done", "--cpu", "cpu=1s", "--exec",
                  "memory=" + show, "--memory", "memory=2G", "--exec", "free=" + show)
        self.assertIn("CPU limit", self.inspect("cpu")["error"])
        self.assertIn("exit status 1: 2097152", self.inspect("memory")["error"])
        self.assertIn("exit status 1: 4194304", self.inspect("own")["error"])
        self.assertIn("exit status 1: unlimited", self.inspect("free")["error"])

    def test_early_acks_are_at_most_once(self):
        self.write("runs", "")
        for kind in ("early", "late"):
            self.enqueue(kind, "--id", kind)
        self.work("--exec", f"early='{self.program}' task inspect early >&2; echo >>runs; exit 1",
                  "--exec", "late=exit 1", "--ack", "early", "--ack", "late=late")
        self.assertEqual(self.state("early"), "gone")
        self.assertEqual(self.state("late"), "retry")
        self.work("--exec", "early=echo >>runs")
        self.assertEqual(self.read("runs"), "\n")

    def test_commands_that_stay_have_them_too(self):
        script = self.write("loop.py", """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    task = json.loads(line)
    if task["type"] == "slow":
        time.sleep(60)
    if task["type"] == "crash":
        os.kill(os.getpid(), 9)
    print(json.dumps({"id": task["id"], "outcome": "retry", "error": "no",
                      "class": "dns"}), flush=True)
""")
        kinds = ("no", "few", "slow", "crash")
        tasks = {kind: self.enqueue(kind) for kind in kinds}
        command = f"exec python3 {script}"
        words = [word for kind in kinds for word in ("--exec-loop", f"{kind}={command}")]
        self.work(*words, "--no-retry-on", "no=dns", "--retry-max", "few=never", "--timeout",
                  "slow=200ms", "--kill-after", "100ms", "--ack-on", "slow=timeout",
                  "--on-crash", "crash=archive", "--type-concurrency", "1")
        found = {kind: self.inspect(task) for kind, task in tasks.items()}
        self.assertEqual({kind: task["state"] for kind, task in found.items()},
                         dict.fromkeys(kinds, "archived"), found)
        self.assertEqual(found["no"]["error"], 'class "dns" is not retried: no')

    def test_backoff_of_a_command_and_of_a_task(self):
        first = self.enqueue("t")
        own = self.enqueue("t", "", "--backoff", "fixed:3h")
        self.work("--exec", "t=exit 1", "--backoff", "fixed:1h")
        due = {task: self.inspect(task)["due_at_ms"] for task in (first, own)}
        self.assertGreater(due[own] - due[first], 7000000)
        self.assertLess(due[own] - due[first], 7400000)

    def test_a_pattern_runs_one_at_a_time(self):
        for _ in range(6):
            self.enqueue("one")
        lock = self.path("lock")
        result = self.work("--concurrency", "4", "--type-concurrency", "1", "--exec",
                           f"one=mkdir {lock} && sleep 0.05 && rmdir {lock}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sum(self.counts().values()), 0)

    def test_each_signal_ends_a_stage_of_the_shutdown(self):
        task = self.enqueue("deaf")
        worker = self.start("work", "--shutdown-timeout", "1h", "--soft-shutdown-timeout", "1h",
                            "--kill-after", "1h", "--exec",
                            f"deaf=trap 'touch {self.path('term')}' TERM; touch {self.path('up')};"
                            " while :; do sleep 0.1; done")
        self.until(lambda: self.exists("up"), "the command runs")
        worker.send_signal(signal.SIGTERM)
        self.until(lambda: "worker drains" in self.read(worker.log_name), "the first stage")
        self.assertFalse(self.exists("term"))
        worker.send_signal(signal.SIGTERM)
        self.until(lambda: self.exists("term"), "the second stage")
        self.assertIsNone(worker.poll())
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
        found = self.inspect(task)
        self.assertEqual(found["state"], "pending")
        self.assertEqual(found["retry_count"], 0)

    def exists(self, name):
        return os.path.exists(self.path(name))

    def test_wrong_options_are_refused(self):
        for words in (("--timeout", "x=1s"), ("--timeout", "=1s"), ("--timeout", "0"),
                      ("--timeout", "soon"), ("--kill-after", "a=0"), ("--retry-max", "26"),
                      ("--retry-max", "0"), ("--retry-max", "a=b"), ("--backoff", "fixed"),
                      ("--backoff", "fixed:0"), ("--backoff", "fixed:1s:2s"),
                      ("--backoff", "exponential:2s:1s"), ("--backoff", "a=linear:1s"),
                      ("--no-retry-on", ","), ("--no-retry-on", "a=b c"), ("--ack-on", "crash"),
                      ("--on-crash", "retry"), ("--type-concurrency", "0"),
                      ("--type-concurrency", "a=4097"), ("--prefetch", "65"), ("--cpu", "0"),
                      ("--cpu", "a=soon"), ("--memory", "a=0"), ("--memory", "1X"),
                      ("--ack", "a=never"), ("--ack", ""), ("--child-runs", "5"),
                      ("--child-rss", "1M"),
                      ("--no-retry-on", "x", "--only-retry", "y")):
            self.fails(EXIT_USAGE, "work", "--exec", "a=true", *words)
        self.fails(EXIT_USAGE, "enqueue", "t", "--backoff", "quick")


if __name__ == "__main__":
    main()
