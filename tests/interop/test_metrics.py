#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The metrics of `quern metrics` beside those of asynq's own collector (x/metrics), of one server:
the same names, help texts, kinds, labels and values."""

import lib_interop
from lib_interop import InteropTest, b64
from lib_metrics import Metrics


class MetricsTest(InteropTest):
    def both(self):
        ours = self.quern_result("metrics")
        self.assertEqual(ours.returncode, 0, ours.stderr.decode())
        return Metrics(ours.stdout.decode()), Metrics(self.go("metrics"))

    def assert_same(self, sampled=()):
        """sampled: queues of which both estimate the memory, each by tasks of its choice."""
        sampled = [{"queue": name} for name in sampled]
        ours, theirs = self.both()
        self.assertTrue(theirs.heads)
        mine = {name: head for name, head in ours.heads.items() if name.startswith("asynq_")}
        self.assertEqual(mine, theirs.heads)
        keys = {key for key in ours.samples if key[0].startswith("asynq_")}
        self.assertEqual(keys, set(theirs.samples))
        for key, value in theirs.samples.items():
            delta = 0
            if key[0] == "asynq_queue_latency_seconds":
                delta = 5  # the clock went on between them
            elif key[0] == "asynq_queue_memory_usage_approx_bytes" and dict(key[1]) in sampled:
                delta = value / 4
            self.assertAlmostEqual(ours.samples[key], value, delta=delta, msg=key)
        return ours

    def test_tasks_of_both_sides_in_every_state(self):
        self.go("enqueue", task={"type": "ok", "payload": b64(b"x"), "queue": "empty"})
        worker = self.go_server(retry_ms=600000, queues={"default": 2, "low": 1, "empty": 1},
                                concurrency=2)
        for number in range(3):
            self.go("enqueue", task={"type": "skip", "payload": b64(b"x"), "id": f"a{number}"})
            self.enqueue("fail", b"x", "--queue", "low", "--id", f"r{number}")
        self.enqueue("ok", b"x", "--retention", "1h", "--id", "done")
        self.until_state("completed", "done")
        self.until(lambda: self.counts() == (4, 3) and self.counts("low") == (3, 3) and
                   self.counts("empty") == (1, 0), "all have run")
        self.enqueue("hold", b"x", "--id", "held")
        self.until_started("held")
        self.stop(worker)  # it goes back to pending
        self.go("enqueue", task={"type": "ok", "payload": b64(b"x" * 1000), "queue": "low"})
        for number in range(12):
            self.enqueue("ok", b"y" * 100, "--id", f"p{number}")
        for number in range(40):  # of more than 20 each side looks at some
            self.enqueue("ok", b"y" * 100, "--queue", "many")
        for number in range(2):
            self.enqueue("later", b"", "--in", "1h", "--queue", "low", "--id", f"s{number}")
            self.enqueue("member", b"", "--group", "g", "--queue", "many", "--id", f"g{number}")
        self.go("pause", queue="low")
        ours = self.assert_same(sampled=("many",))
        name = "asynq_tasks_enqueued_total"
        self.assertEqual(ours.get(name, queue="default", state="archived"), 3)
        self.assertEqual(ours.get(name, queue="default", state="completed"), 1)
        self.assertEqual(ours.get(name, queue="default", state="pending"), 13)
        self.assertEqual(ours.get(name, queue="low", state="retry"), 3)
        self.assertEqual(ours.get(name, queue="low", state="scheduled"), 2)
        self.assertEqual(ours.get("asynq_queue_paused_total", queue="low"), 1)
        self.assertEqual(ours.get("asynq_tasks_processed_total", queue="low"), 3)
        self.assertEqual(ours.get("asynq_tasks_failed_total", queue="default"), 3)
        self.assertGreater(ours.get("asynq_queue_latency_seconds", queue="low"), 0)
        self.assertGreater(ours.get("asynq_queue_memory_usage_approx_bytes", queue="low"), 1000)
        self.assertEqual(ours.get("quern_queue_aggregating_tasks", queue="many"), 2)

    def test_runs_of_both_and_a_server_of_go(self):
        go, ours = self.go_server(concurrency=1), self.quern_worker(concurrency=1)
        for task_id in "one", "two":
            self.enqueue("hold", b"x", "--id", task_id)
        for task_id in "one", "two":
            self.until_started(task_id)
        shown = self.assert_same()
        self.assertEqual(shown.get("asynq_tasks_enqueued_total", queue="default", state="active"),
                         2)
        self.assertEqual(shown.get("quern_workers", status="active"), 2)
        for task_id in "one", "two":
            self.release(task_id)
        self.until(lambda: self.counts() == (2, 0), "both ended")
        self.stop(go)
        self.stop(ours)
        self.assert_same()


if __name__ == "__main__":
    lib_interop.main()
