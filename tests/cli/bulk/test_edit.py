#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern task edit by ids and by a query."""

import json

import lib_cli
from lib_cli import CliTest, EXIT_USAGE


class EditTest(CliTest):
    def fill(self, count):
        lines = "".join(json.dumps({"type": "t", "id": f"a{i}", "delay": "1h"}) + "\n"
                        for i in range(count))
        self.ok("enqueue", "--from", "-", stdin=lines)

    def test_payload_moment_and_options(self):
        self.enqueue("t", "old", "--id", "a", "--in", "1h")
        self.assertEqual(self.ok("task", "edit", "a", "--payload", "new", "--in", "2h",
                                 "--retry-max", "3", "--timeout", "never",
                                 "--deadline", "2100-01-02T03:04:05Z", "--retention", "1500ms",
                                 "--backoff", "fixed:2s", "--kill-after", "3s", "--memory", "2M"),
                         "1 task edited")
        task = self.task("a")
        self.assertEqual((task["payload"], task["retry_max"], task["timeout_ms"]), ("new", 3, -1))
        self.assertEqual((task["deadline_at_ms"], task["retention_ms"]), (4102542245000, 1500))
        self.assertEqual((task["kill_after_ms"], task["memory_max"]), (3000, 2 << 20))
        self.assertGreater(task["due_at_ms"] - task["enqueued_at_ms"], 7_100_000)
        self.ok("task", "edit", "a", "--payload", "-", "--deadline", "never", "--retention",
                "never", "--kill-after", "never", "--memory", "never", stdin="from stdin\n")
        task = self.task("a")
        self.assertEqual(task["payload"], "from stdin\n")
        self.assertEqual((task["deadline_at_ms"], task["retention_ms"]), (None, 0))

    def test_several_ids_of_which_some_cannot_be_edited(self):
        self.enqueue("t", "old", "--id", "a")
        self.enqueue("t", "old", "--id", "b", "--in", "1h")
        run = self.run_quern("task", "edit", "a", "none", "b", "--in", "2h", "--json")
        answer = json.loads(run.stdout)
        self.assertEqual((run.returncode, answer["done"], answer["count"]), (1, "edited", 1))
        self.assertEqual([task["ok"] for task in answer["tasks"]], [False, False, True])
        self.assertIn("it is pending, and has none", answer["tasks"][0]["error"])
        self.assertEqual(self.ok("task", "edit", "a", "b", "--payload", "x"), "a edited\nb edited")

    def test_wrong_flags(self):
        self.enqueue("t", "old", "--id", "a")
        for args in ((), ("a",), ("a", "--match", "id = a", "--payload", "x"),
                     ("a", "--dry-run", "--payload", "x"), ("a", "--in", "1h", "--at", "@9"),
                     ("a", "--in", "0"), ("a", "--state", "retry", "--payload", "x"),
                     ("--match", "typ = a", "--payload", "x"), ("a", "--priority", "101")):
            with self.subTest(args=args):
                self.fails(EXIT_USAGE, "task", "edit", *args)
        self.assertIn("has none", self.fails(1, "task", "edit", "a", "--in", "1h"))
        self.fails(1, "task", "edit", "none", "--in", "1h")

    def test_by_a_query_each_task_once(self):
        self.enqueue("odd\"*?\\name", "x", "--id", "odd\"*?\\", "--in", "1h")
        for count in 1, 12, 700:
            self.fill(count)
            page = self.on_terminal("task", "edit", "--match", "id = a*", "--in", "3h", "--dry-run",
                                    env={"NO_COLOR": "1"})
            self.assertRegex(page, rf"\b{count} tasks? would be edited")
            self.assertLessEqual(max(map(len, page.splitlines())), 80)
            self.assertIn(f"Edit {count} task", self.fails(EXIT_USAGE, "task", "edit", "--match",
                                                           "id = a*", "--in", "3h"))
            answer = self.json("task", "edit", "--match", "id = a* and due < 2h", "--in", "3h",
                               "--yes")
            self.assertEqual(answer, {"done": "edited", "count": count, "matched": count,
                                      "changed": 0, "refused": 0})
            answer = self.json("task", "edit", "--match", "id = a*", "--payload", "new", "--yes")
            self.assertEqual((answer["count"], answer["matched"]), (count, count))
            self.assertEqual(self.task("a0")["payload"], "new")
            self.ok("task", "delete", "--match", "id = a*", "--yes", "--no-trash")
        answer = self.json("task", "edit", "--match", "", "--payload", "y", "--yes")
        self.assertEqual(answer["count"], 1)
        self.assertEqual(self.ok("task", "edit", "--match", "id = none", "--in", "1h", "--yes"),
                         "0 tasks edited")

    def test_those_that_do_not_wait_are_counted_and_left(self):
        self.enqueue("t", "old", "--id", "a")
        self.enqueue("t", "old", "--id", "b", "--in", "1h")
        answer = self.json("task", "edit", "--match", "type = t", "--in", "3h", "--dry-run")
        self.assertEqual((answer["count"], answer["refused"], len(answer["sample"])), (1, 1, 2))
        answer = self.json("task", "edit", "--match", "type = t", "--in", "3h", "--yes")
        self.assertEqual((answer["count"], answer["matched"], answer["refused"]), (1, 2, 1))


if __name__ == "__main__":
    lib_cli.main()
