#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern's tokens, sessions and due index do not disturb Go, nor Go's ways quern; and a worker of
quern that comes back after its lease finds that its run is another's.

asynq counts with the clocks of its own processes, and gives a lease 30 s of grace. Where a test
would have to wait for that, it turns back the scores of the leases instead (age_leases): what is
then in the server is what a stop of so many seconds leaves."""

import signal
import time
import unittest

import lib_interop
from lib_interop import OVER_TLS, InteropTest, assert_same_task
from lib_quern import FULL

LEASE = "asynq:{default}:lease"


class LimitTest(InteropTest):
    def test_limit_binds_quern_beside_runs_of_go_and_go_not_at_all(self):
        self.quern("limit", "set", "default", "1")
        server = self.go_server()
        self.enqueue("hold", b"", "--id", "x")
        self.until_started("x")
        self.freeze(server)
        self.enqueue("ok", b"", "--id", "y", "--retention", "1h")
        self.enqueue("ok", b"", "--id", "z", "--queue", "other", "--retention", "1h")
        worker = self.quern_worker(queues=("default", "other"))
        self.until_state("completed", "z", "other")  # one request leases from both queues
        self.assertEqual(self.state("y"), "pending")
        server.send_signal(signal.SIGCONT)
        self.release("x")
        self.until_state("completed", "y")
        self.stop(worker)
        self.quern("limit", "set", "default", "0")
        self.enqueue("ok", b"", "--id", "w", "--retention", "1h")
        self.until_state("completed", "w")
        self.stop(server)
        self.assert_clean()


class RecoverTest(InteropTest):
    def orphan(self, worker, task_id):
        """Kills the worker in the middle of a run, and lets 90 s pass for its lease."""
        self.until_started(task_id)
        worker.kill()
        worker.wait()
        self.assertEqual(self.age_leases(), [task_id])

    def test_gos_recoverer_takes_over_what_a_killed_quern_worker_left(self):
        self.enqueue("hold", b"", "--id", "x", "--retry", "2")
        self.orphan(self.quern_worker(), "x")
        self.release("x")
        server = self.go_server()
        self.until_state("gone", "x")
        [first, second] = self.read_journal("start")
        self.assertEqual((first["worker"], second["worker"]), ("quern", "go"))
        self.assertEqual(second["retried"], 1)
        self.assertEqual(self.counts(), (2, 1))
        self.stop(server)
        self.assert_clean()

    def test_quern_recovers_what_a_killed_go_server_left(self):
        self.enqueue("hold", b"", "--id", "x", "--retry", "2", "--retention", "1h")
        self.orphan(self.go_server(), "x")
        self.release("x")
        worker = self.quern_worker()
        self.until_state("retry", "x")
        # As asynq's recoverer: a failure, after 15 to 44 s, which are turned forward.
        self.assertEqual(self.counts(), (1, 1))
        self.redis.do("ZADD", "asynq:{default}:retry", "1", "x")
        self.until_state("completed", "x")
        [first, second] = self.read_journal("start")
        self.assertEqual((first["worker"], second["worker"]), ("go", "quern"))
        self.assertEqual((second["cause"], second["crashes"], second["retried"]),
                         ("lease expired", 0, 1))
        self.assertEqual(self.counts(), (2, 1))
        self.stop(worker)
        self.assert_clean()

    @unittest.skipUnless(FULL, "takes more than a minute: QUERN_TEST_FULL=1")
    def test_without_turning_anything_quern_waits_for_the_lease_and_the_grace(self):
        self.enqueue("hold", b"", "--id", "x", "--retry", "2")
        server = self.go_server()
        self.until_started("x")
        server.kill()
        server.wait()
        ends = int(self.redis.do("ZSCORE", LEASE, "x"))
        self.release("x")
        worker = self.quern_worker()
        self.until(lambda: self.state("x") == "gone", "quern runs it", patience_s=150)
        [_, second] = self.read_journal("start")
        # asynq's delay of a first retry is 15 to 44 s.
        self.assertGreaterEqual(second["at_ns"] / 1e9, ends + 30 + 15)
        self.assertLess(second["at_ns"] / 1e9, ends + 40 + 45)
        self.stop(worker)
        self.assert_clean()

    def test_quern_leaves_a_go_run_alone_that_is_in_its_grace(self):
        self.enqueue("hold", b"", "--id", "x")
        server = self.go_server()
        self.until_started("x")
        self.freeze(server)
        self.age_leases(seconds=45)  # over since 15 s, so in the grace of 30 s
        worker = self.quern_worker(name="late")
        self.enqueue("ok", b"", "--id", "y")
        self.until_state("gone", "y")
        # A recovery at its start would have been before this run.
        self.assertEqual(self.state("x"), "active")
        self.assertEqual(len([line for line in self.read_journal("start") if line["id"] == "x"]), 1)
        self.age_leases(seconds=60)
        self.release("x")
        self.until_started("x", 2)
        self.until_state("gone", "x")
        server.kill()
        self.stop(worker)
        self.assert_clean()

    def test_gos_recoverer_leaves_a_living_quern_run_alone(self):
        self.enqueue("hold", b"", "--id", "x")
        worker = self.quern_worker()
        self.until_started("x")
        server = self.go_server()
        self.enqueue("ok", b"", "--id", "y")
        self.until_state("gone", "y")
        self.assertEqual(self.state("x"), "active")
        self.release("x")
        self.until_state("gone", "x")
        self.assertEqual(len([line for line in self.read_journal("start") if line["id"] == "x"]), 1)
        self.stop(server)
        self.stop(worker)
        self.assert_clean()

    def test_both_see_an_orphan(self):
        for start in (self.quern_worker, self.go_server):
            self.empty()
            self.journal = self.path(start.__name__)
            self.enqueue("hold", b"", "--id", "x")
            worker = start()
            self.until_started("x")
            [theirs] = self.go("list", queue="default", state="active")
            self.assertFalse(theirs["is_orphaned"])
            self.assertFalse(self.quern("task", "inspect", "x")["orphaned"])
            self.freeze(worker)
            self.age_leases(seconds=31)
            [theirs] = self.go("list", queue="default", state="active")
            self.assertTrue(theirs["is_orphaned"])
            [ours] = self.quern("task", "list", "--state", "active")
            assert_same_task(self, ours, theirs)
            worker.kill()
            worker.wait()


class HeartbeatTest(InteropTest):
    def score(self, task_id):
        return int(self.redis.do("ZSCORE", LEASE, task_id) or 0)

    def until_extended(self, task_id):
        """Its lease, set back a little, is extended again."""
        self.redis.do("ZADD", LEASE, "XX", self.score(task_id) - 9, task_id)
        low = self.score(task_id)
        self.until(lambda: self.score(task_id) > low, f"the lease of {task_id} is extended")

    def test_each_prolongs_its_own_leases_beside_the_other(self):
        self.enqueue("hold", b"", "--id", "ours", "--queue", "default")
        # A lease of 9 s is extended each 3 s.
        worker = self.quern_worker(lease_ms=9000)
        self.until_started("ours")
        server = self.go_server()
        # quern's worker may take the next one, too: so it shall have no room.
        self.stop(worker)
        self.until_state("active", "ours")
        self.until(lambda: self.read_journal("start")[-1]["worker"] == "go", "Go runs it")
        worker = self.quern_worker(lease_ms=9000, queues=("other",))
        self.enqueue("hold", b"", "--id", "second", "--queue", "other")
        self.until_started("second")
        token = self.redis.do("HGET", "asynq:{other}:t:second", "pending_since")
        self.until_extended("ours")  # Go's heartbeat
        self.assertIsNone(self.redis.do("HGET", "asynq:{default}:t:ours", "pending_since"))
        score = int(self.redis.do("ZSCORE", "asynq:{other}:lease", "second"))
        self.until(lambda: int(self.redis.do("ZSCORE", "asynq:{other}:lease", "second")) > score,
                   "quern extends its lease")
        self.assertEqual(self.redis.do("HGET", "asynq:{other}:t:second", "pending_since"), token)
        for task_id, queue in (("ours", "default"), ("second", "other")):
            self.release(task_id)
            self.until_state("gone", task_id, queue)
        self.stop(server)
        self.stop(worker)
        self.assert_clean()

    def test_a_go_heartbeat_over_a_quern_lease_changes_nothing_else(self):
        """Go's ExtendLease names only ids of its own, but if it named ours (ZADD XX of a score),
        the token would still be ours: the outcome is taken."""
        self.enqueue("hold", b"", "--id", "x")
        worker = self.quern_worker()
        self.until_started("x")
        self.redis.do("ZADD", LEASE, "XX", int(time.time()) + 30, "x")
        self.release("x")
        self.until_state("gone", "x")
        [report] = self.until(lambda: self.read_journal("reported"), "the outcome is reported")
        self.assertTrue(report["applied"])
        self.stop(worker)
        self.assert_clean()


class DelayTest(InteropTest):
    def test_gos_forwarder_moves_what_quern_delayed(self):
        server = self.go_server()
        began = time.time()
        for number in range(10):
            self.enqueue("ok", b"", "--id", f"d{number}", "--in", "700ms")
        self.until(lambda: self.counts()[0] == 10, "all were run")
        self.assertEqual({line["worker"] for line in self.read_journal("start")}, {"go"})
        self.assertGreater(min(line["at_ns"] for line in self.read_journal("start")),
                           (began + 0.7) * 1e9)
        self.stop(server)
        # The entries of our index are stale now; that is allowed, and ends with the next upkeep.
        self.assert_clean()
        worker = self.quern_worker()
        self.enqueue("ok", b"", "--id", "last", "--in", "300ms")
        self.until_state("gone", "last")
        self.until(lambda: not self.redis.do("EXISTS", "asynq:{default}:quern:due"),
                   "the index is empty")
        self.stop(worker)

    def test_gos_forwarder_moves_what_quern_will_retry(self):
        self.enqueue("fail:1", b"no", "--id", "x", "--retention", "1h")
        worker = self.quern_worker(retry_ms=1500)
        self.until_state("retry", "x")
        due = int(self.redis.do("ZSCORE", "asynq:{default}:retry", "x"))
        self.stop(worker)
        server = self.go_server()
        self.until_state("completed", "x")
        [first, second] = self.read_journal("start")
        self.assertEqual((first["worker"], second["worker"], second["retried"]),
                         ("quern", "go", 1))
        self.assertGreaterEqual(second["at_ns"] / 1e9, due)
        self.stop(server)
        self.assert_clean()

    def test_quern_runs_what_it_delayed_at_the_millisecond_though_go_has_seconds(self):
        worker = self.quern_worker()
        began_ms = time.time() * 1000
        info = self.enqueue("ok", b"", "--id", "x", "--in", "1234ms")
        score = int(self.redis.do("ZSCORE", "asynq:{default}:scheduled", "x"))
        self.assertEqual(score, -(-info["due_at_ms"] // 1000))
        self.until_state("gone", "x")
        [start] = self.read_journal("start")
        self.assertGreaterEqual(start["at_ns"] / 1e6, began_ms + 1234)
        self.assertLess(start["at_ns"] / 1e9, score + 1)
        self.stop(worker)

    def test_a_go_worker_retries_what_quern_scheduled(self):
        server = self.go_server()
        self.enqueue("fail:2", b"no", "--id", "x", "--in", "500ms", "--retention", "1h")
        self.until_state("completed", "x")
        self.assertEqual([line["retried"] for line in self.read_journal("start")], [0, 1, 2])
        assert_same_task(self, self.quern("task", "inspect", "x"),
                         self.go("task", queue="default", id="x"))
        self.stop(server)
        self.assert_clean()

    def test_attempts_of_both_add_up(self):
        """Go fails it, quern fails it, Go does it."""
        self.enqueue("fail:2", b"no", "--id", "x", "--retention", "1h", "--unique", "1h")
        server = self.go_server(retry_ms=3600000)
        self.until_state("retry", "x")
        self.stop(server)
        self.quern("task", "run", "x")
        worker = self.quern_worker(retry_ms=3600000)
        self.until_state("retry", "x")
        self.stop(worker)
        self.go("run", queue="default", id="x")
        server = self.go_server()
        self.until_state("completed", "x")
        self.assertEqual([(line["worker"], line["retried"]) for line in self.read_journal("start")],
                         [("go", 0), ("quern", 1), ("go", 2)])
        self.assertEqual(self.counts(), (3, 2))
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.stop(server)
        self.assert_clean()


class KeepTest(InteropTest):
    """What is kept for a while by one is removed by the other when that is over."""

    def complete_by(self, worker):
        self.enqueue("result", b"body", "--id", "x", "--retention", "1500ms")
        self.until_state("completed", "x")
        self.stop(worker)
        self.assertIn("ok", self.go.request("task", queue="default", id="x"))
        return int(self.redis.do("ZSCORE", "asynq:{default}:completed", "x"))

    def assert_removed_after(self, kept_until):
        self.until_state("gone", "x")
        self.assertGreaterEqual(time.time(), kept_until)
        self.assertEqual(self.redis.do("ZCARD", "asynq:{default}:completed"), 0)

    def test_quern_removes_what_go_completed(self):
        kept_until = self.complete_by(self.go_server())
        worker = self.quern_worker()
        self.assert_removed_after(kept_until)
        self.stop(worker)
        self.assert_clean()

    def test_gos_janitor_removes_what_quern_completed(self):
        kept_until = self.complete_by(self.quern_worker())
        server = self.go_server(janitor_ms=100)
        self.assert_removed_after(kept_until)
        self.stop(server)
        self.assert_clean()


class AggregateTest(InteropTest):
    def test_go_aggregates_the_groups_of_quern(self):
        for number in range(3):
            self.enqueue("part", str(number).encode(), "--group", "digest")
        server = self.go_server(grace_ms=1000)
        self.until(lambda: self.counts() == (1, 0), "the aggregate was run")
        self.assertEqual(len(self.read_journal("start")), 1)
        self.until(lambda: self.go("queue", queue="default")["Size"] == 0, "nothing is left")
        self.assertEqual(self.go("groups", queue="default") or [], [])
        self.stop(server)
        self.assert_clean()


class FenceTest(InteropTest):
    """A worker of quern is stopped past its lease, a Go server runs the task, the first goes on."""

    def stopped_and_overtaken(self, *options, lease_ms=30000):
        self.enqueue("hold", b"", "--id", "x", "--retry", "3", *options)
        worker = self.quern_worker(name="first", lease_ms=lease_ms)
        self.until_started("x")
        self.freeze(worker)
        self.age_leases()
        server = self.go_server(name="second")
        self.until_started("x", 2)
        self.assertEqual([line["worker"] for line in self.read_journal("start")],
                         ["first", "second"])
        # Go's recoverer counted one failure.
        self.assertEqual(self.counts(), (1, 1))
        return worker, server

    def reports(self, worker_name):
        return [line for line in self.read_journal("reported") if line["worker"] == worker_name]

    def assert_refused(self, worker, server):
        """The first goes on, and ends; nothing that Go's run has is touched; then Go ends it."""
        before = self.redis.dump()
        worker.send_signal(signal.SIGCONT)
        [report] = self.until(lambda: self.reports("first"), "the first has reported")
        self.assertFalse(report["applied"])
        after = self.redis.dump()
        for name in ("active", "lease", "t:x", "processed", "failed"):
            key = f"asynq:{{default}}:{name}".encode()
            if name == "lease":  # Go may have extended it
                self.assertEqual(sorted(after[key][2]), sorted(before[key][2]))
            else:
                self.assertEqual(after[key], before[key], name)
        self.assertEqual(len(self.read_journal("end")), 1)
        self.release("x")
        self.until_state("completed", "x")
        self.assertEqual(self.counts(), (2, 1))
        self.assertEqual(len(self.read_journal("start")), 2)
        self.stop(server)
        self.stop(worker)
        self.assert_clean()

    def test_its_success_is_refused_while_go_runs_the_task(self):
        worker, server = self.stopped_and_overtaken("--retention", "1h")
        self.release("x", worker="first")  # so that it ends before it hears of anything
        self.assert_refused(worker, server)

    def test_it_hears_that_its_lease_is_lost_while_go_runs_the_task(self):
        # Extended each 2 s, so that it is notified soon.
        worker, server = self.stopped_and_overtaken("--retention", "1h", lease_ms=6000)
        self.assert_refused(worker, server)

    def test_its_success_is_refused_after_go_has_done_the_task(self):
        worker, server = self.stopped_and_overtaken("--retention", "1h")
        self.release("x")
        self.until_state("completed", "x")
        before = self.redis.dump()[b"asynq:{default}:t:x"]
        worker.send_signal(signal.SIGCONT)
        [report] = self.until(lambda: self.reports("first"), "the first has reported")
        self.assertFalse(report["applied"])
        self.assertEqual(self.redis.dump()[b"asynq:{default}:t:x"], before)
        self.assertEqual(self.counts(), (2, 1))
        self.stop(server)
        self.stop(worker)
        self.assert_clean()

    def test_its_success_is_refused_when_the_task_is_deleted(self):
        worker, server = self.stopped_and_overtaken()
        self.release("x")
        self.until_state("gone", "x")
        worker.send_signal(signal.SIGCONT)
        [report] = self.until(lambda: self.reports("first"), "the first has reported")
        self.assertFalse(report["applied"])
        self.assertEqual(self.state("x"), "gone")
        self.assertEqual(self.counts(), (2, 1))
        self.stop(server)
        self.stop(worker)
        self.assert_clean()


def load_tests(loader, tests, _):
    """Over TLS, which changes nothing of what the tests show, only the quick ones."""
    if not OVER_TLS or FULL:
        return tests
    return unittest.TestSuite(map(loader.loadTestsFromTestCase,
                                  (LimitTest, HeartbeatTest, FenceTest)))


if __name__ == "__main__":
    lib_interop.main()
