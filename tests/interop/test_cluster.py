#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Go's asynq and quern beside each other on one Redis Cluster, with queues on all its nodes."""

import os
import sys

import lib_interop
from lib_interop import InteropTest, Peer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))

import lib_cluster  # noqa: E402


class OneCluster:
    """A cluster, as far as InteropTest needs a server."""

    def __init__(self):
        self.cluster = lib_cluster.Cluster()
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.cluster.nodes[:3])
        self.path = f"cluster:{places}"

    def url(self):
        return self.cluster.url()

    def do(self, *words):
        """At each master; the reply of the last."""
        return [node.do(*words) for node in self.cluster.masters()][-1]

    def stop(self):
        self.cluster.stop()


class ClusterTest(InteropTest):
    @classmethod
    def setUpClass(cls):
        cls.redis = OneCluster()
        cls.addClassCleanup(cls.redis.stop)
        cls.address = cls.redis.path
        cls.go = Peer(os.environ["INTEROP_PEER"], cls.address)
        cls.addClassCleanup(cls.go.stop)

    def queues(self):
        """One on each node."""
        found = {}
        for number in range(100):
            name = f"q{number}"
            owner = self.redis.cluster.owner_of(lib_cluster.slot_of(name)).port
            found.setdefault(owner, name)
        return sorted(found.values())

    def enqueue_both(self, queues, count):
        """So many of each kind in each queue; returns their ids."""
        ids = set()
        for queue in queues:
            for i in range(count):
                self.go("enqueue", task={"type": "ok", "id": f"go-{queue}-{i}", "queue": queue})
                self.enqueue("ok", b"", "--id", f"quern-{queue}-{i}", "--queue", queue)
                ids |= {f"go-{queue}-{i}", f"quern-{queue}-{i}"}
        return ids

    def ran(self, what="end"):
        return [line["id"] for line in self.read_journal(what)]

    def until_ran(self, ids):
        lib_cluster.wait_until(lambda: ids <= set(self.ran()), "all have run")

    def test_quern_runs_tasks_of_both(self):
        queues = self.queues()
        self.assertEqual(len(queues), 3)
        ids = self.enqueue_both(queues, 5)
        worker = self.quern_worker(queues=queues)
        self.until_ran(ids)
        self.stop(worker)
        self.assertEqual(sorted(self.ran()), sorted(ids))

    def test_go_runs_tasks_of_both(self):
        queues = self.queues()
        ids = self.enqueue_both(queues, 5)
        server = self.go_server(queues={queue: 1 for queue in queues})
        self.until_ran(ids)
        self.stop(server)
        self.assertEqual(sorted(self.ran()), sorted(ids))

    def test_both_beside_each_other(self):
        queues = self.queues()
        server = self.go_server(queues={queue: 1 for queue in queues})
        worker = self.quern_worker(queues=queues)
        ids = self.enqueue_both(queues, 20)
        self.until_ran(ids)
        self.stop(worker)
        self.stop(server)
        self.assertEqual(sorted(self.ran()), sorted(ids))
        self.assertEqual({line["worker"] for line in self.read_journal("end")}, {"go", "quern"})
        doctor = self.run_quern("doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)

    def test_go_lists_what_quern_stored(self):
        for queue in self.queues():
            self.enqueue("ok", b"", "--id", f"x-{queue}", "--queue", queue)
            listed = self.go("list", queue=queue, state="pending")
            self.assertEqual([task["id"] for task in listed], [f"x-{queue}"])


if __name__ == "__main__":
    lib_interop.main()
