#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a terminal gets and a pipe does not: narrow tables, bold titles, the progress bar."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

import lib_cli
from lib_cli import CliTest, PATIENCE_S


class TerminalTest(CliTest):
    def on_terminal(self, *args, columns=80, env=None):
        """Runs the program with a terminal as stdout and stderr; gives what it wrote."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([self.program, *args], stdin=subprocess.DEVNULL, stdout=theirs,
                                   stderr=theirs, env={**self.env, "TERM": "xterm", **(env or {})})
        os.close(theirs)
        text = b""
        try:
            while block := os.read(ours, 65536):
                text += block
        except OSError:
            pass  # the other end is closed: it has ended
        finally:
            os.close(ours)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 0, text)
        return text.decode().replace("\r\n", "\n")

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

    def test_progress_bar_shows_on_a_terminal_only(self):
        name = self.write("in.jsonl", '{"type":"t"}\n' * 20000)
        page = self.on_terminal("enqueue", "--from", name)
        self.assertRegex(page, r"\[#*\.*\] +\d+%  \d+ tasks")
        self.assertTrue(page.endswith("20000 tasks stored\n"))
        result = self.quern("enqueue", "--from", name)
        self.assertEqual((result.stdout, result.stderr), ("20000 tasks stored\n", ""))


if __name__ == "__main__":
    lib_cli.main()
