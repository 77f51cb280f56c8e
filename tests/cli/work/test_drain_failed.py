#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work --drain and --until-idle: tasks that have failed without a run that failed, and many
that have failed."""

import os
import time

import lib_cli
from lib_cli import CliTest, EXIT_TASKS_FAILED, only


class DrainFailedTest(CliTest):
    def ends(self, code, option, *execs, options=()):
        args = [word for text in execs for word in ("--exec", text)]
        result = self.quern("work", option, *args, *options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def enqueue_late(self):
        """Two tasks whose deadline is over by now; it must not be when they are stored, so a busy
        machine gets a later one. Gives their ids."""
        for ahead_s in (2, 10, 30):
            ends = int(time.time()) + ahead_s
            lines = f'{{"type": "t", "deadline": "@{ends}"}}\n' * 2
            stored = self.quern("enqueue", "--from", "-", stdin=lines)
            if stored.returncode == 0:
                self.until(lambda ends=ends: time.time() > ends, "the deadline is over")
                return [task["id"] for task in self.json("task", "list", "--state", "pending")]
        return self.fail(stored.stderr)

    def test_a_task_whose_deadline_is_over_before_its_run_has_failed(self):
        for option in ("--drain", "--until-idle"):
            with self.subTest(option=option):
                task_ids = self.enqueue_late()
                self.enqueue("ok")
                said = self.ends(EXIT_TASKS_FAILED, option, "t=echo ran > seen", "ok=true")
                self.assertIn("2 tasks failed, archived", said)
                self.assertIn("their deadline was over before a run", said)
                self.assertIn("done 1, retried 0, archived 2,", said)
                for task_id in task_ids:
                    self.assertEqual(self.state(task_id), "archived")
                self.assertEqual(self.read("seen"), "")

    def test_a_task_that_died_with_its_worker_and_its_last_attempt_has_failed(self):
        self.fifo("never")
        task_id = self.enqueue("t", "--retry", "never")
        command = "t=touch tried; exec cat never"
        first = self.start("work", "--lease", "1s", "--exec", command)
        self.until(lambda: os.path.exists(self.path("tried")), "the task has started")
        first.kill()
        self.end(first)
        self.assertIn("1 task failed, archived", self.ends(EXIT_TASKS_FAILED, "--drain", command))
        self.assertEqual(self.state(task_id), "archived")

    def many(self, count):
        """Tasks that fail without a process for each of them."""
        self.ok("enqueue", "--from", "-", stdin='{"type": "t"}\n' * count)

    @only("sqlite")
    def test_more_than_1000_failed_tasks_are_counted(self):
        self.many(1100)
        said = self.ends(EXIT_TASKS_FAILED, "--until-idle", "u=true",
                         options=["--unknown", "retry"])
        self.assertIn("1100 tasks failed, to be retried", said)

    @only("sqlite")
    def test_more_than_1000_failed_tasks_that_are_gone_have_not_failed(self):
        self.many(1100)
        worker = self.start("work", "--drain", "--exec", "u=true", "--unknown", "retry")
        self.until(lambda: self.counts()["retry"] == 1100, "all have failed")
        self.ok("task", "delete", "--all", "--state", "retry", "--yes")
        self.assertEqual(self.end(worker), 0, self.read(worker.log_name))
        self.assertNotIn("failed,", self.read(worker.log_name))


if __name__ == "__main__":
    lib_cli.main()
