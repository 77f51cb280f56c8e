#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern on a Redis Cluster: every verb, queues on all nodes, failovers and slots that move."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_cluster  # noqa: E402
import lib_tls  # noqa: E402
from lib_at_once import AtOnce  # noqa: E402
from lib_load import FULL, PATIENCE_S, QUERN, ClusterTest, Feed, queues_on_all  # noqa: E402

FAILOVERS = 10 if FULL else 2
MOVES = 10 if FULL else 2
RESUMES_S = 2  # after the new master is up
LAG_S = 1.0


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

    def test_no_queue_is_forgotten_where_there_are_more_than_slots(self):
        queues = queues_on_all(self.cluster, 4)
        self.worker(queues)
        feed = Feed(self.url, queues)
        self.addCleanup(feed.halt.set)
        feed.start()
        lib_cluster.wait_until(lambda: len(feed.stored) >= 60, "some are stored")
        feed.stop()
        self.waits_for_empty(queues, PATIENCE_S / 4)

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


class Load(ClusterTest):
    """A worker on queues of all nodes, and clients that store tasks, while nodes are in trouble."""

    def under_load(self, trouble, times):
        """Runs `trouble` so many times. Returns the tasks that were stored, and those that ran."""
        queues = queues_on_all(self.cluster, 2)
        open(os.path.join(self.cluster.folder, "runs"), "w", encoding="utf-8").close()
        worker = self.worker(queues)
        feed = Feed(self.url, queues)
        self.addCleanup(feed.halt.set)
        feed.start()
        try:
            for i in range(times):
                time.sleep(0.3)
                trouble(i, queues[i % len(queues)])
        finally:
            feed.stop()
        self.assertEqual(feed.errors, [])
        self.waits_for_empty(queues)
        worker.terminate()
        self.assertEqual(worker.wait(PATIENCE_S), 0, self.worker_log())
        self.assertGreater(len(feed.stored), 0)
        return feed.stored, [payload for payload, _ in self.runs()]

    def resumes_within(self, node, since):
        """After how long a task of a queue of this node ran again, in s."""
        def first():
            return next((when for payload, when in self.runs() if when > since and
                         self.cluster.owner_of(lib_cluster.slot_of(payload.split("@")[1])) is node),
                        None)
        deadline = time.monotonic() + PATIENCE_S / 4
        while first() is None:
            self.assertLess(time.monotonic(), deadline, self.worker_log())
            time.sleep(0.02)
        return first() - since

    def fail_over(self, queue, lag_s=0.0):
        """The master of a queue dies. Returns the ids of the tasks that the new one has."""
        master = self.cluster.owner_of(lib_cluster.slot_of(queue))
        heir = self.cluster.fail_over(master, lag_s)
        since = time.time()
        ids = {key.decode().rpartition(":t:")[2] for key in heir.do("KEYS", "asynq:{*}:t:*")}
        resumed_s = self.resumes_within(heir, since)
        print(f"failover: tasks of the new master run after {resumed_s:.2f} s"
              + (f"; its replica had got nothing for {lag_s} s" if lag_s > 0 else ""))
        self.assertLess(resumed_s, 3 * RESUMES_S, self.worker_log())
        self.cluster.start_again(master)
        return ids


    def masters_die(self, times, lag_s=0.0):
        """Every second one has a replica that lacks something. What is lost was lost with it."""
        known = set()
        stored, ran = self.under_load(
            lambda i, queue: known.update(self.fail_over(queue, lag_s if i % 2 == 1 else 0.0)),
            times)
        lost = set(stored) - set(ran)
        print(f"{len(stored)} tasks, {times} failovers, {len(ran) - len(set(ran))} ran again; lost "
              f"as the replica lacked them: {' '.join(sorted(lost)) or 'none'}")
        # A new master had none of them: else it was we who lost it.
        self.assertEqual({task for task in lost if task.partition("@")[0] in known}, set())


class Troubles(Load):
    def test_masters_die_under_load(self):
        self.masters_die(FAILOVERS, LAG_S)

    def test_slots_move_under_load(self):
        def trouble(_, queue):
            self.cluster.move_slot(lib_cluster.slot_of(queue), pause_s=0.01)
        stored, ran = self.under_load(trouble, MOVES)
        # No server died: each ran once.
        self.assertEqual(sorted(ran), sorted(stored))


class ByTls(Load):
    @classmethod
    def setUpClass(cls):
        certificates = tempfile.mkdtemp(prefix="quern-tls-")
        cls.addClassCleanup(shutil.rmtree, certificates, True)
        lib_tls.make_ca(certificates, "ca")
        lib_tls.make_cert(certificates, "server", "ca")
        place = functools.partial(os.path.join, certificates)
        cls.shape = {"options": (
            "--tls-port", "TLS_PORT", "--tls-cluster", "yes", "--tls-replication", "yes",
            "--tls-auth-clients", "no", "--tls-ca-cert-file",
            place("ca.pem"), "--tls-cert-file", place("server.pem"), "--tls-key-file",
            place("server.key"))}
        super().setUpClass()
        cls.url = cls.cluster.tls_url(place("ca.pem"))

    def test_a_master_dies_under_load(self):
        self.masters_die(1)


def load_tests(loader, _tests, _pattern):
    return AtOnce(loader.loadTestsFromTestCase(case) for case in (Verbs, Troubles, ByTls))


if __name__ == "__main__":
    unittest.main()
