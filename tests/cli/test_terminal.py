#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a terminal gets and a pipe does not: narrow tables, bold titles, the progress bar."""

import json

import lib_cli
from lib_cli import CliTest


class TerminalTest(CliTest):
    def fill(self):
        for n in range(3):
            self.enqueue("image:resize", "x" * 300, "--queue", f"a-rather-long-name-{n}")

    def test_tables_fit_the_terminal_and_are_whole_in_a_pipe(self):
        self.fill()
        for columns in (40, 80, 100, 132):
            for verb in (["task", "list"], ["queue", "list"]):
                page = self.on_terminal(*verb, columns=columns, env={"NO_COLOR": "1"})
                for line in page.splitlines():
                    self.assertLessEqual(len(line), columns, verb)
        self.assertIn("…", self.on_terminal("task", "list", columns=132))
        self.assertIn("x" * 300, self.ok("task", "list"))

    def test_what_counts_is_seen_at_80_columns(self):
        long = "a-queue-of-a-rather-long-name"
        self.enqueue("t", "--queue", long)
        self.assertIn("LATENCY", self.on_terminal("queue", "list").splitlines()[0])
        page = self.on_terminal("doctor", env={"NO_COLOR": "1"})
        self.assertIn(f"no live worker serves queue {long}\n", page)

    def test_long_names_of_queues_get_the_room_of_columns_that_are_all_zero(self):
        for n in range(3):
            self.enqueue("t", "--queue", f"a-rather-long-name-{n}")
        for verb in (["stats"], ["queue", "list"]):
            page = self.on_terminal(*verb, env={"NO_COLOR": "1"})
            self.assertIn("\na-rather-long-name-2  running", page)
            self.assertNotIn("GROUP", page)
        self.enqueue("t", "--queue", "a-rather-long-name-1", "--delay", "1h")
        self.assertRegex(self.on_terminal("stats"), r"PENDING  LATENCY .* SCHED")
        self.assertIn("COMPL  GROUP", self.ok("stats"))

    def test_a_huge_payload_makes_no_huge_table(self):
        self.enqueue("t", "ü" * 60_000)
        self.enqueue("t", "\u202e" * 30_000)
        for n in range(5):
            self.enqueue("t", "small", "--id", f"{n}-" + "i" * 250)
        page = self.ok("task", "list")
        self.assertLess(len(page), 16_000)
        self.assertEqual(page.count("…"), 2)
        self.assertIn("4-" + "i" * 250, page)

    def test_titles_are_bold_unless_no_color_is_set(self):
        self.fill()
        self.assertIn("\x1b[1mQUEUE", self.on_terminal("queue", "list"))
        self.assertNotIn("\x1b", self.on_terminal("queue", "list", env={"NO_COLOR": "1"}))
        self.assertNotIn("\x1b", self.on_terminal("queue", "list", env={"TERM": "dumb"}))
        self.assertNotIn("\x1b", self.ok("queue", "list"))

    def test_json_on_a_terminal_is_plain_ascii(self):
        self.enqueue("t", "\x9b31mü")
        page = self.on_terminal("--json", "task", "list")
        self.assertTrue(page.isascii())

    def test_json_payload_is_laid_out_for_people_only(self):
        payload = ('{"a": [1,{"b":"\u202ex\\\\\\"}"}],"e":{},"f":[ ],"n":1.10,'
                   '"big":12345678901234567890}')
        self.enqueue("t", payload, "--id", "a")
        page = self.on_terminal("task", "inspect", "a")
        self.assertIn(f"\n{' ' * 20}\"e\": {{}},\n{' ' * 20}\"f\": [],\n", page)
        self.assertNotIn("\u202e", page)
        self.assertIn('"b": "\\u202ex\\\\\\"}"', page)
        self.assertIn("1.10", page)
        self.assertIn(payload.replace("\u202e", "\\u202e"), self.ok("task", "inspect", "a"))
        self.assertEqual(self.quern("task", "inspect", "a", "--payload").stdout, payload)
        self.assertEqual(self.task("a")["payload"], payload)
        self.enqueue("t", "{no json", "--id", "b")
        self.assertIn("payload:          {no json\n", self.on_terminal("task", "inspect", "b"))

    def test_a_deep_payload_is_not_all_indent(self):
        self.enqueue("t", "[" * 1000 + "1" + "]" * 1000, "--id", "a")
        self.assertLess(len(self.on_terminal("task", "inspect", "a")), 10_000)

    def test_stats_fit_a_screen(self):
        self.enqueue("t", "--queue", "busy")
        self.enqueue("t", "--queue", "busy")
        page = self.on_terminal("stats", env={"NO_COLOR": "1"})
        self.assertLess(len(page.splitlines()), 24)
        self.assertNotIn("durability", page)
        self.assertIn("durability", self.on_terminal("stats", "-v"))
        self.assertIn("durability", self.ok("stats", "--verbose"))
        self.write("in.jsonl", "".join(json.dumps({"type": "t", "queue": f"q{n:02}"}) + "\n"
                                       for n in range(49)))
        self.ok("enqueue", "--from", self.path("in.jsonl"))
        page = self.on_terminal("stats", env={"NO_COLOR": "1"})
        lines = page.splitlines()
        self.assertEqual(len(lines), 23)
        self.assertTrue(lines[1].startswith("busy "), page)
        self.assertIn("... and 40 smaller queues: quern queue list", page)
        self.assertRegex(page, r"tasks: +51\n")
        for line in lines:
            self.assertLessEqual(len(line), 80)
        page = self.on_terminal("queue", "list")
        self.assertEqual(len(page.splitlines()), 52)
        self.assertIn("50 queues, 51 tasks", page)
        self.assertIn("q48", self.ok("stats"))

    def test_progress_bar_shows_on_a_terminal_only(self):
        name = self.write("in.jsonl", '{"type":"t"}\n' * 20000)
        page = self.on_terminal("enqueue", "--from", name)
        self.assertRegex(page, r"\[#*\.*\] +\d+%  \d+ tasks")
        self.assertTrue(page.endswith("20000 tasks stored\n"))
        result = self.quern("enqueue", "--from", name)
        self.assertEqual((result.stdout, result.stderr), ("20000 tasks stored\n", ""))


if __name__ == "__main__":
    lib_cli.main()
