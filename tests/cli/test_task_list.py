#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern task list: filters, pages, order and totals; and the bytes of one task."""

import lib_cli
from lib_cli import CliTest, EXIT_FAILURE, EXIT_USAGE


class ListTest(CliTest):
    def ids(self, *args):
        return [task["id"] for task in self.json("task", "list", *args)]

    def test_list_filters_and_pages(self):
        for n in range(5):
            self.enqueue("image:resize", f"file {n}", "--id", f"i{n}", "--queue", "a")
        self.enqueue("mail", "file 3 too", "--id", "m", "--queue", "b", "--in", "1h")
        self.enqueue("mail", "x", "--id", "g", "--group", "digest")
        self.assertEqual(len(self.ids()), 7)
        self.assertEqual(self.ids("--queue", "b"), ["m"])
        self.assertEqual(self.ids("--state", "scheduled"), ["m"])
        self.assertEqual(sorted(self.ids("--type", "image:*")), [f"i{n}" for n in range(5)])
        self.assertEqual(self.ids("--type", "image:"), [])
        self.assertEqual(sorted(self.ids("--text", "file 3")), ["i3", "m"])
        self.assertEqual(sorted(self.ids("--search", "file 3")), ["i3", "m"])
        self.assertEqual(self.ids("--group", "digest"), ["g"])
        self.assertEqual(self.ids("--queue", "a", "--size", "2", "--page", "2"), ["i2", "i3"])
        page = self.quern("task", "list", "--queue", "a", "--size", "2")
        self.assertEqual(len(page.stdout.splitlines()), 3)
        self.assertIn("--page 2", page.stderr)

    def test_list_of_several_states_is_sorted_and_limited(self):
        self.enqueue("b", "--id", "p1")
        self.enqueue("a", "--id", "s2", "--in", "2h")
        self.enqueue("c", "--id", "s1", "--in", "1h")
        self.enqueue("d", "--id", "gone")
        self.ok("task", "archive", "gone")
        both = ("--state", "scheduled", "--state", "pending")
        self.assertEqual(sorted(self.ids(*both)), ["p1", "s1", "s2"])
        self.assertEqual(self.ids(*both, "--sort", "type"), ["s2", "p1", "s1"])
        self.assertEqual(self.ids(*both, "--sort", "at"), ["p1", "s1", "s2"])
        self.assertEqual(self.ids(*both, "--sort", "type", "--limit", "2", "--page", "2"), ["s1"])
        self.assertEqual(self.ids("--sort", "changed", "--limit", "1"), ["gone"])
        self.assertEqual(len(self.ids("--since", "1h")), 4)
        self.assertEqual(self.ids("--since", "2126-01-01T00:00:00Z"), [])
        for args, text in ((("--sort", "colour"), "--sort"), (("--since", "lately"), "--since"),
                           (("--size", "1", "--limit", "2"), "--limit")):
            self.assertIn(text, self.fails(EXIT_USAGE, "task", "list", *args))

    def test_list_reports_how_many_there_are(self):
        for _ in range(5):
            self.enqueue("t")
        for args in (), ("--sort", "type"):
            with self.subTest(args=args):
                page = self.quern("task", "list", "--limit", "2", *args)
                self.assertIn("tasks 1 to 2 of 5; more: --page 2", page.stderr)
                page = self.quern("task", "list", "--limit", "2", "--page", "9", *args)
                self.assertIn("page 9 is behind the last page of 5 tasks\n", page.stderr)
                page = self.quern("task", "list", "--limit", "2", "--page", "3", *args)
                self.assertIn("tasks 5 to 5 of 5", page.stderr)
                self.assertIn(": 5 tasks\n", self.quern("task", "list", *args).stderr)
        self.assertEqual(self.quern("task", "list", "--json").stderr, "")

    def test_list_shows_how_far_off_it_is(self):
        self.enqueue("t", "--in", "1h30m30s")
        self.assertRegex(self.ok("task", "list"), r"in 1h(30|29)m$")
        self.assertRegex(self.ok("task", "list", "--utc"), r"\d{4}-\d\d-\d\dT[0-9:]+Z$")

    def test_inspect_prints_payload_and_result_as_they_are(self):
        self.enqueue("t", "-", "--id", "a", "--retention", "1h", stdin="line\n\x1b[1m")
        self.assertEqual(self.quern("task", "inspect", "a", "--payload").stdout, "line\n\x1b[1m")
        self.assertIn("no result", self.fails(EXIT_FAILURE, "task", "inspect", "a", "--result"))
        self.drain("t=printf 'x\\n\\n'")
        self.assertEqual(self.quern("task", "inspect", "a", "--result").stdout, "x\n\n")
        self.fails(EXIT_USAGE, "task", "inspect", "a", "--payload", "--result")
        self.fails(EXIT_USAGE, "task", "inspect", "a", "--payload", "--json")

    def test_list_text_finds_errors(self):
        self.enqueue("t", "--id", "a", "--retry", "never")
        self.drain("t=echo no route to host >&2; exit 1")
        self.assertEqual(self.ids("--text", "no route"), ["a"])
        self.assertIn("no route to host", self.ok("task", "list", "--state", "archived"))


if __name__ == "__main__":
    lib_cli.main()
