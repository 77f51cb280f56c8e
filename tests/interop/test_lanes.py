#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tasks that wait aside for a limit of their key or for their key's turn, which Go knows as
scheduled: what asynq's Inspector does with them while quern's workers serve the queue."""

import json
import time

import lib_interop
from lib_interop import InteropTest
from lib_quern import FULL, PATIENCE_S

Q = "asynq:{default}:"
KEYS = 10
MANY = 9000 if FULL else 2000  # an archive holds 10 000


class LaneTest(InteropTest):
    def put(self, *ids, task_type="ok", key=None):
        """Enqueues tasks of quern; the limit_key of each is what its id begins with, before "-"."""
        lines = "".join(json.dumps({"type": task_type, "id": task_id,
                                    "limit_key": key or task_id.split("-")[0]}) + "\n"
                        for task_id in ids)
        result = self.quern_result("enqueue", "--from", "-", stdin=lines.encode())
        self.assertEqual(result.returncode, 0, result.stderr.decode())

    def started(self):
        return [line["id"] for line in self.read_journal("start")]

    def go_scheduled(self):
        return [info["id"] for info in self.go("list", queue="default", state="scheduled",
                                               size=100)]

    def assert_one_at_a_time(self):
        """No two tasks of a key ran at the same time."""
        moments = [(line["at_ns"], step, line["id"].split("-")[0])
                   for what, step in (("end", -1), ("start", 1))
                   for line in self.read_journal(what)]
        running = {}
        for _, step, key in sorted(moments):
            running[key] = running.get(key, 0) + step
            self.assertLessEqual(running[key], 1, key)
        self.assertEqual(set(running.values()), {0})

    def assert_nothing_left(self):
        """No place that holds tasks, or knows of them, is left; and the data are in order."""
        keys = [key for key in self.redis.do("KEYS", Q + "*") if b":t:" in key or
                b":quern:lane" in key or key.endswith((b":scheduled", b":pending", b":active"))]
        self.assertEqual(keys, [])
        self.assertEqual(self.redis.do("ZRANGEBYLEX", Q + "quern:limit:runs", "(\0", "+"), [])
        self.assert_clean()

    def test_one_task_is_listed_run_archived_and_deleted(self):
        self.quern("limit", "set", "default", "1", "--key", "*")
        worker = self.quern_worker()
        self.put("k-1", "k-2", "k-3", "k-4", "k-5", "k-6", task_type="hold")
        self.until_started("k-1")
        waiting = ["k-2", "k-3", "k-4", "k-5", "k-6"]
        self.until(lambda: self.go_scheduled() == waiting, "the others wait aside")
        info = self.go("queue", queue="default")
        self.assertEqual((info["Scheduled"], info["Pending"], info["Active"]), (5, 0, 1))
        self.assertEqual(self.go("task", queue="default", id="k-2")["state"], "scheduled")
        self.assertEqual(self.quern("task", "inspect", "k-2")["state"], "pending")
        self.go("run", queue="default", id="k-5")
        self.go("archive", queue="default", id="k-3")
        self.go("delete", queue="default", id="k-4")
        self.assertIn("error", self.go.request("run", queue="default", id="k-4"))
        # A task of another key shows that a lease has seen all of that.
        self.put("x-1")
        self.until_state("gone", "x-1")
        self.until(lambda: sorted(self.go_scheduled()) == ["k-2", "k-5", "k-6"], "k-5 waits again")
        self.assertEqual(self.started(), ["k-1", "x-1"])
        for number in ("1", "2", "5", "6"):
            self.release(f"k-{number}")
        for number in ("2", "5", "6"):
            self.until_state("gone", f"k-{number}")
        self.assertEqual(sorted(self.started()), ["k-1", "k-2", "k-5", "k-6", "x-1"])
        self.assert_one_at_a_time()
        self.go("run", queue="default", id="k-3")
        self.release("k-3")
        self.until_state("gone", "k-3")
        self.stop(worker)
        self.assert_nothing_left()

    def test_all_are_run_again_and_again_and_each_runs_once(self):
        self.quern("limit", "set", "default", "1", "--key", "*")
        workers = [self.quern_worker(name) for name in ("one", "two")]
        ids = [f"{number % KEYS}-{number}" for number in range(MANY)]
        self.put(*ids, task_type="rest:1")
        counts = []

        def all_done():
            counts.append(self.go("run_all", queue="default", state="scheduled"))
            return len(self.read_journal("end")) >= MANY
        self.until(all_done, "all are done", patience_s=5 * PATIENCE_S)
        self.assertGreater(sum(counts), MANY // 2)
        self.assertEqual(sorted(self.started()), sorted(ids))
        self.assert_one_at_a_time()
        for worker in workers:
            self.stop(worker)
        self.assertEqual(self.counts(), (MANY, 0))
        self.assert_nothing_left()

    def take_all_away(self, verb):
        """Go takes many waiting tasks away while two workers run them; what it has not taken is
        run. Returns how many it took."""
        self.quern("limit", "set", "default", "1", "--key", "*")
        workers = [self.quern_worker(name) for name in ("one", "two")]
        ids = [f"{number % KEYS}-{number}" for number in range(MANY)]
        self.put(*ids, task_type="rest:1")
        self.until(lambda: len(self.started()) >= 3 * KEYS, "some run")
        self.assertGreater(self.go("queue", queue="default")["Scheduled"], MANY // 2)
        taken = self.go(verb, queue="default", state="scheduled")
        # New tasks of the same keys are behind thousands of entries that are stale.
        last = [f"{number}-last" for number in range(KEYS)]
        self.put(*last)
        for task_id in last:
            self.until_state("gone", task_id)

        def all_done():
            info = self.go("queue", queue="default")
            return info["Pending"] + info["Active"] + info["Scheduled"] == 0
        self.until(all_done, "all others are run", patience_s=5 * PATIENCE_S)
        started = self.started()
        self.assertEqual(len(started), len(set(started)))
        self.assertEqual(len(started), MANY + KEYS - taken)
        self.assert_one_at_a_time()
        for worker in workers:
            self.stop(worker)
        return taken

    def test_all_are_deleted(self):
        self.assertGreater(self.take_all_away("delete_all"), MANY // 2)
        self.assert_nothing_left()

    def test_all_are_archived_and_run(self):
        taken = self.take_all_away("archive_all")
        self.assertEqual(self.go("queue", queue="default")["Archived"], taken)
        self.assert_clean()
        self.assertEqual(self.go("run_all", queue="default", state="archived"), taken)
        worker = self.quern_worker("three")
        self.until(lambda: len(self.read_journal("end")) == MANY + KEYS, "all are run")
        self.assertEqual(len(set(self.started())), MANY + KEYS)
        self.assert_one_at_a_time()
        self.stop(worker)
        self.assert_nothing_left()

    def test_go_server_of_the_queue_gets_no_task_that_waits_aside(self):
        self.quern("limit", "set", "default", "1", "--key", "*")
        worker = self.quern_worker()
        server = self.go_server()
        waiting = ["k-2", "k-3", "k-4"]
        self.put("k-1", *waiting, task_type="hold")
        self.until_started("k-1")
        self.until(lambda: self.go_scheduled() == waiting, "the others wait aside")

        def due_in_s(task_id):
            return int(self.redis.do("ZSCORE", Q + "scheduled", task_id) or 0) - time.time()
        for _ in range(3):
            # As if all but 20 of the 600 s were over. Go looks for due tasks 20 times a second.
            due_s = int(time.time()) + 20
            for task_id in waiting:
                self.redis.do("ZADD", Q + "scheduled", "XX", due_s, task_id)
            self.until(lambda: min(map(due_in_s, waiting)) > 300 or time.time() >= due_s,
                       "their moment is put off")
            self.assertLess(time.time(), due_s)
            self.assertEqual(sorted(self.go_scheduled()), waiting)
        for task_id in ("k-1", *waiting):
            self.release(task_id)
        for task_id in waiting:
            self.until_state("gone", task_id)
        self.assertEqual({line["worker"] for line in self.read_journal("start")}, {"quern"})
        self.assert_one_at_a_time()
        self.stop(server)
        self.stop(worker)
        self.assert_nothing_left()


if __name__ == "__main__":
    lib_interop.main()
