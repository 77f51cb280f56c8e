#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work --drain and --until-idle: when they end, and with which exit code."""

import os
import time

import lib_cli
from lib_cli import BROKER, CliTest, EXIT_TASKS_FAILED, EXIT_USAGE


class DrainTest(CliTest):
    def work(self, option, *execs, options=()):
        args = [word for text in execs for word in ("--exec", text)]
        return self.quern("work", option, *args, *options)

    def ends(self, code, option, *execs, options=()):
        result = self.work(option, *execs, options=options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def test_archived_tasks_are_failures_however_they_got_there(self):
        cases = [("t=exit 1", ["--retry", "never"], ()), ("t=exit 65", [], ()),
                 ("t=kill -9 $$", ["--retry", "never"], ()),
                 ("u=true", ["--retry", "never"], ["--unknown", "retry"]),
                 ("u=true", [], ["--unknown", "archive"])]
        for command, task_options, options in cases:
            for option in ("--drain", "--until-idle"):
                with self.subTest(command=command, options=options, option=option):
                    task_id = self.enqueue("t", *task_options)
                    self.enqueue("ok")
                    said = self.ends(EXIT_TASKS_FAILED, option, command, "ok=true",
                                     options=options)
                    self.assertIn("1 task failed, archived", said)
                    self.assertEqual(self.state(task_id), "archived")

    def test_a_task_that_succeeds_in_the_end_has_not_failed(self):
        self.enqueue("t")
        once = "t=test -e tried || { touch tried; exit 75; }"
        worker = self.start("work", "--drain", "--exec", once)
        self.until(lambda: self.counts()["retry"] == 1, "it waits for its retry")
        self.until(lambda: "next_due=20" in self.read(worker.log_name), "the log says until when")
        self.ok("task", "run", "--all", "--state", "retry", "--yes")
        self.assertEqual(self.end(worker), 0, self.read(worker.log_name))
        self.assertNotIn("failed,", self.read(worker.log_name))
        self.assertEqual(self.ends(0, "--drain", "t=true").count("left:"), 0)

    def test_until_idle_leaves_what_is_not_due(self):
        self.enqueue("t", "--in", "1h")
        self.enqueue("t")
        task_id = self.enqueue("bad")
        said = self.ends(EXIT_TASKS_FAILED, "--until-idle", "t=echo ran >> seen", "bad=exit 1")
        self.assertEqual(self.read("seen"), "ran\n")
        self.assertEqual(self.state(task_id), "retry")
        self.assertIn("1 task failed, to be retried", said)
        self.assertRegex(said, r"left: 1 scheduled, 1 retry; the next is due in \d+s \(20\d\d-")
        # What failed before is not a failure of this worker.
        self.assertIn("left: 1 scheduled, 1 retry", self.ends(0, "--until-idle", "t=true"))

    def test_until_idle_runs_what_becomes_due_at_once(self):
        self.enqueue("t", "--at", "@1000000000")
        self.enqueue("chain")
        self.ends(0, "--until-idle", "t=echo ran >> seen", f"chain={self.program} enqueue t")
        self.assertEqual(self.read("seen"), "ran\nran\n")

    def test_until_idle_of_several_queues_one_of_them_paused_one_unknown(self):
        for name in ("a", "b", "c"):
            self.enqueue("t", "--queue", name)
        self.enqueue("other", "--queue", "a")
        self.ok("queue", "pause", "b")
        said = self.ends(0, "--until-idle", "t=echo $QUERN_QUEUE >> seen",
                         options=["--queue", "a", "--queue", "b", "--queue", "missing"])
        self.assertEqual(self.read("seen"), "a\n")
        self.assertIn("left: 1 pending, 1 retry", said)
        self.assertEqual(self.counts("c")["pending"], 1)

    def test_drain_goes_on_while_its_queue_is_paused(self):
        self.enqueue("t")
        self.ok("queue", "pause", "default")
        worker = self.start("work", "--drain", "--exec", "t=true")
        self.until(lambda: "paused=yes" in self.read(worker.log_name), "it says why it waits")
        self.ok("queue", "resume", "default")
        self.assertEqual(self.end(worker), 0)

    def test_second_drain_waits_for_what_the_first_runs_and_until_idle_does_not(self):
        self.fifo("go")
        self.enqueue("t")
        first = self.start("work", "--drain", "--exec", "t=echo on > started; read x < go; exit 65")
        self.until(lambda: self.read("started"), "the task has started")
        self.assertIn("left: 1 active", self.ends(0, "--until-idle", "t=true"))
        second = self.start("work", "--drain", "--exec", "t=true")
        self.until(lambda: "not drained yet" in self.read(second.log_name), "the second waits")
        self.write("go", "go\n")
        self.assertEqual(self.end(first), EXIT_TASKS_FAILED, self.read(first.log_name))
        self.assertEqual(self.end(second), 0, self.read(second.log_name))

    def test_second_drain_takes_over_when_the_first_is_killed(self):
        self.fifo("never")
        self.enqueue("t")
        command = "t=test -e tried || { touch tried; exec cat never; }"
        first = self.start("work", "--drain", "--lease", "1s", "--exec", command)
        self.until(lambda: os.path.exists(self.path("tried")), "the task has started")
        second = self.start("work", "--drain", "--lease", "1s", "--exec", command)
        self.until(lambda: "worker starts" in self.read(second.log_name), "the second runs")
        first.kill()
        self.assertEqual(self.end(second), 0, self.read(second.log_name))
        self.assertEqual(sum(self.counts().values()), 0)

    def test_until_idle_runs_what_a_dead_worker_held(self):
        self.fifo("never")
        self.enqueue("t")
        command = "t=test -e tried || { touch tried; exec cat never; }"
        first = self.start("work", "--lease", "1s", "--exec", command)
        self.until(lambda: os.path.exists(self.path("tried")), "the task has started")
        first.kill()
        self.end(first)
        for _ in range(2):  # on Redis its lease has to run out
            self.ends(0, "--until-idle", command, options=["--lease", "1s"])
            if BROKER == "sqlite":
                break
            self.until(lambda: not self.active_lease(), "the lease is over")
        self.assertEqual(sum(self.counts().values()), 0)

    def active_lease(self):
        """On Redis: whether a lease is not over yet."""
        return self.redis.do("ZCOUNT", "asynq:{default}:lease", int(time.time()), "+inf")

    def test_a_task_that_is_cancelled_and_archived_has_failed(self):
        self.fifo("never")
        task_id = self.enqueue("t")
        worker = self.start("work", "--drain", "--exec", "t=echo on > started; exec cat never")
        self.until(lambda: self.read("started"), "the task has started")
        self.ok("task", "cancel", task_id, "--then", "archive")
        self.assertEqual(self.end(worker), EXIT_TASKS_FAILED, self.read(worker.log_name))

    def test_a_signal_ends_a_drain_by_the_same_rule(self):
        self.enqueue("t", "--in", "1h")
        worker = self.start("work", "--drain", "--exec", "t=true", "--exec", "bad=exit 65")
        self.until(lambda: "not drained yet" in self.read(worker.log_name), "it waits")
        self.assertEqual(self.stop(worker), 0)
        self.assertIn("left: 1 scheduled; the next is due in 5", self.read(worker.log_name))
        worker = self.start("work", "--drain", "--exec", "t=true", "--exec", "bad=exit 65")
        self.wait_state(self.enqueue("bad"), "archived")
        self.assertEqual(self.stop(worker), EXIT_TASKS_FAILED)
        # A worker that does not end by itself has no such rule.
        worker = self.start("work", "--exec", "bad=exit 65")
        self.wait_state(self.enqueue("bad"), "archived")
        self.assertEqual(self.stop(worker), 0)

    def test_both_options_exclude_each_other(self):
        self.fails(EXIT_USAGE, "work", "--drain", "--until-idle", "--exec", "t=true")


if __name__ == "__main__":
    lib_cli.main()
