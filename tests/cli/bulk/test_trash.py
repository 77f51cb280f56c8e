#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern trash list|restore|empty, and what bulk actions say before they act: counts, a sample, a
question; with 1, 12 and thousands of tasks, in 80 columns, and while workers run."""

import json
import os
import time
import unittest

import lib_cli
from lib_cli import BROKER, CliTest, EXIT_USAGE

# Of tasks that are deleted while workers run, and come back.
MANY = 100_000 if os.environ.get("QUERN_TEST_FULL") else 3000
BESIDE = min(MANY // 10, 1000)  # that workers run meanwhile


class TrashTest(CliTest):
    def fill(self, count, prefix="a", **more):
        lines = "".join(json.dumps({"type": "t", "id": f"{prefix}{i}", "payload": {"n": i},
                                    **more}) + "\n" for i in range(count))
        self.ok("enqueue", "--from", "-", stdin=lines)

    def trash(self, *args):
        return self.json("trash", "list", "--limit", "10000", *args)["tasks"]

    def size(self):
        return self.json("queue", "inspect", "default")["size"]


class VerbsTest(TrashTest):
    def test_deleted_tasks_are_listed_and_come_back(self):
        self.enqueue("mail:a", "to ann", "--id", "m1", "--header", "user=ann", "--timeout", "7s")
        self.enqueue("mail:b", "x", "--id", "m2", "--in", "1h", "--queue", "other")
        before = [self.task("m1"), self.task("m2")]
        self.ok("task", "delete", "m1", "m2")
        deleted = self.trash()
        self.assertEqual([task["id"] for task in deleted], ["m1", "m2"])
        self.assertTrue(all(task["deleted_at_ms"] > 0 for task in deleted))
        self.assertEqual(self.trash("--match", "header.user = ann")[0]["payload"], "to ann")
        self.assertEqual(self.trash("--queue", "other")[0]["state"], "scheduled")
        self.assertEqual(self.ok("trash", "restore", "m1", "m2"), "2 tasks restored")
        after = [self.task("m1"), self.task("m2")]
        for task in before + after:
            del task["waits_because"], task["what_to_do"]
        self.assertEqual(after, before)
        self.assertEqual(self.trash(), [])
        self.assertIn("no task m1 in the trash", self.fails(1, "trash", "restore", "m1"))

    def test_no_trash_deletes_for_good_and_so_does_empty(self):
        self.fill(4)
        self.ok("task", "delete", "a0", "--no-trash")
        self.assertEqual(self.trash(), [])
        self.ok("task", "delete", "--match", "id = a1", "--yes")
        self.ok("task", "delete", "--all", "--state", "pending", "--yes")
        self.assertEqual(len(self.trash()), 3)
        self.assertEqual(self.ok("trash", "empty", "--match", "id = a1", "--yes"),
                         "1 task deleted for good")
        self.assertIn("2 tasks? (not a terminal: use --yes)",
                      self.fails(EXIT_USAGE, "trash", "empty"))
        self.ok("trash", "empty", "--yes")
        self.assertEqual(self.trash(), [])

    def test_short_id_restores(self):
        name = self.enqueue("t")
        self.ok("task", "delete", name)
        self.ok("trash", "restore", name[:18])
        self.assertEqual(self.state(name), "pending")

    def test_clashes_are_refused_and_named(self):
        self.enqueue("u", "p", "--id", "a", "--unique", "1h")
        self.ok("task", "delete", "a")
        self.enqueue("u", "p", "--id", "b", "--unique", "1h")
        self.assertIn("another task holds its unique lock",
                      self.fails(1, "trash", "restore", "a"))
        dry = self.json("trash", "restore", "--all", "--dry-run")
        self.assertEqual((dry["count"], dry["refused"]), (0, 1))
        answer = self.quern("trash", "restore", "--all", "--yes")
        self.assertEqual(answer.stdout, "0 tasks restored\n")
        self.assertIn("1 more would clash", answer.stderr)
        self.assertEqual(len(self.trash()), 1)

    def test_wrong_flags(self):
        self.enqueue("t")
        for args in (("restore",), ("restore", "a", "--all"), ("restore", "a", "--match", "id = a"),
                     ("restore", "a", "--dry-run"), ("restore", "--match", "typ = x"),
                     ("empty", "a"), ("empty", "--match", "age > 2"), ("list", "--limit", "0"),
                     ("list", "--cursor", "x"), ("list", "--state", "retry")):
            with self.subTest(args=args):
                self.fails(EXIT_USAGE, "trash", *args)
        self.fails(EXIT_USAGE, "task", "run", "--match", "id = a", "--no-trash")


class BulkTest(TrashTest):
    """All bulk actions ask in one way."""

    def dry(self, *words):
        return self.on_terminal(*words, "--dry-run", env={"NO_COLOR": "1"})

    def test_each_says_how_many_and_shows_some_within_80_columns(self):
        bulk = [("task", verb) for verb in ("run", "archive", "delete", "cancel")]
        bulk += [("task", "edit", "--payload", "x"), ("task", "move", "--to", "else")]
        bulk += [("trash", "restore"), ("trash", "empty")]
        self.enqueue("t", "--id", "other")
        for count in 0, 1, 12, 5000:
            self.fill(count, f"n{count}-" + "long-" * 8, delay="1h",
                      queue="a-queue-with-a-rather-long-name")
            for words in bulk[:6]:
                page = self.dry(*words, "--match", f"id = n{count}-*")
                self.check(page, words, count if words[1] != "cancel" else 0, count)
            self.ok("task", "delete", "--match", f"id = n{count}-*", "--yes")
            for words in bulk[6:]:
                self.check(self.dry(*words, "--match", ""), words, count, count)
            self.ok("trash", "empty", "--yes")

    def test_all_of_a_state_says_the_same(self):
        self.enqueue("t", "--id", "here", "--in", "1h")
        self.fill(12, "n", delay="1h", queue="other")
        for verb, state, done in (("run", "scheduled", 12), ("archive", "scheduled", 12),
                                  ("delete", "scheduled", 12), ("delete", "active", 0)):
            words = "task", verb, "--all", "--state", state, "--queue", "other"
            page = self.dry(*words)
            self.check(page, words, done, done)
            dry = self.json(*words, "--dry-run")
            self.assertEqual((dry["count"], dry["matched"], len(dry["sample"])),
                             (done, done, min(done, 5)))
        asked = self.fails(EXIT_USAGE, "task", "delete", "--all", "--state", "scheduled")
        self.assertIn("and 8 more", asked)
        self.assertIn("here  scheduled  default  t", asked)
        self.assertIn("Delete 13 scheduled tasks of all queues?", asked)
        self.assertEqual(self.json("queue", "inspect", "other")["size"], 12)

    def check(self, page, words, done, shown):
        with self.subTest(words=words, count=shown):
            self.assertRegex(page, rf"\b{done} tasks? would be ")
            rows = [line for line in page.splitlines() if line.startswith("n")]
            self.assertEqual(len(rows), min(shown, 5))
            for line in page.splitlines():
                self.assertLessEqual(len(line), 80)

    def test_counts_are_exact_and_come_back_exactly_while_workers_run(self):
        # A sanitizer keeps freed memory for a while.
        self.env["ASAN_OPTIONS"] = self.env.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        self.fill(MANY, "keep", delay="1h")
        self.fill(BESIDE, "work")
        worker = self.start("work", "--exec", "t=true", "--concurrency", "2")
        answer, usage = self.measured("task", "delete", "--match", "id = keep*", "--yes")
        self.assertEqual((answer["count"], answer["matched"]), (MANY, MANY))
        small = self.measured("task", "delete", "--match", "id = none*", "--yes")[1]
        self.assertLess(usage - small, 16 << 10, "KiB more than for none")
        back = self.measured("trash", "restore", "--all", "--yes")[0]
        self.assertEqual((back["count"], back["refused"], back["changed"]), (MANY, 0, 0))
        self.assertEqual(self.counts()["scheduled"], MANY)
        self.assertEqual(self.trash(), [])
        self.until(lambda: self.json("queue", "inspect", "default")["size"] == MANY, "all is done")
        self.stop(worker)
        self.assertEqual(self.json("queue", "inspect", "default")["processed_total"], BESIDE)

    def measured(self, *words):
        """The answer, and the memory that the program had at most, in KiB."""
        process = self.start(*words, "--json")
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, text)
        return json.loads(text), usage.ru_maxrss


@unittest.skipUnless(BROKER == "redis", "Go's tasks are in Redis")
class GoTest(TrashTest):
    def test_tasks_of_go_come_back_as_they_were(self):
        redis = lib_cli.the_server()
        states = {"g1": "pending", "g2": "retry", "g3": "archived", "g4": "completed",
                  "g5": "scheduled"}
        now = int(time.time())
        redis.go_put("g1", "pending", now - 10)
        redis.go_put("g2", "retry", now + 200, retried=2, error_msg="no", last_failed_at=now - 9)
        redis.go_put("g3", "archived", now - 50, error_msg="gave up")
        redis.go_put("g4", "completed", now + 300, retention=310, completed_at=now - 10)
        redis.go_put("g5", "scheduled", now + 100)
        def stored():
            return {name: (redis.do("HGET", f"asynq:{{default}}:t:{name}", "msg"),
                           redis.do("HGET", f"asynq:{{default}}:t:{name}", "state"),
                           redis.do("ZSCORE", f"asynq:{{default}}:{state}", name)
                           if state != "pending" else None)
                    for name, state in states.items()}
        before = stored()
        self.ok("task", "delete", "--match", "", "--yes")
        self.assertEqual(self.size(), 0)
        self.ok("trash", "restore", "--all", "--yes")
        self.assertEqual(stored(), before)
        left = [key for key in redis.do("KEYS", "*") if b"quern:trash" in key]
        self.assertEqual(left, [])


if __name__ == "__main__":
    lib_cli.main()
