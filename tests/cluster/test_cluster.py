#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern on a Redis Cluster: every verb, queues on all nodes, failovers and slots that move."""

import json
import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_cluster  # noqa: E402
from lib_load import FULL, PATIENCE_S, QUERN, ClusterTest, Feed, queues_on_all  # noqa: E402

FAILOVERS = 10 if FULL else 2
MOVES = 10 if FULL else 2


class Verbs(ClusterTest):
    def test_tasks_on_all_nodes_run(self):
        queues = queues_on_all(self.cluster, 3)
        lines = "\n".join(json.dumps({"type": "echo", "payload": f"{queue}-{i}", "queue": queue})
                          for queue in queues for i in range(30))
        self.quern("enqueue", "--from", "-", input=lines)
        self.assertEqual({name: count["pending"] for name, count in self.counts().items()},
                         {queue: 30 for queue in queues})
        for order in ([], ["--strict"]):
            words = [word for queue in queues for word in ("--queue", queue)]
            result = self.quern("work", *words, "--exec", "echo=cat", "--drain", *order)
            done = 30 * len(queues) if not order else len(queues)
            self.assertIn(f"done {done},", result.stderr)
            self.assertNotIn(" error ", result.stderr)
            for queue in queues:
                self.quern("enqueue", "echo", "again", "--queue", queue)


    def test_an_idle_worker_is_woken_on_each_node(self):
        queues = queues_on_all(self.cluster, 1)
        self.worker(queues, "--log-format", "logfmt")
        wait = lib_cluster.wait_until
        wait(lambda: len(self.json("worker", "list")) == 1, "the worker is listed")
        time.sleep(1)  # it is idle then, and has armed
        for queue in queues * 3:
            began = time.monotonic()
            task = self.quern("enqueue", "echo", "x", "--queue", queue).stdout.strip()
            stored = time.monotonic()
            wait(lambda: self.counts()[queue]["pending"] == 0, "it has run")
            self.assertLess(time.monotonic() - stored, 3, f"{task}: {stored - began}")

    def test_what_needs_one_server_is_refused_with_the_reason(self):
        self.quern("enqueue", "echo", "x", "--queue", "a")
        for words in (("limit", "set", "3", "--all-queues"),
                      ("limit", "set", "a", "3", "--semaphore", "s")):
            result = subprocess.run([QUERN, "--broker", self.url, *words], capture_output=True,
                                    text=True, timeout=PATIENCE_S, check=False)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("needs one server", result.stderr)

    def test_databases_and_wrong_urls_are_refused(self):
        for url, words in ((self.url + "/1", "no other database"),
                           ("redis-cluster://a b", "host"),
                           ("redis-cluster://a,,b", "a cluster is written"),
                           ("redis://127.0.0.1:1,127.0.0.1:2", "redis-cluster://"),
                           (f"redis://127.0.0.1:{self.cluster.nodes[0].port}", "cluster mode")):
            result = subprocess.run([QUERN, "--broker", url, "stats"], capture_output=True,
                                    text=True, timeout=PATIENCE_S, check=False)
            self.assertNotEqual(result.returncode, 0, url)
            self.assertIn(words, result.stderr)

    def test_one_living_seed_is_enough(self):
        port = self.cluster.nodes[0].port
        self.quern("enqueue", "echo", "x", "--queue", "a")
        result = subprocess.run(
            [QUERN, "--broker", f"redis-cluster://127.0.0.1:1,127.0.0.1:{port}", "stats"],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_verbs(self):
        queues = queues_on_all(self.cluster, 1)
        ids = [self.quern("enqueue", "echo", "x", "--queue", queue).stdout.strip()
               for queue in queues]
        for queue, task in zip(queues, ids):
            self.assertIn(task, self.quern("task", "inspect", task).stdout)
            self.quern("task", "inspect", task[:16])  # SCAN of all nodes
            self.quern("queue", "pause", queue)
        self.assertTrue(all(row["paused"] for row in self.json("queue", "list")))
        for queue, task in zip(queues, ids):
            self.quern("queue", "resume", queue)
            self.quern("task", "archive", task)
            self.quern("task", "run", task)
            self.quern("task", "delete", task)
            self.quern("schedule", "add", f"{queue}-entry", "--cron", "@every 1h",
                       "--type", "echo", "--queue", queue)
            self.quern("limit", "set", queue, "3")
        self.assertEqual(len(self.json("schedule", "list")["entries"]), len(queues))
        for queue in queues:
            self.quern("schedule", "trigger", f"{queue}-entry")
            self.quern("queue", "remove", queue, "--force", "--yes")
        self.assertEqual(self.counts(), {})
        self.assertIn("no violations", self.quern("doctor").stdout)
        self.quern("db", "info")
        self.quern("stats")


class Troubles(ClusterTest):
    def under_load(self, trouble, times):
        """Runs `trouble` so many times while tasks are stored and run; nothing may be lost."""
        queues = queues_on_all(self.cluster, 2)
        runs = os.path.join(self.cluster.folder, "runs")
        with open(runs, "w", encoding="utf-8"):
            pass
        worker = self.worker(queues)
        feed = Feed(self.url, queues)
        feed.start()
        try:
            for i in range(times):
                time.sleep(0.3)
                trouble(queues[i % len(queues)])
        finally:
            feed.stop()
        self.assertEqual(feed.errors, [])
        self.waits_for_empty(queues)
        worker.terminate()
        self.assertEqual(worker.wait(PATIENCE_S), 0, self.worker_log())
        with open(runs, encoding="utf-8") as log:
            ran = [line for line in log.read().split() if line]
        lost = set(feed.stored) - set(ran)
        self.assertEqual(lost, set(), f"{len(lost)} of {len(feed.stored)} tasks")
        self.assertGreater(len(feed.stored), 0)
        return feed, ran

    def test_masters_die_under_load(self):
        def trouble(queue):
            self.cluster.fail_over(self.cluster.owner_of(lib_cluster.slot_of(queue)))
        self.under_load(trouble, FAILOVERS)

    def test_slots_move_under_load(self):
        def trouble(queue):
            self.cluster.move_slot(lib_cluster.slot_of(queue), pause_s=0.01)
        feed, ran = self.under_load(trouble, MOVES)
        # No server died: each ran once.
        self.assertEqual(len(ran), len(feed.stored))


if __name__ == "__main__":
    unittest.main()
