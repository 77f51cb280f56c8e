#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Short ids: what task list shows on a terminal is unique, and every command takes it."""

import json
import re
import uuid

import lib_cli
from lib_cli import CliTest, EXIT_FAILURE

NO_COLOR = {"NO_COLOR": "1"}


class ShortIdTest(CliTest):
    def shown(self, *args, columns=80):
        """The first words of the rows that a terminal shows."""
        page = self.on_terminal("task", "list", *args, columns=columns, env=NO_COLOR)
        rows = [line for line in page.splitlines()[1:] if not line.startswith("quern: ")]
        for line in page.splitlines():
            self.assertLessEqual(len(line), columns, page)
        return [row.split()[0] for row in rows]

    def whole(self, short):
        return self.task(short)["id"]

    def fill(self, count, **more):
        lines = "".join(json.dumps({"type": "image:resize", "payload": "x" * 60, **more}) + "\n"
                        for _ in range(count))
        self.ok("enqueue", "--from", self.write("in.jsonl", lines))

    def test_one_task_and_twelve_have_ids_of_18_characters(self):
        ids = [self.enqueue("t")]
        self.assertEqual(self.shown(), [ids[0][:18]])
        ids += [self.enqueue("t") for _ in range(11)]
        self.assertEqual(self.shown(), [an_id[:18] for an_id in ids])
        self.assertEqual([self.whole(short) for short in self.shown()], ids)
        self.assertEqual(self.shown("--wide", columns=200), ids)
        self.assertEqual([line.split()[0] for line in self.ok("task", "list").splitlines()[1:]],
                         ids)

    def test_ids_of_a_page_of_5000_are_unique_among_all(self):
        self.fill(5000)
        ids = [task["id"] for task in self.json("task", "list", "--limit", "5000")]
        for page in ("1", "100"):
            shown = self.shown("--page", page)
            self.assertEqual(len(set(shown)), 30)
            for short in shown:
                self.assertLessEqual(len(short), 19)
                self.assertEqual(len([an_id for an_id in ids if an_id.startswith(short)]), 1)
        self.assertEqual(self.whole(shown[7]), ids[30 * 99 + 7])
        self.assertEqual(sorted(self.shown("--limit", "5000")),
                         sorted(an_id[:len(shown[0])] for an_id in ids))

    def test_random_ids_and_ids_of_ones_own(self):
        ids = [str(uuid.UUID(int=(n << 96) + (4 << 76) + (2 << 62))) for n in range(10, 13)]
        for an_id in ids + ["invoice-2026-11-0017"]:
            self.enqueue("t", "--id", an_id)
        self.assertEqual(self.shown(), [an_id[:8] for an_id in ids] + ["invoice-2026-11-0017"])
        self.assertEqual(self.whole("0000000b"), ids[1])
        self.fails(EXIT_FAILURE, "task", "inspect", "invoice-2026")

    def test_every_verb_takes_a_short_id(self):
        ids = [self.enqueue("t", "--in", "1h") for _ in range(3)]
        short = [an_id[:18] for an_id in ids]
        self.assertEqual(self.ok("task", "archive", short[0]), f"{ids[0]} archived")
        self.assertEqual(self.ok("task", "run", short[0], ids[1]),
                         f"{ids[0]} made pending\n{ids[1]} made pending")
        self.assertEqual(self.json("task", "delete", short[2])["tasks"],
                         [{"ok": True, "id": ids[2]}])
        self.assertIn(ids[0], self.fails(EXIT_FAILURE, "task", "cancel", short[0]))
        self.assertIn("no task", self.fails(EXIT_FAILURE, "task", "delete", short[2]))
        self.assertEqual(self.ok("task", "inspect", short[0], "--payload"), "")
        self.assertEqual(self.state(ids[1]), "pending")

    def test_an_ambiguous_id_changes_nothing_and_names_some(self):
        self.fill(30)
        ids = [task["id"] for task in self.json("task", "list")]
        error = self.fails(EXIT_FAILURE, "task", "delete", ids[0][:8])
        self.assertEqual(len([an_id for an_id in ids if an_id in error]), 3)
        self.assertIn("and others", error)
        result = self.quern("--json", "task", "delete", ids[0][:8])
        self.assertEqual(json.loads(result.stdout)["count"], 0)
        self.assertEqual(len(self.json("task", "list")), 30)

    def test_the_time_alone_is_too_short_to_change_a_task(self):
        an_id = self.enqueue("t")
        self.assertEqual(self.whole(an_id[:13]), an_id)
        for verb in ("delete", "archive", "run", "cancel"):
            self.assertIn(an_id, self.fails(EXIT_FAILURE, "task", verb, an_id[:13]))
        self.assertEqual(self.state(an_id), "pending")

    def test_a_whole_id_wins(self):
        an_id = self.enqueue("t")
        self.enqueue("other", "--id", an_id[:8])
        self.assertEqual(self.task(an_id[:8])["type"], "other")
        self.ok("task", "delete", an_id[:8])
        self.assertEqual(self.task(an_id[:8])["type"], "t")

    def test_what_matters_has_the_width(self):
        self.fill(12, retry_max=-1)
        self.drain("image:=echo no route to host for this image >&2; exit 1")
        self.fill(3)
        page = self.on_terminal("task", "list", env=NO_COLOR)
        self.assertEqual(page.split("\n")[0].split(), ["ID", "STATE", "QUEUE", "TYPE", "ERROR",
                                                       "AT"])
        self.assertIn("image:resize ", page)
        page = self.on_terminal("task", "list", "--queue", "default", "--state", "archived",
                                env=NO_COLOR)
        self.assertEqual(page.split("\n")[0].split()[:3], ["ID", "TYPE", "ERROR"])
        self.assertIn("exit status 1: no route to host", page)
        page = self.on_terminal("task", "list", columns=160, env=NO_COLOR)
        self.assertIn("PAYLOAD", page)
        page = self.on_terminal("task", "list", "--wide", env=NO_COLOR)
        self.assertIn("x" * 60, page)
        self.assertEqual(page.splitlines()[0], self.ok("task", "list").splitlines()[0])
        self.assertTrue(re.search(r" (now|\d+m?s ago)\n", page), page)


if __name__ == "__main__":
    lib_cli.main()
