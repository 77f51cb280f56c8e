#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern error: failed tasks by the kind of their error, and what is done to a kind."""

import lib_cli
from lib_cli import CliTest, EXIT_FAILURE, EXIT_USAGE


class ErrorTest(CliTest):
    def setUp(self):
        super().setUp()
        for number in range(4):
            self.enqueue("t", "--id", f"a{number}", "--retry", "never")
        for number in range(2):
            self.enqueue("u", "--id", f"b{number}", "--retry", "never")
        worker = self.start("work", "--exec", 't=echo "no user $QUERN_TASK_ID of 17" >&2; exit 1',
                            "--exec", "u=echo disk is full >&2; exit 1")
        self.until(lambda: self.counts().get("archived") == 6, "all have failed")
        self.stop(worker)

    def groups(self, *args):
        return self.json("error", "list", *args)["groups"]

    def test_list_has_the_most_frequent_kind_first(self):
        groups = self.groups()
        self.assertEqual([group["archived"] for group in groups], [4, 2])
        self.assertIn("no user a# of #", groups[0]["error"])
        self.assertEqual((groups[0]["type"], groups[1]["type"]), ("t", "u"))
        self.assertGreaterEqual(groups[0]["last_at_ms"], groups[0]["first_at_ms"])
        text = self.ok("error", "list", "--limit", "1")
        self.assertIn("no user a#", text)
        self.assertNotIn("disk", text)
        self.assertEqual(len(self.groups("--match", "type = u")), 1)
        self.assertEqual(self.groups("--queue", "default")[1]["id"][0], "b")

    def test_run_of_a_kind(self):
        fingerprint = self.groups()[0]["fingerprint"]
        self.assertEqual(self.ok("error", "run", fingerprint[:10], "--dry-run"),
                         "4 tasks would be made pending")
        self.assertEqual(self.counts()["archived"], 6)
        self.assertEqual(self.ok("error", "run", fingerprint[:10], "--yes"), "4 tasks made pending")
        self.assertEqual((self.counts()["pending"], self.counts()["archived"]), (4, 2))
        self.assertIn("no failed task", self.fails(EXIT_FAILURE, "error", "run", fingerprint,
                                                   "--yes"))

    def test_archive_takes_those_that_wait_for_a_retry(self):
        self.enqueue("u", "--id", "r")
        worker = self.start("work", "--exec", "u=echo disk is full >&2; exit 1")
        self.wait_state("r", "retry")
        self.stop(worker)
        group = [group for group in self.groups() if group["type"] == "u"][0]
        self.assertEqual((group["retry"], group["archived"]), (1, 2))
        document = self.json("error", "archive", group["fingerprint"], "--yes")
        self.assertEqual(document, {"done": "archived", "count": 1, "changed": 0})
        self.assertEqual(self.state("r"), "archived")

    def test_what_is_refused(self):
        self.fails(EXIT_USAGE, "error", "run", "abc")
        self.fails(EXIT_USAGE, "error", "run", "abcdef123456", "--match", "typ = a")
        self.fails(EXIT_FAILURE, "error", "archive", "abcdef123456", "--yes")
        self.fails(EXIT_USAGE, "error", "run", self.groups()[0]["fingerprint"])  # asks


if __name__ == "__main__":
    lib_cli.main()
