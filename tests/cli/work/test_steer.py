#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern worker quiet, resume, stop, resize and log-level: commands to a worker through the broker,
and what they say of a worker that does not answer."""

import json
import os
import signal
import time

import lib_cli
from lib_cli import (CliTest, EXIT_FAILURE, EXIT_TEMPORARY, EXIT_USAGE, only)

COUNT = 6  # tasks that are held at once


class SteerTest(CliTest):
    def work(self, *args):
        """A worker whose runs wait at a pipe of their own; gives its process and its id."""
        before = {worker["id"] for worker in self.json("worker", "list")}
        process = self.start("work", "--exec", 't=touch began-"$QUERN_TASK_ID"; '
                             'cat held-"$QUERN_TASK_ID"', "--exec", "quick=true", *args)
        found = self.until(lambda: [worker for worker in self.json("worker", "list")
                                    if worker["id"] not in before], "the worker is there")
        return process, found[0]["id"]

    def setUp(self):
        super().setUp()
        self.enqueue("none", "--queue", "other", "--delay", "1d")  # so that there is a broker

    def hold(self, count=COUNT):
        for number in range(count):
            self.fifo(f"held-{number}")
            self.enqueue("t", "--id", str(number), "--timeout", "5m")

    def let_go(self, number):
        with open(self.path(f"held-{number}"), "w", encoding="ascii"):
            pass

    def running(self):
        return self.counts()["active"]

    def worker(self, worker_id):
        return {worker["id"]: worker for worker in self.json("worker", "list")}[worker_id]

    def test_quiet_and_resume(self):
        _, worker_id = self.work()
        began = time.monotonic()
        self.assertEqual(self.ok("worker", "quiet", worker_id), f"{worker_id} quiet")
        self.assertLess(time.monotonic() - began, lib_cli.PATIENCE_S / 4)
        self.assertEqual(self.worker(worker_id)["status"], "quiet")
        self.enqueue("quick", "--id", "q", "--retention", "1h")
        self.assertEqual(self.state("q"), "pending")
        self.assertEqual(self.ok("worker", "resume", worker_id[:18]), f"{worker_id} resumed")
        self.wait_state("q", "completed")
        self.assertEqual(self.worker(worker_id)["status"], "active")

    def test_stop_drains_and_wait_sees_the_end(self):
        process, worker_id = self.work()
        self.hold(1)
        self.wait_state("0", "active")
        self.until(lambda: os.path.exists(self.path("began-0")), "it runs")
        self.assertEqual(self.ok("worker", "stop", worker_id), f"{worker_id} stops")
        self.assertEqual(self.worker(worker_id)["status"], "draining")
        waiting = self.start("worker", "stop", worker_id, "--wait")  # ends the drain
        self.assertEqual(waiting.communicate(timeout=lib_cli.PATIENCE_S)[0], f"{worker_id} ended\n")
        self.end(process)
        self.assertEqual(self.state("0"), "pending")
        self.assertEqual(self.json("worker", "list"), [])

    def test_resize_while_tasks_run(self):
        _, worker_id = self.work("--concurrency", "1")
        self.hold()
        self.until(lambda: self.running() == 1, "one runs")
        self.ok("worker", "resize", worker_id, "--concurrency", str(COUNT - 1))
        self.until(lambda: self.running() == COUNT - 1, "more run")
        self.assertEqual(self.worker(worker_id)["concurrency"], COUNT - 1)
        self.ok("worker", "resize", worker_id, "--concurrency", "1")
        self.assertEqual(self.running(), COUNT - 1)  # none was ended
        began = [number for number in range(COUNT) if os.path.exists(self.path(f"began-{number}"))]
        self.until(lambda: len([number for number in range(COUNT) if
                                os.path.exists(self.path(f"began-{number}"))]) == COUNT - 1,
                   "all of them began")
        began = [number for number in range(COUNT) if os.path.exists(self.path(f"began-{number}"))]
        for number in began[1:]:
            self.let_go(number)
        self.until(lambda: self.running() == 1, "one is left")
        self.assertEqual(self.counts()["pending"], 1)
        self.let_go(began[0])
        rest = ({*range(COUNT)} - {*began}).pop()
        self.until(lambda: os.path.exists(self.path(f"began-{rest}")), "the last one runs")
        self.let_go(rest)
        self.until(lambda: self.counts()["active"] == 0, "all are done")

    def test_log_level(self):
        process, worker_id = self.work()
        self.ok("worker", "log-level", worker_id, "--level", "debug")
        self.enqueue("quick", "--id", "q")
        self.until(lambda: "run ended" in self.read(process.log_name), "the run is logged")
        self.ok("worker", "log-level", worker_id, "--level", "error")
        self.ok("worker", "quiet", worker_id)
        self.assertNotIn("takes no more tasks", self.read(process.log_name))

    def test_all_and_json(self):
        workers = [self.work()[1], self.work()[1]]
        document = self.json("worker", "quiet", "--all")
        self.assertEqual((document["done"], document["count"]), ("quiet", 2))
        self.assertEqual({worker["id"] for worker in document["workers"]}, {*workers})
        self.assertEqual({worker["status"] for worker in self.json("worker", "list")}, {"quiet"})
        info = self.worker(workers[0])
        result = self.quern("--json", "worker", "resume", f"{info['host']}:{info['pid']}", "wrong")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        documents = json.loads(result.stdout)["workers"]
        self.assertEqual((documents[0]["id"], documents[0]["ok"]), (workers[0], True))
        self.assertIn("no worker wrong", documents[1]["error"])

    def test_all_of_none_is_said(self):
        self.ok("enqueue", "t")
        result = self.quern("worker", "quiet", "--all")
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertIn("no worker here takes commands; see `quern worker list`", result.stderr)
        result = self.quern("worker", "quiet", "--all", "--json")
        self.assertEqual(json.loads(result.stdout), {"done": "quiet", "count": 0, "workers": []})

    def test_killed_worker_is_reported(self):
        process, worker_id = self.work()
        self.stop(process, signal.SIGKILL)
        text = self.fails(EXIT_FAILURE, "worker", "quiet", worker_id)
        self.assertIn(f"worker {worker_id} is dead", text)

    def test_worker_that_is_killed_before_it_answers(self):
        process, worker_id = self.work()
        process.send_signal(signal.SIGSTOP)
        sender = self.start("worker", "quiet", worker_id, "--timeout", "5m")
        self.until(lambda: len(os.listdir(f"/proc/{sender.pid}/fd")) > 3, "it has the broker open")
        self.stop(process, signal.SIGKILL)
        self.assertEqual(self.end(sender), EXIT_FAILURE)
        self.assertRegex(self.read(sender.log_name),  # by when it was looked at first
                         f"worker {worker_id} (was killed before it answered|is dead)")

    def test_frozen_worker_does_not_answer_in_time(self):
        process, worker_id = self.work()
        process.send_signal(signal.SIGSTOP)
        text = self.fails(EXIT_TEMPORARY, "worker", "resize", worker_id, "--concurrency", "7",
                          "--timeout", "300ms")
        self.assertIn("has not answered after 300 ms", text)
        process.send_signal(signal.SIGCONT)
        self.until(lambda: self.worker(worker_id)["concurrency"] == 7, "it did so later")

    def test_lines_that_are_refused(self):
        self.fails(EXIT_USAGE, "worker", "quiet")
        self.fails(EXIT_USAGE, "worker", "quiet", "--all", "w")
        self.fails(EXIT_USAGE, "worker", "resize", "w")
        self.fails(EXIT_USAGE, "worker", "log-level", "w", "--level", "loud")
        self.assertIn("no worker w", self.fails(EXIT_FAILURE, "worker", "stop", "w"))

    @only("redis")
    def test_user_without_the_channel(self):
        _, worker_id = self.work()
        self.redis.do("ACL", "SETUSER", "few", "on", ">pw", "~asynq:*", "resetchannels",
                      "&asynq:cancel", "+@all")
        self.addCleanup(self.redis.do, "ACL", "DELUSER", "few")
        result = self.quern("worker", "quiet", worker_id, "--broker", self.redis.url("few", "pw"))
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertIn("&asynq:quern", result.stderr)
        self.assertEqual(self.worker(worker_id)["status"], "active")


if __name__ == "__main__":
    lib_cli.main()
