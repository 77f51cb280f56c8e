#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Brokers that fail over under load: Sentinel, and a list of two servers; and one that is away.

A client stores batches all the time, a worker runs them and notes each run. A batch counts as
stored when the program said so. In the end each of these tasks has run, or is listed as lost; lost
may be only what a promoted replica did not have yet, and nothing where all replicas had to confirm.

QUERN_TEST_FULL=1: 20 failovers instead of 3, and 60 s instead of 10 s without a server."""

import json
import os
import threading
import time

import lib_cli
from lib_cli import CliTest, EXIT_BROKER, EXIT_FAILURE, EXIT_TEMPORARY
from lib_quern import FULL
from lib_sentinel import Node, SentinelSet, free_ports, until

FAILOVERS = 20 if FULL else 3
AWAY_S = 60 if FULL else 10
BATCH = 20
RESUME_S = 3 * 2
LAG_S = 2.0  # what was stored this long before the master died may be lost without `wait`

LOOP = """
import json, sys, time
print(json.dumps({"ready": True}), flush=True)
with open("runs", "a", buffering=1) as runs:
    for text in sys.stdin:
        task = json.loads(text)
        runs.write(f"{task['id']} {time.monotonic()}\\n")
        print(json.dumps({"id": task["id"], "outcome": "done"}), flush=True)
