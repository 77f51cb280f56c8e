#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The locks of unique tasks between a Go client or worker and quern, in both directions, under
quern's policies."""

import lib_interop
from lib_interop import InteropTest, b64, payload_of, unb64

HOUR_MS = 3600000


class UniqueTest(InteropTest):
    def go_try(self, **task):
        """The info of the task, or the text of the refusal."""
        task = {"type": "ok", "unique_ms": HOUR_MS, **task, "payload": b64(task["payload"])}
        reply = self.go.request("enqueue", task=task)
        return reply.get("ok") or reply["error"]

    def ours(self, payload, *options):
        return self.enqueue("ok", payload, "--unique", "1h", *options)

    def assert_go_is_refused(self, payload):
        self.assertIn("exists", self.go_try(payload=payload))

    def go_runs_all(self, task_id, state="gone"):
        server = self.go_server()
        self.until_state(state, task_id)
        self.stop(server)

    def test_a_task_of_go_stands_for_ours(self):
        info = self.go_try(payload=b"same", process_in_ms=HOUR_MS, retry=3, timeout_ms=90000,
                           retention_ms=7000)
        info = self.go("task", queue="default", id=info["id"])
        result = self.quern_result("enqueue", "ok", "-", "--unique", "1h", stdin=b"same")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.ours(b"same", "--on-duplicate", "ignore")["id"], info["id"])
        self.assertEqual(self.go("queue", queue="default")["Size"], 1)
        # Its data are replaced; all else is as Go wrote it.
        there = self.ours(b"same", "--on-duplicate", "replace", "--header", "k=v",
                          "--retry-max", "9", "--delay", "2h")
        self.assertEqual(there["id"], info["id"])
        after = self.go("task", queue="default", id=info["id"])
        self.assertEqual(after["headers"], {"k": "v"})
        for name in set(info) - {"headers"}:
            self.assertEqual(after[name], info[name], name)
        # And its moment.
        self.ours(b"same", "--on-duplicate", "debounce", "--delay", "2h")
        moved = self.go("task", queue="default", id=info["id"])
        later_ns = moved["next_process_at_ns"] - info["next_process_at_ns"]
        self.assertLess(abs(later_ns / 1e9 - 3600), lib_interop.PATIENCE_S)
        self.assert_go_is_refused(b"same")
        self.go("run", queue="default", id=info["id"])
        self.go_runs_all(info["id"], "completed")
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.assert_clean()

    def test_an_edited_task_keeps_its_lock_whoever_edits_it(self):
        ours = self.ours(b"same", "--in", "1h")
        self.go("update", queue="default", id=ours["id"], bytes=b64(b"new"))
        self.assertEqual(self.quern("task", "inspect", ours["id"])["payload"], "new")
        self.assert_go_is_refused(b"same")
        self.quern("task", "run", ours["id"])
        self.go_runs_all(ours["id"])
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        theirs = self.go_try(payload=b"same", process_in_ms=HOUR_MS, retry=3, retention_ms=7000)
        before = self.go("task", queue="default", id=theirs["id"])
        self.quern("task", "edit", theirs["id"], "--payload", "new", "--timeout", "90s",
                   "--in", "2h")
        after = self.go("task", queue="default", id=theirs["id"])
        self.assertEqual(unb64(after["payload"]), b"new")
        self.assertEqual(after["timeout_ms"], 90000)
        later_ns = after["next_process_at_ns"] - before["next_process_at_ns"]
        self.assertLess(abs(later_ns / 1e9 - 3600), lib_interop.PATIENCE_S)
        for name in set(before) - {"payload", "timeout_ms", "next_process_at_ns"}:
            self.assertEqual(after[name], before[name], name)
        self.assert_go_is_refused(b"same")
        self.go("run", queue="default", id=theirs["id"])
        self.go_runs_all(theirs["id"], "completed")
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.assert_clean()

    def test_a_task_of_go_goes_to_another_queue_with_its_lock(self):
        info = self.go_try(payload=b"same", process_in_ms=HOUR_MS, retention_ms=7000)
        before = self.go("task", queue="default", id=info["id"])
        self.quern("task", "move", info["id"], "--to", "other")
        after = self.go("task", queue="other", id=info["id"])
        self.assertEqual({**after, "queue": "default"}, before)
        self.assertIn("error", self.go.request("task", queue="default", id=info["id"]))
        self.assertIn("exists", self.go_try(payload=b"same", queue="other"))
        self.assertIn("id", self.go_try(payload=b"same", process_in_ms=HOUR_MS))
        result = self.quern_result("task", "move", "--match", "queue = default", "--to", "other",
                                   "--yes")
        self.assertIn(b"would clash", result.stderr)
        self.go("run", queue="other", id=info["id"])
        server = self.go_server(queues={"other": 1})
        self.until_state("completed", info["id"], "other")
        self.stop(server)
        self.assertEqual(self.redis.do("KEYS", "*{other}:unique:*"), [])
        self.quern("task", "move", "--match", "queue = default", "--to", "other", "--yes")
        self.assertIn("exists", self.go_try(payload=b"same", queue="other"))
        self.assertEqual(self.redis.do("KEYS", "*{default}:unique:*"), [])
        self.assert_clean()

    def test_a_run_of_go_is_not_replaced(self):
        info = self.go_try(type="hold", payload=b"same")
        server = self.go_server()
        self.until_started(info["id"])
        new = self.enqueue("hold", b"same", "--unique", "1h", "--on-duplicate", "replace")
        self.assertNotEqual(new["id"], info["id"])
        self.assertIn("exists", self.go_try(type="hold", payload=b"same"))
        self.release(info["id"])
        self.until_state("gone", info["id"])
        self.assertIn("exists", self.go_try(type="hold", payload=b"same"))
        self.release(new["id"])
        self.until_state("gone", new["id"])
        self.stop(server)
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.assert_clean()

    def test_a_lock_for_a_fixed_time_holds_when_go_has_done_the_task(self):
        task = self.ours(b"same", "--unique-until", "expired")
        self.go_runs_all(task["id"])
        self.assert_go_is_refused(b"same")
        self.assertEqual(self.ours(b"same", "--on-duplicate", "ignore", "--unique-until",
                                   "expired", "--id", "other")["id"], task["id"])
        self.assertEqual(self.state("other"), "gone")
        self.assert_clean()

    def test_a_key_of_our_own_excludes_no_task_of_go(self):
        task = self.ours(b"same", "--unique-key", "k")
        info = self.go_try(payload=b"same")
        self.assertEqual(payload_of(self.quern("task", "inspect", task["id"])),
                         unb64(info["payload"]))
        server = self.go_server()
        for task_id in (task["id"], info["id"]):
            self.until_state("gone", task_id)
        self.stop(server)
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.assert_clean()

    def test_a_lock_until_started_or_ended_is_free_for_go_then(self):
        started = self.enqueue("hold", b"same", "--unique", "1h", "--unique-until", "started")
        ended = self.enqueue("skip", b"same", "--unique", "1h", "--unique-until", "ended")
        for name in ("hold", "skip"):
            self.assertIn("exists", self.go_try(type=name, payload=b"same"))
        worker = self.quern_worker()
        self.until_started(started["id"])
        self.until_state("archived", ended["id"])
        for name in ("hold", "skip"):
            self.assertIn("id", self.go_try(type=name, payload=b"same", process_in_ms=HOUR_MS))
        self.release(started["id"])
        self.until_state("gone", started["id"])
        self.stop(worker)
        # The end of ours has not freed the lock of Go's.
        for name in ("hold", "skip"):
            self.assertIn("exists", self.go_try(type=name, payload=b"same"))
        self.assert_clean()

    def test_a_retry_keeps_the_lock_of_go(self):
        info = self.go_try(type="fail", payload=b"same", unique_ms=20000)
        worker = self.quern_worker(retry_ms=HOUR_MS)
        self.until_state("retry", info["id"])
        self.stop(worker)
        [lock] = self.redis.do("KEYS", "*:unique:*")
        self.assertGreater(self.redis.do("PTTL", lock), HOUR_MS)
        self.assertIn("exists", self.go_try(type="fail", payload=b"same"))
        self.assert_clean()


if __name__ == "__main__":
    lib_interop.main()
