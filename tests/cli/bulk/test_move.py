#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern task move by ids and by a query, also while workers run and the program is killed."""

import json
import os
import random

import lib_cli
from lib_cli import CliTest, EXIT_USAGE

KILLED = 300 if os.environ.get("QUERN_TEST_FULL") else 40  # how often the program is killed


class MoveTest(CliTest):
    def fill(self, count, **more):
        lines = "".join(json.dumps({"type": "t", "id": f"a{i}", **more}) + "\n"
                        for i in range(count))
        self.ok("enqueue", "--from", "-", stdin=lines)

    def size(self, queue):
        return self.json("queue", "inspect", queue)["size"]

    def test_by_ids(self):
        self.enqueue("t", "x", "--id", "a", "--in", "1h", "--unique", "2h")
        self.enqueue("t", "y", "--id", "b")
        before = self.task("a")
        self.assertEqual(self.ok("task", "move", "a", "--to", "slow"), "1 task moved")
        after = self.task("a")
        self.assertEqual({**after, "queue": "default"},
                         {**before, "waits_because": after["waits_because"],
                          "what_to_do": after["what_to_do"]})
        self.assertEqual(after["queue"], "slow")
        answer = self.quern("--json", "task", "move", "a", "b", "none", "--to", "other")
        self.assertEqual(answer.returncode, 1)
        answer = json.loads(answer.stdout)
        self.assertEqual((answer["done"], answer["count"]), ("moved", 2))
        self.assertEqual([task["ok"] for task in answer["tasks"]], [True, True, False])
        self.assertIn("in queue other already", self.fails(1, "task", "move", "a", "--to", "other"))
        self.assertIn("holds its unique lock", self.refuse_a_lock())

    def refuse_a_lock(self):
        self.enqueue("t", "x", "--id", "c", "--unique", "2h")
        return self.fails(1, "task", "move", "c", "--to", "other")

    def test_wrong_flags(self):
        self.enqueue("t", "--id", "a")
        for args in (("--to", "b"), ("a",), ("a", "--match", "id = a", "--to", "b"),
                     ("a", "--dry-run", "--to", "b"), ("a", "--state", "retry", "--to", "b"),
                     ("a", "--to", "b{"), ("--match", "typ = a", "--to", "b"),
                     ("--match", "id = a", "--to", "")):
            with self.subTest(args=args):
                self.fails(EXIT_USAGE, "task", "move", *args)
        self.assertEqual(self.task("a")["queue"], "default")

    def test_by_a_query(self):
        self.fill(700)
        self.enqueue("t", "--id", "a5", "--queue", "other")
        self.enqueue("t", "--id", "own", "--queue", "other")
        answer = self.json("task", "move", "--match", "type = t", "--to", "other", "--dry-run")
        self.assertEqual((answer["count"], answer["matched"], len(answer["sample"])), (700, 700, 5))
        self.assertIn("Move 700 tasks?", self.fails(EXIT_USAGE, "task", "move", "--match",
                                                    "type = t", "--to", "other"))
        answer = self.quern("task", "move", "--match", "type = t", "--to", "other", "--yes")
        self.assertEqual(answer.stdout, "699 tasks moved\n")
        self.assertIn("1 more has a state that does not allow it, or would clash with a task there",
                      answer.stderr)
        self.assertEqual((self.size("default"), self.size("other")), (1, 701))

    def test_each_task_runs_once_however_often_the_program_is_killed(self):
        """While it moves tasks to and fro, and a worker takes them from both queues."""
        lines = self.path("lines")
        count = KILLED * 5
        self.fill(count)
        worker = self.start("work", "--queue", "default", "--queue", "other", "--concurrency", "1",
                            "--exec", f"t=echo $QUERN_TASK_ID >>{lines}")
        moved = 0
        for turn in range(KILLED):
            here, there = ("default", "other")[::1 if turn % 2 else -1]
            mover = self.start("task", "move", "--match", f"queue = {here}", "--to", there, "--yes",
                               "--json")
            try:
                text, _ = mover.communicate(timeout=random.uniform(0.02, 0.3))
                moved += json.loads(text)["count"]
            except (lib_cli.subprocess.TimeoutExpired, ValueError):
                mover.kill()
                mover.communicate()
        self.until(lambda: self.size("default") + self.size("other") == 0, "all is done")
        self.stop(worker)
        with open(lines, encoding="utf-8") as file:
            ran = sorted(file.read().split())
        self.assertEqual(ran, sorted(f"a{i}" for i in range(count)))
        self.assertGreater(moved, 0)
        self.ok("doctor")


if __name__ == "__main__":
    lib_cli.main()
