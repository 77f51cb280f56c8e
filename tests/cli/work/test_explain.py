#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`quern task explain`: each reason is brought about for real, and named right."""

import json
import os
import signal
import time

import lib_cli
from lib_cli import BROKER, CliTest, EXIT_FAILURE, only


class ExplainTest(CliTest):
    def explain(self, task_id):
        return self.json("task", "explain", task_id)

    def reasons(self, task_id):
        return {reason["why"]: reason for reason in self.explain(task_id)["reasons"]}

    def first(self, task_id, why):
        """The reason that decides, once it is this one."""
        def is_it():
            reason = self.explain(task_id)["reasons"][0]
            return reason if reason["why"] == why else None
        reason = self.until(is_it, f"{task_id} is explained by {why}")
        self.assertTrue(reason["text"], reason)
        return reason

    def start_worker(self, *execs, options=()):
        """A worker whose record is there."""
        self.ok("db", "init")
        args = [word for text in execs for word in ("--exec", text)]
        worker = self.start("work", *args, *options)
        self.until(lambda: [each for each in self.json("worker", "list")
                            if each["pid"] == worker.pid], "it has announced itself")
        return worker

    def place_of(self, worker):
        return f"{os.uname().nodename}:{worker.pid}"

    def hold(self):
        """A command that runs until the test ends."""
        if not os.path.exists(self.path("never")):
            self.fifo("never")
        return f"read x < {self.path('never')}"

    # --- It waits ------------------------------------------------------------------------

    def test_workers_and_queues(self):
        task_id = self.enqueue("t")
        reason = self.first(task_id, "no-worker")
        self.assertIn("quern work --queue default", reason["advice"])
        self.assertTrue(reason["holds_up"])
        text = self.ok("task", "explain", task_id)
        self.assertRegex(text, r"(?m)^why: +no live worker serves queue default$")
        self.assertRegex(text, r"(?m)^what to do: +start a worker")
        worker = self.start_worker("u=true", options=("--quiet",))
        self.first(task_id, "no-handler")
        self.ok("queue", "pause", "default")
        reasons = [reason["why"] for reason in self.explain(task_id)["reasons"]]
        self.assertEqual(reasons[:2], ["paused", "no-handler"])
        self.assertEqual(self.first(task_id, "paused")["advice"], "quern queue resume default")
        self.ok("queue", "resume", "default")
        self.stop(worker)
        self.start_worker(f"t={self.hold()}", options=("--concurrency", "1"))
        self.wait_state(task_id, "active")
        later = self.enqueue("t", "--in", "1h")
        reason = self.first(later, "scheduled")
        self.assertEqual(reason["until_at_ms"], self.task(later)["due_at_ms"])
        behind = self.enqueue("t")
        last = self.enqueue("t")
        reasons = self.reasons(last)
        self.assertEqual(next(iter(reasons)), "busy")
        self.assertEqual(reasons["in-line"]["ahead"], 1)
        self.assertGreater(reasons["in-line"]["until_at_ms"], 0)
        self.assertFalse(reasons["in-line"]["holds_up"])
        self.assertNotIn("in-line", self.reasons(behind))
        self.assertIn("starts about:", self.ok("task", "explain", last))

    def test_limits_and_who_has_them(self):
        self.ok("limit", "set", "default", "1", "--type", "a")
        self.ok("limit", "set", "default", "1/1h", "--type", "b")
        self.ok("limit", "set", "default", "1", "--key", "*")
        self.ok("limit", "set", "other", "1", "--semaphore", "s")
        worker = self.start_worker(f"a={self.hold()}", f"s={self.hold()}", "b=true",
                                   f"k={self.hold()}",
                                   options=("--concurrency", "9", "--queue", "default",
                                            "--queue", "other"))
        running = self.enqueue("a")
        self.wait_state(running, "active")
        reason = self.first(self.enqueue("a"), "limit-runs")
        self.assertEqual(reason["text"], "the limit 1 of type a is used up")
        self.assertEqual(reason["holder"], f"{running} on {self.place_of(worker)}")
        self.wait_state(self.enqueue("b"), "gone")
        self.first(self.enqueue("b"), "limit-starts")
        ours = self.enqueue("k", "--limit-key", "ours")
        self.wait_state(ours, "active")
        reason = self.first(self.enqueue("k", "--limit-key", "ours"), "limit-runs")
        self.assertEqual(reason["text"], "the limit 1 of each key in queue default is used up")
        self.assertTrue(reason["holder"].startswith(ours), reason)
        held = self.enqueue("s", "--queue", "other")
        self.wait_state(held, "active")
        reason = self.first(self.enqueue("s", "--queue", "other"), "semaphore")
        self.assertTrue(reason["holder"].startswith(held), reason)

    def test_braked_queue(self):
        self.start_worker("die=kill -9 $$", options=("--concurrency", "4"))
        ids = [self.enqueue("die") for _ in range(6)]
        self.until(lambda: self.json("queue", "inspect", "default")["braked_hosts"], "it is braked")
        self.until(lambda: any("braked" in self.reasons(task_id) for task_id in ids
                               if self.state(task_id) in ("pending", "retry")), "it says so")

    # --- It is active ----------------------------------------------------------------------

    def test_running_cancelled_and_leaving(self):
        worker = self.start_worker(f"t=trap '' TERM; {self.hold()}", "u=true",
                                   options=("--concurrency", "2", "--shutdown-timeout", "1m"))
        running = self.enqueue("t", "--kill-after", "1m")
        self.wait_state(running, "active")
        reason = self.first(running, "running")
        self.assertEqual(reason["holder"], self.place_of(worker))
        self.assertFalse(reason["holds_up"])
        self.ok("task", "cancel", running)
        self.first(running, "cancelling")
        worker.send_signal(signal.SIGTSTP)
        waiting = self.enqueue("u")
        reason = self.first(waiting, "workers-quiet")
        self.assertEqual(reason["holder"], self.place_of(worker))
        worker.send_signal(signal.SIGTERM)
        self.first(waiting, "workers-stop")
        self.stop(worker, signal.SIGKILL)

    def test_dead_and_frozen_workers(self):
        """A frozen worker is silent after two heartbeats: other causes are seen meanwhile."""
        frozen = self.start_worker(f"f={self.hold()}", options=("--queue", "f"))
        asleep = self.enqueue("f", "--queue", "f")
        self.wait_state(asleep, "active")
        frozen.send_signal(signal.SIGSTOP)
        dead = self.start_worker(f"d={self.hold()}", options=("--queue", "d", "--lease", "4s"))
        orphan = self.enqueue("d", "--queue", "d")
        self.until(lambda: self.task(orphan)["started_at_ms"], "it runs")
        self.stop(dead, signal.SIGKILL)
        reason = self.first(orphan, "worker-dead")
        self.assertEqual(reason["holder"], self.place_of(dead))
        self.assertGreater(reason["until_at_ms"], time.time() * 1000 - 5000)
        self.assertIn("start a worker for queue d", reason["advice"])
        self.see_retries_poison_and_cancellation()
        self.see_turns_and_isolation()
        self.first(orphan, "lease-over")
        reason = self.first(asleep, "worker-silent")
        self.assertEqual(reason["holder"], self.place_of(frozen))
        until_ms = self.task(asleep)["lease_until_at_ms"]
        self.assertLess(abs(reason["until_at_ms"] - until_ms), 1000)
        frozen.send_signal(signal.SIGCONT)
        self.first(asleep, "running")

    def see_retries_poison_and_cancellation(self):
        worker = self.start_worker("fail=echo no route >&2; exit 1",
                                   "snooze=echo snooze=1h >&3; exit 75", "die=kill -9 $$",
                                   "good=true", f"t={self.hold()}",
                                   options=("--concurrency", "1"))
        failed = self.enqueue("fail", "--backoff", "fixed:1h")
        snoozed = self.enqueue("snooze")
        died = self.enqueue("die")
        reason = self.first(failed, "retry")
        self.assertIn("no route", reason["text"])
        self.assertEqual(reason["until_at_ms"], self.task(failed)["due_at_ms"])
        self.first(snoozed, "snoozed")
        self.first(died, "after-death")
        self.assertIn("child died", [run["end"] for run in self.explain(died)["runs"]])
        while self.state(died) != "archived":
            self.wait_state(self.enqueue("good"), "gone")
        self.assertIn("deaths", self.first(died, "poison")["text"])
        task_id = self.enqueue("t")
        self.wait_state(task_id, "active")
        self.ok("task", "cancel", task_id, "--then", "archive")
        self.first(task_id, "cancelled")
        self.stop(worker)

    def see_turns_and_isolation(self):
        worker = self.start_worker(f"t={self.hold()}", options=("--concurrency", "1"))
        charged = self.enqueue("t", "--limit-key", "a")
        self.until(lambda: self.task(charged)["started_at_ms"], "it runs")
        self.enqueue("t", "--limit-key", "b")
        reason = self.reasons(self.enqueue("t", "--limit-key", "b"))["turn"]
        self.assertEqual(reason["ahead"], 1)
        self.stop(worker, signal.SIGKILL)
        self.ok("queue", "pause", "default")
        self.start_worker(f"t={self.hold()}", options=("--concurrency", "2"))
        self.until(lambda: self.state(charged) == "pending", "it was recovered")
        self.assertIn("isolated", self.reasons(charged))
        self.assertEqual(self.explain(charged)["runs"][0]["end"], "worker died")

    # --- It has ended -------------------------------------------------------------------

    def test_stories(self):
        ids = {
            "completed": self.enqueue("ok", "--retention", "1h"),
            "spent": self.enqueue("fail", "--retry-max", "never"),
            "by-handler": self.enqueue("drop"),
            "timeout": self.enqueue("slow", "--timeout", "10ms", "--retry-max", "never"),
            "deadline": self.enqueue("ok", "--deadline", f"@{time.time() + 0.3:.3f}"),
            "by-operator": self.enqueue("ok", "--in", "1h"),
        }
        late = self.enqueue("ok", "--start-within", "1ms")
        self.until(lambda: time.time() * 1000 > self.task(ids["deadline"])["deadline_at_ms"],
                   "it is too late")
        self.ok("task", "archive", ids["by-operator"])
        self.drain("ok=true", "fail=exit 1", "drop=exit 65", "slow=sleep 60")
        for why, task_id in {**ids, "expired": late}.items():
            reason, = self.explain(task_id)["reasons"]
            self.assertEqual(reason["why"], why, reason)
            self.assertFalse(reason["holds_up"])
        self.assertIn("quern task run", self.reasons(ids["spent"])["spent"]["advice"])
        self.assertEqual(self.reasons(ids["completed"])["completed"]["until_at_ms"],
                         self.task(ids["completed"])["expires_at_ms"])

    @only("redis")
    def test_damaged_message(self):
        task_id = self.enqueue("t")
        self.redis.do("HSET", f"asynq:{{default}}:t:{task_id}", "msg", "\x01")
        self.assertEqual(self.explain(task_id)["reasons"][0]["why"], "damaged")
        self.drain("t=true")
        reason, = self.explain(task_id)["reasons"]
        self.assertEqual((reason["why"], reason["holds_up"]), ("damaged", False))

    @only("redis")
    def test_task_of_a_go_server(self):
        """As asynq's dequeue leaves it: without a token, and no server lists it."""
        task_id = self.enqueue("t")
        queue = "asynq:{default}:"
        self.redis.do("LREM", queue + "pending", "1", task_id)
        self.redis.do("LPUSH", queue + "active", task_id)
        self.redis.do("HSET", f"{queue}t:{task_id}", "state", "active")
        self.redis.do("HDEL", f"{queue}t:{task_id}", "pending_since")
        self.redis.do("ZADD", queue + "lease", str(int(time.time()) + 30), task_id)
        reason = self.first(task_id, "worker-dead")
        self.assertIn("its Go server is dead", reason["text"])
        self.assertGreater(reason["until_at_ms"], time.time() * 1000)
        self.redis.do("ZADD", queue + "lease", str(int(time.time()) - 1), task_id)
        self.assertIn("30 s after that", self.first(task_id, "lease-over")["text"])

    # --- The program --------------------------------------------------------------------

    def test_several_tasks_groups_and_locks(self):
        member = self.enqueue("t", "--group", "g")
        self.assertIn("group g", self.first(member, "group")["text"])
        unique = self.enqueue("t", "x", "--unique", "1s")
        self.assertNotIn("lock-of-other", self.reasons(unique))
        first, second = self.enqueue("t"), self.enqueue("t")
        result = self.quern("--json", "task", "explain", first, "gone", second)
        self.assertEqual(result.returncode, EXIT_FAILURE)
        documents = json.loads(result.stdout)
        self.assertEqual([document["id"] for document in documents], [first, "gone", second])
        self.assertIn("no task gone", documents[1]["error"])
        self.assertIn("no task gone", self.fails(EXIT_FAILURE, "task", "explain", "gone"))
        if BROKER == "sqlite":
            self.assertIn("in-line", self.reasons(second))


if __name__ == "__main__":
    lib_cli.main()
