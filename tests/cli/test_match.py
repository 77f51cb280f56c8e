#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern task list|run|archive|delete|cancel --match: queries, pages with a cursor, actions with
their counts, also while workers run; tasks of Go among them."""

import json
import time
import unittest

import lib_cli
from lib_cli import BROKER, CliTest, EXIT_USAGE


class MatchTest(CliTest):
    def match(self, query, *args):
        return self.json("task", "list", "--match", query, *args)

    def ids(self, query, *args):
        return sorted(task["id"] for task in self.match(query, *args)["tasks"])

    def fill(self, count, prefix="a", *, type_name="t"):
        lines = "".join(json.dumps({"type": type_name, "id": f"{prefix}{i}",
                                    "payload": {"n": i}}) + "\n" for i in range(count))
        self.ok("enqueue", "--from", "-", stdin=lines)

    def fill_some(self):
        self.enqueue("mail:a", "to ann", "--id", "m1", "--header", "user=ann")
        self.enqueue("mail:b", "to bob", "--id", "m2", "--queue", "other")
        self.enqueue("sms", "x", "--id", "s1", "--in", "1h")
        self.enqueue("sms", "y", "--id", "s2", "--group", "g")


class ListTest(MatchTest):
    def test_queries_select_tasks(self):
        self.fill_some()
        self.assertEqual(self.ids("type = mail:*"), ["m1", "m2"])
        self.assertEqual(self.ids("type = mail:* and queue != other"), ["m1"])
        self.assertEqual(self.ids("payload ~ 'to b' or due < 2h"), ["m2", "s1"])
        self.assertEqual(self.ids("not (state = pending or group = g)"), ["s1"])
        self.assertEqual(self.ids("header.user = a?n and age < 1h"), ["m1"])
        self.assertEqual(self.ids("id = m2"), ["m2"])
        self.assertEqual(self.ids("size = 1", "--state", "aggregating"), ["s2"])
        self.assertEqual(self.ids("", "--queue", "other"), ["m2"])
        self.assertEqual(self.match("type = none"), {"tasks": [], "searched": 4, "total": 4})

    def test_faults_name_the_column_or_the_option(self):
        self.fill_some()
        for args, text in ((("--match", "typ = x"), "column 1: no field 'typ'"),
                           (("--match", "age > 2"), "column 7: expected a duration"),
                           (("--match", "x", "--type", "t"), "write it into the query"),
                           (("--match", "id = x", "--page", "2"), "--cursor"),
                           (("--match", "id = x", "--state", "retry", "--state", "active"),
                            "several states"),
                           (("--match", "id ~ x", "--cursor", "1.2"), "not the cursor"),
                           (("--cursor", "x"), "go with --match")):
            with self.subTest(args=args):
                self.assertIn(text, self.fails(EXIT_USAGE, "task", "list", *args))

    def test_pages_of_1_12_and_5000_tasks(self):
        for count in 1, 12, 5000:
            with self.subTest(count=count):
                self.fill(count, f"n{count}-")
                query = f"id = n{count}-*"
                found, cursor, pages = [], [], 0
                while True:
                    page = self.match(query, "--limit", "10000", "--scan", "2000", *cursor)
                    found += [task["id"] for task in page["tasks"]]
                    pages += 1
                    if "cursor" not in page:
                        break
                    cursor = ["--cursor", page["cursor"]]
                self.assertEqual(sorted(found), sorted(f"n{count}-{i}" for i in range(count)))
                self.assertEqual(page["searched"], page["total"])
        self.assertEqual(pages, 3)

    def test_message_tells_where_to_continue(self):
        self.fill(12)
        page = self.quern("task", "list", "--match", "id ~ a", "--limit", "5")
        self.assertEqual(len(page.stdout.splitlines()), 6)
        self.assertIn("5 tasks; searched 5 of 12; continue with --cursor '", page.stderr)
        cursor = page.stderr.split("'")[1]
        page = self.quern("task", "list", "--match", "id ~ a", "--cursor", cursor)
        self.assertIn("7 tasks; searched 12, which is all", page.stderr)
        page = self.quern("task", "list", "--match", "id = none*", "--scan", "5")
        self.assertIn("0 tasks; searched 5 of 12; continue with", page.stderr)
        self.assertEqual(page.returncode, 0)


class ActTest(MatchTest):
    def test_actions_count_and_need_a_yes(self):
        self.fill_some()
        self.assertIn("1 task? (not a terminal: use --yes)",
                      self.fails(EXIT_USAGE, "task", "delete", "--match", "type = mail:a"))
        dry = self.json("task", "delete", "--match", "type = mail:*", "--dry-run", "--yes")
        self.assertEqual((dry["dry_run"], dry["count"], len(dry["sample"])), (True, 2, 2))
        self.assertEqual(self.ids("type = mail:*"), ["m1", "m2"])
        answer = self.json("task", "archive", "--match", "type = mail:*", "--yes")
        self.assertEqual(answer, {"done": "archived", "count": 2, "matched": 2, "changed": 0,
                                  "refused": 0})
        answer = self.quern("task", "archive", "--match", "id ~ m or id = s1", "--yes")
        self.assertEqual(answer.stdout, "1 task archived\n")
        self.assertIn("2 more are in a state that does not allow it", answer.stderr)
        self.ok("task", "run", "--match", "state = archived and queue = other", "--yes")
        self.assertEqual(self.ids("state = pending"), ["m2"])
        self.ok("task", "delete", "--match", "", "--queue", "default", "--yes")
        self.assertEqual(self.ids(""), ["m2"])
        for args in (("--match", "x", "--all"), ("--match", "x", "id"), ("--dry-run", "id"),
                     ("--match", "id = x", "--text", "y")):
            self.fails(EXIT_USAGE, "task", "delete", *args)

    def test_actions_on_5000_tasks(self):
        self.fill(5000)
        self.fill(12, "b", type_name="other")
        answer = self.json("task", "archive", "--match", "type = t", "--yes")
        self.assertEqual(answer["count"], 5000)
        self.assertEqual(self.json("task", "run", "--match", "id = a*7 and size < 1K",
                                   "--yes")["count"], 500)
        answer = self.json("task", "delete", "--match", "state = archived or type = other", "--yes")
        self.assertEqual(answer["count"], 4512)
        self.assertEqual(self.json("queue", "inspect", "default")["size"], 500)

    def test_counts_are_exact_while_workers_run(self):
        self.fill(3000)
        worker = self.start("work", "--exec", "t=true", "--concurrency", "4")
        self.until(lambda: self.json("queue", "inspect", "default")["processed_total"] > 5,
                   "the worker works")
        answer = self.json("task", "delete", "--match", "type = t", "--yes")
        self.assertEqual(answer["matched"],
                         answer["count"] + answer["changed"] + answer["refused"])
        self.until(lambda: self.json("queue", "inspect", "default")["size"] == 0, "all is over")
        self.stop(worker)
        processed = self.json("queue", "inspect", "default")["processed_total"]
        self.assertEqual(processed + answer["count"], 3000)

    def test_task_that_fails_again_is_run_once(self):
        self.enqueue("t", "--id", "a", "--retry", "never")
        self.drain("t=exit 1")
        worker = self.start("work", "--exec", "t=exit 1")
        for _ in range(3):
            self.assertEqual(self.json("task", "run", "--match", "state = archived",
                                       "--yes")["count"], 1)
            self.wait_state("a", "archived")
        self.stop(worker)
        self.assertEqual(self.json("queue", "inspect", "default")["failed_total"], 4)

    def test_cancel_asks_active_tasks_to_stop(self):
        self.enqueue("t", "--id", "a")
        self.fifo("hold")
        worker = self.start("work", "--exec", f"t=cat {self.path('hold')}")
        self.wait_state("a", "active")
        answer = self.json("task", "cancel", "--match", "running >= 0s and id = a", "--then",
                           "archive", "--yes")
        self.assertEqual(answer["count"], 1)
        self.wait_state("a", "archived")
        self.stop(worker)


@unittest.skipUnless(BROKER == "redis", "Go's tasks are in Redis")
class GoTest(MatchTest):
    def test_tasks_of_go_are_found_and_changed(self):
        now = int(time.time())
        redis = lib_cli.the_server()
        redis.go_put("g1", "pending", now - 10)
        redis.go_put("g2", "retry", now + 200, retried=2, error_msg="no route", last_failed_at=now)
        redis.go_put("g3", "archived", now - 50, error_msg="gave up")
        redis.go_put("g4", "completed", now + 300, retention=310, completed_at=now - 10)
        redis.go_put("g5", "scheduled", now + 100)
        self.assertEqual(self.ids("error ~ route and retried >= 2"), ["g2"])
        self.assertEqual(self.ids("failed < 10m"), ["g2"])
        self.assertEqual(self.ids("ended < 1h and not error ~ route"), ["g3", "g4"])
        self.assertEqual(self.ids("due > 0s and due < 10m"), ["g2", "g5"])
        self.assertEqual(self.ids("crashes = 0 and worker = ''"), ["g1", "g2", "g3", "g4", "g5"])
        self.assertEqual(self.json("task", "run", "--match", "state = retry or state = archived",
                                   "--yes")["count"], 2)
        self.assertEqual(self.ids("state = pending"), ["g1", "g2", "g3"])


if __name__ == "__main__":
    lib_cli.main()
