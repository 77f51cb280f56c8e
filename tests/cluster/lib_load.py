# SPDX-License-Identifier: MIT
"""Tests of quern on a cluster: the program, a worker, and a load of tasks while something happens.

QUERN_TEST_FULL: how often failovers and migrations happen."""

import json
import os
import random
import subprocess
import threading
import time
import unittest

import lib_cluster
from lib_redis import die_with_parent

QUERN = os.environ["QUERN"]
FULL = bool(os.environ.get("QUERN_TEST_FULL"))
PATIENCE_S = 120


def queues_on_all(cluster, count):
    """Names of queues, as many on each master."""
    names, found = {}, []
    number = 0
    while len(found) < count * len(cluster.masters()):
        name = f"q{number}"
        number += 1
        owner = cluster.owner_of(lib_cluster.slot_of(name)).port
        if names.setdefault(owner, 0) < count:
            names[owner] += 1
            found.append(name)
    return found


class Feed(threading.Thread):
    """One client after the other enqueues, until it is told to stop; every failure is kept."""

    def __init__(self, url, queues, name="task", pause_s=0):
        super().__init__(name=name, daemon=True)
        self.url, self.queues, self.pause_s = url, queues, pause_s
        self.stored, self.errors = [], []
        self.halt = threading.Event()

    def run(self):
        number = 0
        while not self.halt.wait(self.pause_s):
            lines = []
            for _ in range(20):
                number += 1
                queue = random.choice(self.queues)
                lines.append(json.dumps({"type": "echo", "payload": f"{self.name}-{number}@{queue}",
                                         "queue": queue, "id": f"{self.name}-{number}"}))
            result = subprocess.run(
                [QUERN, "--broker", self.url, "enqueue", "--from", "-"], input="\n".join(lines),
                capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=die_with_parent,
                check=False)
            if result.returncode != 0:
                self.errors.append(result.stderr)
            self.stored += [json.loads(line)["payload"] for line in lines]

    def stop(self):
        self.halt.set()
        self.join()


class ClusterTest(unittest.TestCase):
    shape = {}  # of the cluster

    @classmethod
    def setUpClass(cls):
        cls.cluster = lib_cluster.Cluster(**cls.shape)
        cls.addClassCleanup(cls.cluster.stop)
        if cls.shape.get("replicas", 1) > 0:
            cls.cluster.wait_linked()
        cls.url = cls.cluster.url()

    def setUp(self):
        for node in self.cluster.masters():
            node.do("FLUSHALL")

    def quern(self, *words, code=0, **options):
        result = subprocess.run([QUERN, "--broker", self.url, *words], capture_output=True,
                                text=True, timeout=PATIENCE_S, preexec_fn=die_with_parent,
                                check=False, **options)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        return result

    def json(self, *words):
        return json.loads(self.quern("--json", *words).stdout)

    def counts(self):
        return {row["name"]: row["counts"] for row in self.json("queue", "list")}

    def worker(self, queues, *options, handler=None, concurrency=4):
        words = [word for queue in queues for word in ("--queue", queue)]
        runs = os.path.join(self.cluster.folder, "runs")
        errors = open(os.path.join(self.cluster.folder, "worker"), "wb")
        self.addCleanup(errors.close)
        process = subprocess.Popen(
            [QUERN, "--broker", self.url, "work", *words, "--exec",
             handler or f"echo=printf '%s %s\\n' $(cat) $(date +%s.%N) >> {runs}",
             "--concurrency", str(concurrency),
             *options],
            stderr=errors, preexec_fn=die_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def runs(self):
        """(payload, when it ran) in their order."""
        with open(os.path.join(self.cluster.folder, "runs"), encoding="utf-8") as log:
            rows = [line.split() for line in log.read().splitlines()]
        return [(row[0], float(row[1])) for row in rows if len(row) == 2]

    def waits_for_empty(self, queues, patience_s=PATIENCE_S):
        def is_empty():
            return all(count["pending"] + count["active"] + count["retry"] + count["scheduled"] == 0
                       for name, count in self.counts().items() if name in queues)
        deadline = time.monotonic() + patience_s
        while not is_empty():
            self.assertLess(time.monotonic(), deadline, self.worker_log())
            time.sleep(0.2)

    def worker_log(self):
        with open(os.path.join(self.cluster.folder, "worker"), encoding="utf-8") as log:
            return log.read()
