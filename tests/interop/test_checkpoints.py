#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a run of quern changes in its task - payload, queue, retries, the reason of a snooze - as
Go's Inspector shows it and Go's worker runs it; and tasks of Go's client that quern changes. Limits
of a run that a task brings along mean nothing to Go."""

import lib_interop
from lib_interop import InteropTest, assert_same_task, b64, unb64

HOUR_MS = 3600000


class CheckpointTest(InteropTest):
    def put(self, side, task_type, payload, **options):
        """Enqueued by this side; gives its id."""
        task_id = f"{side}-{task_type.replace(':', '-')}"
        if side == "go":
            return self.go("enqueue", task={"type": task_type, "payload": b64(payload),
                                            "id": task_id, **options})["id"]
        words = ["--id", task_id]
        for name, option in (("unique_ms", "--unique"), ("retention_ms", "--retention")):
            if name in options:
                words += [option, f"{options[name]}ms"]
        return self.enqueue(task_type, payload, *words)["id"]

    def changed(self, task_id, queue):
        """Lets quern run it once; what both show of it then."""
        worker = self.quern_worker()
        self.until_state("retry", task_id, queue)
        self.stop(worker)
        theirs = self.go("task", queue=queue, id=task_id)
        assert_same_task(self, self.quern("task", "inspect", task_id, "--queue", queue), theirs)
        return theirs

    def go_runs(self, task_id, queue, state):
        self.go("run", queue=queue, id=task_id)
        server = self.go_server(queues={queue: 1})
        self.until_state(state, task_id, queue)
        self.stop(server)

    def test_go_runs_what_quern_has_changed(self):
        for side in ("go", "quern"):
            for queue in ("", "other"):
                with self.subTest(side=side, queue=queue):
                    self.empty()
                    self.check_change(side, queue)

    def check_change(self, side, queue):
        payload = b"a\x00\xff"
        task_id = self.put(side, f"checkpoint:{queue}", payload, retention_ms=HOUR_MS)
        queue = queue or "default"
        info = self.changed(task_id, queue)
        self.assertEqual(unb64(info["payload"]), b"next: " + payload)
        self.assertEqual((info["queue"], info["max_retry"], info["retried"], info["last_err"]),
                         (queue, 77, 1, "checkpoint"))
        self.assertEqual(info["retention_ms"], HOUR_MS)
        if queue == "other":
            self.assertIn("other", self.go("queues"))
            gone = self.go.request("task", queue="default", id=task_id)
            self.assertIn("not found", gone["error"])
            self.assertEqual(self.go("queue", queue="default")["Size"], 0)
        self.assertEqual([row["id"] for row in self.go("list", queue=queue, state="retry")],
                         [task_id])
        self.assert_clean()
        self.go_runs(task_id, queue, "completed")
        info = self.go("task", queue=queue, id=task_id)
        self.assertEqual(unb64(info["result"]), b"next: " + payload)
        self.assert_clean()

    def go_try(self, task_type, payload, queue):
        reply = self.go.request("enqueue", task={"type": task_type, "payload": b64(payload),
                                                 "queue": queue, "unique_ms": HOUR_MS})
        return reply.get("error", "")

    def test_a_unique_task_takes_its_lock_along(self):
        for side in ("go", "quern"):
            with self.subTest(side=side):
                self.empty()
                task_id = self.put(side, "checkpoint:other", b"p", unique_ms=HOUR_MS)
                self.assertIn("exists", self.go_try("checkpoint:other", b"p", "default"))
                self.changed(task_id, "other")
                # The lock is that of the payload with which it was enqueued, in the other queue.
                self.assertIn("exists", self.go_try("checkpoint:other", b"p", "other"))
                [lock] = self.redis.do("KEYS", "*:unique:*")
                self.assertTrue(lock.startswith(b"asynq:{other}:unique:"), lock)
                self.assertGreater(self.redis.do("PTTL", lock), HOUR_MS)
                self.assert_clean()
                self.go_runs(task_id, "other", "gone")
                self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
                self.assertEqual(self.go_try("checkpoint:other", b"p", "default"), "")
                self.assert_clean()

    def test_a_lock_of_go_in_the_other_queue_keeps_the_task_in_its_own(self):
        self.assertEqual(self.go_try("checkpoint:other", b"p", "other"), "")
        task_id = self.put("go", "checkpoint:other", b"p", unique_ms=HOUR_MS)
        info = self.changed(task_id, "default")
        self.assertEqual((unb64(info["payload"]), info["max_retry"]), (b"next: p", 77))
        self.assertIn("exists", self.go_try("checkpoint:other", b"p", "default"))
        self.assert_clean()
        self.go("delete", queue="default", id=task_id)
        self.assertEqual(self.go_try("checkpoint:other", b"p", "default"), "")

    def test_go_shows_the_reason_of_a_snooze_and_counts_no_failure(self):
        for side in ("go", "quern"):
            with self.subTest(side=side):
                self.empty()
                task_id = self.put(side, "snooze", b"the other side is busy", retention_ms=HOUR_MS)
                info = self.changed(task_id, "default")
                self.assertEqual((info["last_err"], info["retried"], info["last_failed_at_ns"]),
                                 ("the other side is busy", 0, 0))
                self.assertEqual(self.counts(), (0, 0))
                self.assert_clean()

    def test_go_runs_a_task_with_limits_of_its_runs(self):
        self.enqueue("result", b"body", "--id", "limited", "--kill-after", "5s", "--cpu", "90s",
                     "--memory", "512M", "--retention", "1h")
        server = self.go_server()
        self.until_state("completed", "limited")
        self.stop(server)
        info = self.go("task", queue="default", id="limited")
        self.assertEqual(unb64(info["result"]), b"body")
        ours = self.quern("task", "inspect", "limited")
        self.assertEqual([ours[name] for name in ("kill_after_ms", "cpu_ms", "memory_max")],
                         [5000, 90000, 512 << 20])
        self.assert_clean()


if __name__ == "__main__":
    lib_interop.main()
