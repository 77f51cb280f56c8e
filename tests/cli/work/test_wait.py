#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern enqueue --wait and quern task wait: a task has result and exit code as a command has."""

import json
import signal

import lib_cli
from lib_cli import (CliTest, EXIT_BROKER, EXIT_FAILURE, EXIT_TASKS_FAILED, EXIT_TEMPORARY,
                     EXIT_USAGE, only)


class EnqueueWaitTest(CliTest):
    def test_result_is_printed_byte_by_byte(self):
        worker = self.start("work", "--exec", "t=read n; printf $((n * 2))")
        result = self.quern("enqueue", "t", "21", "--wait")
        self.assertEqual((result.returncode, result.stdout), (0, "42"))
        self.assertEqual(self.stop(worker), 0)

    def test_failed_task_is_exit_code_3_with_its_error(self):
        worker = self.start("work", "--exec", "t=echo no such user >&2; exit 65")
        result = self.quern("enqueue", "t", "--wait", "--id", "i")
        self.assertEqual((result.returncode, result.stdout), (EXIT_TASKS_FAILED, ""))
        self.assertIn("quern: enqueue: task i is archived: ", result.stderr)
        self.assertIn("no such user", result.stderr)
        self.assertEqual(self.stop(worker), 0)

    def test_retries_are_waited_for(self):
        worker = self.start("work", "--exec", "t=test -e there && echo at last || touch there; "
                            "test -e done || { touch done; exit 75; }")
        text = self.ok("enqueue", "t", "--wait", "--backoff", "fixed:1s")
        self.assertEqual(text, "at last")
        self.assertEqual(self.stop(worker), 0)

    def test_json_is_the_task_as_it_ended(self):
        worker = self.start("work", "--exec", "t=cat")
        task = self.json("enqueue", "t", "x", "--wait")
        self.assertEqual((task["state"], task["result"], task["existing"]),
                         ("completed", "x", False))
        self.assertEqual(task["retention_ms"], 600000)
        self.assertEqual(self.json("enqueue", "t", "--wait", "--retention", "1h")["retention_ms"],
                         3600000)
        self.assertEqual(self.stop(worker), 0)

    def test_time_is_over(self):
        result = self.quern("--json", "enqueue", "t", "--wait", "--wait-timeout", "100ms")
        self.assertEqual(result.returncode, EXIT_TEMPORARY)
        self.assertIn("has not ended after", result.stderr)
        task = json.loads(result.stdout)
        self.assertEqual(self.state(task["id"]), "pending")

    def test_worker_that_is_killed_meanwhile(self):
        self.fifo("held")
        first = self.start("work", "--exec", "t=cat held")
        waiter = self.start("enqueue", "t", "--wait", "--id", "i")
        self.wait_state("i", "active")
        second = self.start("work", "--exec", "t=echo second")
        self.stop(first, signal.SIGKILL)
        self.assertEqual(waiter.communicate(timeout=lib_cli.PATIENCE_S)[0], "second\n")
        self.assertEqual(waiter.returncode, 0)
        self.assertEqual(self.stop(second), 0)

    def test_existing_task_is_waited_for(self):
        self.enqueue("t", "1", "--unique", "1h", "--retention", "1h", "--id", "first")
        waiter = self.start("--json", "enqueue", "t", "1", "--unique", "1h", "--on-duplicate",
                            "ignore", "--wait")
        self.drain("t=cat")
        task = json.loads(waiter.communicate(timeout=lib_cli.PATIENCE_S)[0])
        self.assertEqual((task["id"], task["existing"], task["result"]), ("first", True, "1"))

    @only("sqlite")
    def test_lines_that_are_refused(self):
        self.fails(EXIT_USAGE, "enqueue", "--from", "-", "--wait")
        self.fails(EXIT_USAGE, "enqueue", "t", "--wait-timeout", "1s")


class TaskWaitTest(CliTest):
    def test_one_task(self):
        task_id = self.enqueue("t", "x", "--retention", "1h")
        waiter = self.start("task", "wait", task_id)
        self.drain("t=cat")
        self.assertEqual(waiter.communicate(timeout=lib_cli.PATIENCE_S)[0], "x")
        self.assertEqual(waiter.returncode, 0)

    def test_several_tasks_and_the_worst_exit_code(self):
        for name in ("a", "b"):
            self.enqueue(name, "--retention", "1h", "--id", name)
        waiter = self.start("task", "wait", "a", "b")
        self.drain("a=exit 65", "b=true")
        self.assertEqual(waiter.communicate(timeout=lib_cli.PATIENCE_S)[0],
                         "a archived\nb completed\n")
        self.assertEqual(waiter.returncode, EXIT_TASKS_FAILED)
        result = self.quern("--json", "task", "wait", "b", "wrong")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        documents = json.loads(result.stdout)
        self.assertEqual(documents[0]["state"], "completed")
        self.assertIn("wrong", documents[1]["error"])

    def test_short_id_that_has_ended_is_answered_at_once(self):
        task_id = self.enqueue("t", "x", "--retention", "1h")
        self.drain("t=cat")
        self.assertEqual(self.ok("task", "wait", task_id[:18], "--timeout", "1ms"), "x")

    def test_task_without_retention_is_gone_when_done(self):
        self.enqueue("t", "--id", "i")
        waiter = self.start("task", "wait", "i")
        self.fifo("held")
        worker = self.start("work", "--exec", "t=cat held")
        self.wait_state("i", "active")
        with open(self.path("held"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.end(waiter), EXIT_FAILURE)
        self.assertRegex(self.read(waiter.log_name),  # by when it was looked at first
                         "no task|task i is gone: it is done and has no retention")
        self.assertEqual(self.stop(worker), 0)

    def test_what_cannot_be_waited_for(self):
        self.enqueue("t", "--id", "i")
        self.fails(EXIT_TEMPORARY, "task", "wait", "i", "--timeout", "10ms")
        self.assertIn("no task", self.fails(EXIT_FAILURE, "task", "wait", "wrong"))

    @only("sqlite")
    def test_file_that_is_not_there_is_not_made(self):
        self.fails(EXIT_BROKER, "task", "wait", "i")


if __name__ == "__main__":
    lib_cli.main()