"""


class FailoverTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("loop.py", LOOP)
        self.write("runs", "")
        self.feeding = threading.Event()
        self.stored = {}  # id to the moment before its batch was sent
        self.feeder = None

    def tearDown(self):
        self.feeding.clear()
        if self.feeder:
            self.feeder.join()
        super().tearDown()

    # --- load ------------------------------------------------------------------------------

    def work(self, url, *options):
        return self.start("work", "--broker", url, "--exec-loop", "t=exec python3 loop.py",
                          "--concurrency", "2", "--lease", "3s", *options)

    def feed(self, url):
        """Stores batches until `feeding` is cleared."""
        def run():
            number = 0
            while self.feeding.is_set():
                number += 1
                ids = [f"{number}-{index}" for index in range(BATCH)]
                lines = "".join(json.dumps({"type": "t", "id": name}) + "\n" for name in ids)
                begun = time.monotonic()
                result = self.quern("enqueue", "--from", "-", "--wait-broker", "20s",
                                    "--broker", url, stdin=lines)
                if result.returncode == 0:
                    self.stored.update({name: begun for name in ids})
                else:
                    self.refused.append(result.stderr)
        self.refused = []
        self.feeding.set()
        self.feeder = threading.Thread(target=run)
        self.feeder.start()

    def stop_feeding(self):
        self.feeding.clear()
        self.feeder.join()
        self.feeder = None

    def runs(self):
        """Pairs of an id and a moment."""
        pairs = [line.split() for line in self.read("runs").splitlines()]
        return [(pair[0], float(pair[1])) for pair in pairs if len(pair) == 2]

    def wait_run_after(self, moment, what):
        return until(lambda: [at for _, at in self.runs() if at > moment][:1], what)[0]

    def lost(self, url):
        """Stored tasks that never ran, after the queue has become empty."""
        def empty():
            counts = {}
            for info in json.loads(self.ok("--json", "queue", "list", "--broker", url)):
                counts = info["counts"]
            return not any(counts.get(state) for state in ("pending", "active", "retry",
                                                           "scheduled"))
        until(empty, "the queue is empty")
        ran = {name for name, _ in self.runs()}
        return sorted(name for name in self.stored if name not in ran)

    # --- Sentinel --------------------------------------------------------------------------

    def fail_over(self, servers, kind):
        """The moments at which the master failed, and at which another one was there."""
        master = servers.master()
        if kind == "lag":
            for node in servers.replicas():
                node.freeze()
            time.sleep(0.3)  # of load that the replicas lack
            self.assertGreater(len(self.stored), 0)
        failed = time.monotonic()
        if kind == "stop":
            master.freeze()
        else:
            master.kill()
        for node in servers.nodes:
            if kind == "lag" and node.runs():
                node.thaw()
        up_at, _ = servers.wait_new_master(master)
        return master, failed, up_at

    def check_failovers(self, servers, more=""):
        url = servers.url(more)
        worker = self.work(url)
        self.feed(url)
        self.wait_run_after(0, "the worker runs tasks")
        failures = []
        for index in range(FAILOVERS):
            kind = ("kill", "stop", "lag")[index % 3]
            old, failed, up_at = self.fail_over(servers, kind)
            resumed_s = self.wait_run_after(up_at, f"tasks run after {kind}") - up_at
            print(f"{kind}: {up_at - failed:.2f} s until another master, {resumed_s:.2f} s more "
                  "until a task ran")
            self.assertLessEqual(resumed_s, RESUME_S)
            failures.append((failed, up_at))
            if kind == "stop":
                old.thaw()
            servers.settle()
        self.stop_feeding()
        lost = self.lost(url)
        print(f"stored {len(self.stored)}, lost {len(lost)}: {lost}; refused {self.refused}")
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertGreaterEqual(log.count("broker is another server now"), FAILOVERS, log)
        return [name for name in lost
                if not any(failed - LAG_S < self.stored[name] < up_at + 1
                           for failed, up_at in failures)]

    def test_sentinels_lead_to_the_new_master_under_load(self):
        servers = SentinelSet(password="pw", sentinel_password="sp")
        self.addCleanup(servers.stop)
        self.write("sentinel-password", "sp\n")
        os.chmod(self.path("sentinel-password"), 0o600)
        more = f"&sentinel_password_file={self.path('sentinel-password')}"
        self.assertEqual(self.check_failovers(servers, more), [])
        self.check_an_old_master_is_refused(servers, more)
        self.check_errors(servers, more)

    def check_an_old_master_is_refused(self, servers, more):
        """It is back, and takes itself for the master, before the sentinels have a new one."""
        old = servers.master()
        old.kill()
        servers.wait_new_master(old)
        old.start()
        while self.quern("enqueue", "x", "--broker", servers.url(more)).returncode == 0:
            pass
        task_id = self.enqueue("x", "--wait-broker", "20s", "--broker", servers.url(more))
        self.assertEqual(old.do("EXISTS", f"asynq:{{default}}:t:{task_id}")
                         if old.role() == "master" else 0, 0)
        servers.settle()
        self.ok("task", "inspect", task_id, "--broker", servers.url(more))

    def check_errors(self, servers, more):
        text = self.fails(lib_cli.EXIT_CONFIG, "queue", "list", "--broker",
                          servers.url(more).replace("master=mymaster", "master=other"))
        self.assertIn("know no master of the name other", text)
        text = self.fails(lib_cli.EXIT_DENIED, "queue", "list", "--broker", servers.url())
        self.assertIn("login refused", text)
        for node in servers.sentinels:
            node.kill()
        text = self.fails(EXIT_BROKER, "queue", "list", "--broker", servers.url(more))
        self.assertIn("none of 3 sentinels answers", text)

    def test_nothing_is_lost_where_all_replicas_confirm(self):
        servers = SentinelSet()
        self.addCleanup(servers.stop)
        url = servers.url("&wait=2&wait_ms=3000")
        worker = self.work(url)
        self.feed(url)
        self.wait_run_after(0, "the worker runs tasks")
        _, _, up_at = self.fail_over(servers, "kill")
        self.wait_run_after(up_at, "tasks run again")
        servers.settle()
        self.stop_feeding()
        self.assertEqual(self.lost(servers.url()), [])
        self.assertEqual(self.stop(worker), 0)
        self.check_not_replicated(servers)

    def check_not_replicated(self, servers):
        servers.replicas()[0].freeze()
        url = servers.url("&wait=2&wait_ms=100")
        result = self.quern("--json", "enqueue", "late", "--broker", url)
        self.assertEqual(result.returncode, EXIT_FAILURE, result.stderr)
        self.assertIn("is stored, but too few replicas", result.stderr)
        task = json.loads(result.stdout)
        self.assertEqual(task["status"], "not replicated")
        inspected = json.loads(self.ok("--json", "task", "inspect", task["id"],
                                       "--broker", servers.url()))
        self.assertEqual(inspected["state"], "pending")

    # --- A list ----------------------------------------------------------------------------

    def node(self, name):
        node = Node(self.path(name), free_ports(1)[0], "--appendonly", "yes")
        self.addCleanup(node.kill)
        return node

    def test_a_list_of_two_servers(self):
        first, second = self.node("first"), self.node("second")
        url = f"{first.url()};{second.url()}"
        first.kill()
        worker = self.work(url)
        self.enqueue("t", "--broker", url)
        self.wait_run_after(0, "the task ran by way of the second server")
        self.assertEqual(first.runs(), False)
        first.start()
        def is_used():
            return b"name=quern-tracked" in first.do("CLIENT", "LIST")
        until(is_used, "the worker is back at the preferred server")
        moment = time.monotonic()
        self.enqueue("t", "--broker", url)
        self.wait_run_after(moment, "a task of the first server ran")
        first.kill()
        second.kill()
        text = self.fails(EXIT_BROKER, "enqueue", "t", "--broker", url)
        self.assertIn("none of 2 servers can be used", text)
        begun = time.monotonic()
        text = self.fails(EXIT_BROKER, "enqueue", "t", "--broker", url, "--wait-broker", "1s")
        self.assertGreaterEqual(time.monotonic() - begun, 0.9)
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertEqual(log.count("broker does not answer"), 1, log)

    def test_lists_that_cannot_be(self):
        for url, words in (
                ("redis://a;sqlite:///b", "holds only Redis servers"),
                ("redis://a;redis-sentinel://b", "cannot be one of a list"),
                ("redis://a;redis://b?wait=1", "belongs into the first URL"),
                ("redis://a,b", "commas"),
                ("redis://a?failover=random", "round-robin or shuffle"),
                ("redis://a?wait=0", "a number from 1"),
                ("redis://a?wait_ms=5", "wait_ms needs wait"),
                ("redis-sentinel://a,b", "master=NAME"),
                ("redis-sentinel://a,,b/0?master=m", "host:port,host:port"),
                ("redis+sentinel://a", "redis-sentinel://"),
                ("redis://a?master=m", "redis-sentinel://"),
                ("redis-cluster://a?sentinel_user=u", "redis-sentinel://"),
                ("redis://a?sentinel_password_file=f;redis://b", "redis-sentinel://"),
                ("redis-sentinel://[::1/0?master=m", "IPv6"),
                (";".join(["redis://a"] * 33), "more than 32")):
            self.assertIn(words, self.fails(lib_cli.EXIT_CONFIG, "queue", "list", "--broker", url)
                          .replace("\n", " "), url)

    # --- One server ------------------------------------------------------------------------

    def cpu_s(self, process):
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_a_server_that_is_away_for_a_while(self):
        node = self.node("only")
        worker = self.work(node.url())
        self.feed(node.url())
        self.wait_run_after(0, "the worker runs tasks")
        node.kill()
        before_s = self.cpu_s(worker)
        time.sleep(AWAY_S)  # the outage
        used = (self.cpu_s(worker) - before_s) / AWAY_S
        node.start()
        back = time.monotonic()
        resumed_s = self.wait_run_after(back, "tasks run again") - back
        print(f"away {AWAY_S} s: {used:.2%} of a CPU, {resumed_s:.2f} s until a task ran")
        self.assertLess(used, 3 * 0.02)
        self.assertLess(resumed_s, 3 * 1.0)
        self.stop_feeding()
        self.assertEqual(self.lost(node.url()), [])
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertEqual(log.count("broker answers again"), 1, log)

    def test_no_wait_ends_at_the_first_failure(self):
        port = free_ports(1)[0]
        self.fails(EXIT_BROKER, "work", "--no-wait", "--exec", "t=true", "--broker",
                   f"redis://127.0.0.1:{port};redis://127.0.0.1:{port}/1")
        text = self.fails(EXIT_TEMPORARY, "work", "--no-wait", "--exec", "t=true", "--broker",
                          self.replica_url())
        self.assertIn("this is a replica", text)

    def replica_url(self):
        node = self.node("replica")
        node.do("REPLICAOF", "127.0.0.1", str(free_ports(1)[0]))
        return node.url()


if __name__ == "__main__":
    lib_cli.main()
