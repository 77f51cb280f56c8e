#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Why a task waits, what to do, queues without workers, and the findings of doctor."""

import contextlib
import re
import signal
import sqlite3

import lib_cli
from lib_cli import CliTest, EXIT_FAILURE, EXIT_TEMPORARY, only


class ServiceTest(CliTest):
    def why(self, task_id):
        """The reason that inspect shows, the same as text and as JSON."""
        text = self.ok("task", "inspect", task_id)
        task = self.task(task_id)
        if task["waits_because"]:
            self.assertIn("waits because:", text)
            self.assertIn("what to do:", text)
        else:
            self.assertNotIn("waits because:", text)
        return task["waits_because"], task["what_to_do"]

    def waiting(self, task_id):
        task = self.task(task_id)
        return task if task["waits_because"] else None

    def start_worker(self, *options, kind="t"):
        self.ok("db", "init")
        worker = self.start("work", "--exec", f"{kind}=read x < never", *options)
        self.until(lambda: [each for each in self.json("worker", "list")
                                 if each["pid"] == worker.pid], "it has announced itself")
        return worker

    def column(self, name):
        """The cells of one column of queue list."""
        lines = self.ok("queue", "list").splitlines()
        place = lines[0].split().index(name)
        return {line.split()[0]: line.split()[place] for line in lines[1:]}

    def test_queue_without_a_worker_is_reported_wherever_it_is_seen(self):
        task_id = self.enqueue("t")
        because, advice = self.why(task_id)
        self.assertEqual(because, "no live worker serves queue default")
        self.assertIn("quern work --queue default --exec 't=COMMAND'", advice)
        self.assertEqual(self.column("WORKERS"), {"default": "none!"})
        self.assertIn("none!", self.ok("stats"))
        self.assertEqual(self.json("stats")["queues"][0]["workers"], 0)
        report = self.quern("doctor")
        self.assertEqual(report.returncode, 0)
        self.assertIn("no live worker serves queue default", report.stdout)
        self.assertIn("no live worker", self.quern("doctor", "--strict").stdout)
        self.assertEqual(self.quern("doctor", "--strict").returncode, EXIT_FAILURE)
        self.fifo("never")
        self.start_worker()
        self.until(lambda: self.state(task_id) == "active", "it runs")
        self.assertEqual(self.why(task_id), ("", ""))
        self.assertEqual(self.column("WORKERS"), {"default": "1"})
        waiting = self.enqueue("t")
        self.start_worker("--queue", "other")
        self.assertEqual(self.column("WORKERS"), {"default": "1", "other": "1"})
        self.assertNotIn("no live", self.why(waiting)[0])

    def test_paused_queue_is_reported_with_a_hint(self):
        task_id = self.enqueue("t")
        self.ok("queue", "pause", "default")
        because, advice = self.why(task_id)
        self.assertRegex(because, r"queue default has been paused since 20\d\d-")
        self.assertEqual(advice, "quern queue resume default")
        self.assertIn("has been paused since", self.ok("doctor"))

    def test_limit_of_the_queue_that_is_used_up_is_reported(self):
        self.ok("limit", "set", "default", "0")
        task_id = self.enqueue("t")
        self.start_worker()
        self.assertEqual(self.why(task_id), ("the limit 0 of queue default is used up",
                                             "raise it: quern limit set default LIMIT"))

    def test_type_that_nobody_serves_is_reported(self):
        self.fifo("never")
        self.start_worker()
        task_id = self.enqueue("unknown")
        self.wait_state(task_id, "retry")  # the worker has put it aside
        because = "no live worker of queue default serves type unknown"
        # For a moment the worker may have it again: then nothing holds it up.
        task = self.until(lambda: self.waiting(task_id), "it says why")
        self.assertEqual(task["waits_because"], because)
        self.assertIn("--exec 'unknown=COMMAND'", task["what_to_do"])
        self.until(lambda: self.quern("doctor").stdout.count(because) == 1, "the doctor, too")
        served = self.json("worker", "list")[0]
        self.assertEqual((served["types"], served["hung"]), (["t"], 0))

    def test_quiet_workers_are_reported(self):
        worker = self.start_worker()
        worker.send_signal(signal.SIGTSTP)
        self.until(lambda: self.json("worker", "list")[0]["status"] == "quiet", "it is quiet")
        because, advice = self.why(self.enqueue("t"))
        self.assertIn(f"process {worker.pid}, is quiet", because)
        self.assertIn(f"kill -CONT {worker.pid}", advice)

    def test_busy_workers_and_later_moments_are_reported(self):
        self.fifo("never")
        self.start_worker("--concurrency", "1")
        running = self.enqueue("t")
        self.wait_state(running, "active")
        self.assertIn("all slots of the workers", self.why(self.enqueue("t"))[0])
        later = self.enqueue("t", "--in", "1h")
        self.assertIn("it is due at 20", self.why(later)[0])

    @only("redis")
    def test_full_memory_is_reported_and_the_queue_can_still_be_paused(self):
        self.fifo("never")
        self.start_worker("--concurrency", "1")
        self.wait_state(self.enqueue("t"), "active")
        waiting = self.enqueue("t")
        info = self.redis.do("INFO", "memory").decode()
        used = int(re.search(r"used_memory:(\d+)", info).group(1))
        for limit in (used + 20000, 100000):  # what was refused is gone, or it is worse
            self.redis.do("CONFIG", "SET", "maxmemory", limit)
            self.assertIn("the memory of Redis is full", self.why(waiting)[0])
            self.assertIn("raise maxmemory", self.why(waiting)[1])
            self.assertIn("the memory of Redis is full", self.ok("doctor"))
        self.assertIn("memory is full (maxmemory", self.fails(EXIT_TEMPORARY, "enqueue", "t"))
        self.ok("queue", "pause", "default")
        self.redis.do("CONFIG", "SET", "maxmemory", 0)
        self.assertIn("has been paused since", self.why(waiting)[0])

    def test_braked_queue_is_reported(self):
        text = "".join(f'{{"type":"t","payload":"{n}"}}\n' for n in range(40))
        self.ok("enqueue", "--from", "-", stdin=text)
        self.start("work", "--exec", "t=kill -SEGV $$", "--concurrency", "1")
        self.until(lambda: "runs of queue default keep dying on 1 host" in
                        self.quern("doctor").stdout, "the doctor says so")
        waiting = self.json("task", "list", "--state", "pending")[-1]["id"]
        because, advice = self.why(waiting)
        self.assertIn("runs of queue default keep dying", because)
        self.assertIn("fix the program", advice)

    def test_dead_worker_whose_lease_must_run_out_is_reported(self):
        self.fifo("never")
        worker = self.start_worker()
        task_id = self.enqueue("t")
        self.wait_state(task_id, "active")
        worker.kill()
        self.end(worker)
        because, advice = self.why(task_id)
        self.assertIn("its worker is dead, and its lease has not expired yet", because)
        self.assertIn("start a worker for queue default", advice)

    def stop_and_write(self, worker, statement):
        """Whether the worker is stopped, outside of a transaction, and its record is written."""
        worker.send_signal(signal.SIGSTOP)
        self.until(lambda: self.read(f"/proc/{worker.pid}/stat").split()[2] == "T", "it stops")
        with contextlib.closing(sqlite3.connect(self.broker, 0.1, isolation_level=None)) as db:
            try:
                db.execute(statement)
                return True
            except sqlite3.OperationalError:
                worker.send_signal(signal.SIGCONT)
                return False

    @only("sqlite")
    def test_stuck_worker_is_shown_and_fails_the_doctor(self):
        worker = self.start_worker("--concurrency", "2")
        self.until(lambda: self.stop_and_write(
            worker, "UPDATE quern_worker SET status = 'stuck',"
            " queues = 'default=1' || char(31) || '3' || char(31) || 't'"), "it is written")
        self.assertIn("0/2, 3 hang", self.ok("worker", "list"))
        self.assertEqual(self.json("worker", "list")[0]["queues"], "default=1")
        report = self.quern("doctor")
        self.assertEqual(report.returncode, EXIT_FAILURE)
        self.assertIn("3 handlers of the worker on", report.stdout)
        self.assertIn("restart it", report.stdout)
        because, advice = self.why(self.enqueue("t"))
        self.assertIn("is stuck", because)
        self.assertIn("restart that process", advice)
        worker.kill()

    @only("sqlite")
    def test_slots_held_by_handlers_that_hang_are_not_free(self):
        worker = self.start_worker("--concurrency", "2")
        statement = ("UPDATE quern_worker SET queues ="
                     " 'default=1' || char(31) || {} || char(31) || 't'")
        self.until(lambda: self.stop_and_write(worker, statement.format(2)), "it is written")
        waiting = self.enqueue("t")
        self.assertEqual(self.why(waiting)[0], "")  # the thread in the place of one is free
        with contextlib.closing(sqlite3.connect(self.broker, isolation_level=None)) as db:
            db.execute(statement.format(3))
        self.assertEqual(self.why(waiting)[0], "all slots of the workers of its queue are taken"
                         " (1 worker) or held by handlers that hang (3)")
        worker.kill()


if __name__ == "__main__":
    lib_cli.main()
