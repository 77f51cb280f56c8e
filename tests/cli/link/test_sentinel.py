#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sentinel fails over under load, half of the times to a replica that lags.

Tasks are finished again soon after a new master is there, counted from the moment at which the one
that finishes them answers that it is the master; if the sentinels replace it before, it must have
been a short time. In the end each stored task has run, or is listed as lost. What the promoted
replica has is read when it is promoted: lost may be only what it lacked, of what was stored before
the master failed; and nothing where all replicas had to confirm.

QUERN_TEST_FULL=1: 20 failovers instead of 3, and as many where all replicas confirm."""

import json
import os
import time

import lib_cli
from lib_cli import EXIT_BROKER, EXIT_CONFIG, EXIT_DENIED, EXIT_FAILURE
from lib_load import LoadTest
from lib_quern import FULL
from lib_sentinel import MASTER, SentinelSet, until
from lib_terms import Terms

FAILOVERS = 20 if FULL else 3
CONFIRMED_FAILOVERS = 20 if FULL else 1
TLS_FAILOVERS = 4 if FULL else 1
KINDS = ("kill", "lag", "stop", "lag")
RESUME_S = 2 * (1 if FULL else 3)  # beside other tests the machine is busy

HOLD = "echo begun >>held; while ! test -e release; do sleep 0.01; done; echo ended >>held"


class SentinelTest(LoadTest):
    def servers(self, **options):
        servers = SentinelSet(**options)
        self.addCleanup(servers.stop)
        return servers

    # --- Failovers -------------------------------------------------------------------------

    def fail_over(self, servers, terms, kind):
        """Gives the term of the master that it ends."""
        until(lambda: servers.master() is terms.latest().node, "the sentinels name the master")
        term = terms.latest()
        if kind == "lag":
            for node in servers.replicas():
                node.freeze()
            term.lagged = time.monotonic()
            term.node.do("CLIENT", "KILL", "TYPE", "replica")  # else the socket has the rest
            self.wait_batch()
            self.wait_batch()  # this one was sent since then: the replicas lack it
        if kind == "stop":
            term.node.freeze()
        else:
            term.node.kill()
        term.failed = time.monotonic()
        for node in servers.nodes:
            if kind == "lag" and node.runs():
                node.thaw()
        return term

    def fail_over_again_and_again(self, servers, terms, count):
        """On a busy machine the sentinels may also replace a master that is only slow."""
        for index in range(count):
            kind = KINDS[index % len(KINDS)]
            failed = self.fail_over(servers, terms, kind)
            terms.wait_finished(failed)
            later = terms.list[terms.list.index(failed) + 1:]
            print(f"{index + 1} {kind}: {later[0].begun - failed.failed:.2f} s until another "
                  f"master, {terms.longest_pause_s(later):.2f} s more until it finished a task"
                  f"{', replaced once more' * (len(later) - 1)}")
            if kind == "stop":
                failed.node.thaw()
            servers.settle()
        terms.wait_finished()
        self.stop_feeding()
        pause_s = terms.longest_pause_s(terms.list[1:])
        print(f"{count} failovers, {len(terms.list) - 1} new masters, "
              f"at most {pause_s:.2f} s until one finished a task")
        self.assertLessEqual(pause_s, RESUME_S)

    def begin(self, servers, url):
        worker = self.work(url)
        self.feed(url)
        self.wait_run_after(0, "the worker runs tasks")
        terms = Terms(servers.nodes)
        self.addCleanup(terms.stop)
        return worker, terms

    def finish(self, worker, count):
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertGreaterEqual(log.count("broker is another server now"), count, log)

    def check_failovers(self, servers, more, count):
        url = servers.url(more)
        worker, terms = self.begin(servers, url)
        self.fail_over_again_and_again(servers, terms, count)
        lost = self.lost(url)
        print(f"stored {len(self.stored)}, run twice {len(self.duplicates())}, "
              f"refused {len(self.refused)}, lost {len(lost)}")
        unexplained = []
        for name in lost:
            lacked = terms.lacked_by(name, self.stored[name], self.answered[name])
            print(f"lost {name}: masters {lacked} lacked it when they were promoted")
            unexplained += [] if lacked else [name]
        self.assertEqual(unexplained, [])
        self.finish(worker, count)

    def test_sentinels_lead_to_the_new_master_under_load(self):
        servers = self.servers(password="pw", sentinel_password="sp")
        self.write("sentinel-password", "sp\n")
        os.chmod(self.path("sentinel-password"), 0o600)
        more = f"&sentinel_password_file={self.path('sentinel-password')}"
        self.check_failovers(servers, more, FAILOVERS)
        self.check_errors(servers, more)

    def test_the_same_by_tls(self):
        self.check_failovers(self.servers(tls=True), "", TLS_FAILOVERS)

    def test_an_old_master_that_is_back_is_refused(self):
        """It takes itself for the master until the sentinels make it a replica; what it stored
        then would be lost."""
        servers = self.servers()
        old = servers.master()
        old.kill()
        until(lambda: any(self.is_replacing(node) for node in servers.sentinels),
              "a sentinel replaces it")
        old.start()
        ids = []
        while old.role() == "master":
            result = self.quern("enqueue", "x", "--broker", servers.url())
            ids += result.stdout.split() if result.returncode == 0 else []
        ids.append(self.enqueue("x", "--wait-broker", "20s", "--broker", servers.url()))
        servers.settle()
        print(f"{len(ids)} stored while the old master was back")
        for task_id in ids:
            self.ok("task", "inspect", task_id, "--broker", servers.url())

    def is_replacing(self, sentinel):
        flat = sentinel.do("SENTINEL", "MASTER", MASTER)
        return b"failover_in_progress" in dict(zip(flat[::2], flat[1::2]))[b"flags"]

    def check_errors(self, servers, more):
        text = self.fails(EXIT_CONFIG, "queue", "list", "--broker",
                          servers.url(more).replace("master=mymaster", "master=other"))
        self.assertIn("know no master of the name other", text)
        text = self.fails(EXIT_DENIED, "queue", "list", "--broker", servers.url())
        self.assertIn("login refused", text)
        for node in servers.sentinels:
            node.kill()
        text = self.fails(EXIT_BROKER, "queue", "list", "--broker", servers.url(more))
        self.assertIn("none of 3 sentinels answers", text)

    # --- All replicas confirm --------------------------------------------------------------

    def test_nothing_is_lost_where_all_replicas_confirm(self):
        servers = self.servers()
        url = servers.url("&wait=2&wait_ms=500")
        worker, terms = self.begin(servers, url)
        self.fail_over_again_and_again(servers, terms, CONFIRMED_FAILOVERS)
        self.assertEqual(self.lost(servers.url()), [])
        print(f"stored {len(self.stored)}, refused {len(self.refused)}, lost 0")
        self.finish(worker, CONFIRMED_FAILOVERS)
        self.check_not_replicated(servers)

    def check_not_replicated(self, servers):
        servers.replicas()[0].freeze()
        url = servers.url("&wait=2&wait_ms=100")
        result = self.quern("--json", "enqueue", "late", "--broker", url)
        self.assertEqual(result.returncode, EXIT_FAILURE, result.stderr)
        self.assertIn("1 of the 2 replicas asked for confirmed it within 100 ms", result.stderr)
        task = json.loads(result.stdout)
        self.assertEqual(task["status"], "not replicated")
        inspected = json.loads(self.ok("--json", "task", "inspect", task["id"],
                                       "--broker", servers.url()))
        self.assertEqual(inspected["state"], "pending")

    # --- A kept outcome --------------------------------------------------------------------

    def test_outcome_that_is_kept_counts_once_on_the_new_master(self):
        servers = self.servers()
        worker = self.start("work", "--broker", servers.url(), "--exec", f"h={HOLD}")
        task_id = self.enqueue("h", "--retention", "1h", "--broker", servers.url())
        master = servers.master()
        until(lambda: "begun" in self.read_if("held"), "the task runs")
        for node in servers.replicas():  # they know that it runs, and with which token
            until(lambda node=node: node.do("ZSCORE", "asynq:{default}:lease", task_id),
                  "the replica has the lease")
        master.kill()
        self.write("release", "")
        until(lambda: "ended" in self.read_if("held"), "the run has ended")
        roles = [node.role() for node in servers.nodes if node.runs()]
        self.assertNotIn("master", roles)  # nobody can take its outcome
        _, promoted = servers.wait_new_master(master)
        key = f"asynq:{{default}}:t:{task_id}"
        until(lambda: promoted.do("HGET", key, "state") == b"completed", "its outcome counts")
        self.assertEqual(promoted.do("GET", "asynq:{default}:processed"), b"1")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.read("held").split(), ["begun", "ended"])
        self.assertEqual(promoted.do("ZCARD", "asynq:{default}:lease"), 0)

    def read_if(self, name):
        return self.read(name) if os.path.exists(self.path(name)) else ""


if __name__ == "__main__":
    lib_cli.main()
