#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Go asynq and quern beside each other over Sentinel: both enqueue and serve, before and after a
failover, and each task runs."""

import os

import lib_interop
from lib_interop import InteropTest, Peer
from lib_sentinel import MASTER, SentinelSet

TASKS = 40


class Servers:
    """As the tests know a server: its path for Go, its URL, a command for the present master."""

    def __init__(self):
        self.set = SentinelSet()
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.set.sentinels)
        self.path = f"sentinel:{MASTER}/{hosts}"

    def url(self):
        return self.set.url()

    def do(self, *words):
        return self.set.master().do(*words)


class SentinelTest(InteropTest):
    @classmethod
    def setUpClass(cls):
        cls.redis = Servers()
        cls.address = cls.redis.path
        cls.addClassCleanup(cls.redis.set.stop)
        cls.go = Peer(os.environ["INTEROP_PEER"], cls.redis.path)
        cls.addClassCleanup(cls.go.stop)

    def story(self):
        return str(self.redis.set.master())

    def enqueue_and_run(self, name):
        """By both, half each; waits until all have run."""
        ids = [f"{name}{number}" for number in range(TASKS)]
        for number, task_id in enumerate(ids):
            if number % 2:
                self.go("enqueue", task={"type": "ok", "id": task_id, "queue": "default"})
            else:
                self.quern("enqueue", "ok", "--id", task_id, "--wait-broker", "20s")
        def ran():
            done = {line["id"] for line in self.read_journal("start")}
            return done.issuperset(ids)
        self.until(ran, f"all tasks of {name} ran")

    def test_both_follow_the_master(self):
        self.go_server(queues={"default": 1})
        self.quern_worker()
        self.enqueue_and_run("before")
        self.until(lambda: all(self.redis.set.follows(node, self.redis.set.master())
                               for node in self.redis.set.replicas()), "the replicas follow")
        old = self.redis.set.master()
        old.kill()
        self.redis.set.wait_new_master(old)
        self.redis.set.settle()
        self.enqueue_and_run("after")
        servers = {line.get("worker") for line in self.read_journal("start")
                   if line["id"].startswith("after")}
        self.assertGreaterEqual(len(servers), 1)


if __name__ == "__main__":
    lib_interop.main()
