#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Completions, asked from the shells: words, options, values, names of queues and ids of tasks."""

import os
import pty
import select
import shutil
import subprocess
import time
import unittest

import lib_cli
from lib_cli import PATIENCE_S, CliTest

BASH = r"""
source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; _quern
for word in "${COMPREPLY[@]}"; do printf '%s\n' "$word"; done
"""
# Ids that a shell must neither run nor split.
NAMES = ["a:b", "a:c", "$(touch EVIL)", "`touch EVIL`", "it's", 'x"y', "sp ace", "a;b", "*"]


def has(shell):
    return shutil.which(shell) is not None


class CompletionTest(CliTest):
    def setUp(self):
        super().setUp()
        self.scripts = {}
        self.env["PATH"] = f"{os.path.dirname(self.program)}:{os.environ['PATH']}"

    def ask(self, *command):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60,
                              env=self.env, cwd=self.path("")).stdout.splitlines()

    def script(self, shell):
        if shell not in self.scripts:
            self.scripts[shell] = self.write(f"quern.{shell}", self.ok("completion", shell))
        return self.scripts[shell]

    def bash(self, line):
        return self.ask("bash", "-c", BASH, "_", self.script("bash"), line)

    def fish(self, line):
        words = self.ask("fish", "-N", "-c",
                         f"source {self.script('fish')}; complete -C \"$argv[1]\"", line)
        return [word.split("\t")[0] for word in words]

    def zsh(self, line):
        """The line as it is after the tab key, from a shell on a terminal."""
        script = self.script("zsh")
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(self.env, TERM="dumb", PS1="", HOME=self.path(""))
            os.chdir(self.path(""))
            os.execvp("zsh", ["zsh", "-f", "-i"])
        try:
            os.write(terminal, f"autoload -U compinit; compinit -u -D; source {script}; "
                     "show() { print -r -- \"<<$BUFFER>>\" }; zle -N show; bindkey '^X' show; "
                     "print REA''DY\n".encode())
            self.read_until(terminal, b"READY")
            os.write(terminal, line.encode() + b"\t\x18")
            text = self.read_until(terminal, b">>").decode()
            return text.rpartition("<<")[2].partition(">>")[0].strip()
        finally:
            os.close(terminal)  # which ends it
            os.waitpid(pid, 0)

    def read_until(self, terminal, mark):
        text, end = b"", time.monotonic() + PATIENCE_S
        while mark not in text:
            self.assertTrue(select.select([terminal], [], [], end - time.monotonic())[0], text)
            text += os.read(terminal, 65536)
        return text

    def fill(self):
        self.enqueue("t", "--id", "p1", "--queue", "mail")
        self.enqueue("t", "--id", "p2", "--queue", "night work")
        self.enqueue("t", "--id", "later", "--delay", "1h", "--queue", "mail")
        self.ok("schedule", "add", "nightly", "--cron", "@daily", "--type", "t", "--queue", "mail")

    def test_values_are_printed_line_by_line(self):
        self.fill()
        self.assertEqual(self.ok("completion", "queues").split("\n"), ["mail", "night work"])
        self.assertEqual(sorted(self.ok("completion", "ids").split("\n")), ["later", "p1", "p2"])
        self.assertEqual(self.ok("completion", "active"), "")
        self.assertEqual(self.json("completion", "queues"), ["mail", "night work"])
        self.assertEqual(self.ok("completion", "entries"), "nightly")

    def check(self, offers):
        """offers(line) gives the list of what may come for its last word."""
        self.fill()
        self.assertEqual(offers("quern que"), ["queue"])
        self.assertEqual(offers("quern queue pau"), ["pause"])
        self.assertEqual(sorted(offers("quern task ")),
                         ["archive", "cancel", "delete", "edit", "explain", "export", "inspect",
                          "list", "move", "replay", "run", "save", "wait"])
        self.assertEqual(offers("quern task list --sta"), ["--state"])
        self.assertEqual(offers("quern task list --state re"), ["retry"])
        self.assertEqual(offers("quern task list --sort ch"), ["changed"])
        self.assertEqual(offers("quern task list --queue ma"), ["mail"])
        self.assertEqual(offers("quern enqueue --queue ma"), ["mail"])
        self.assertEqual(sorted(offers("quern task inspect p")), ["p1", "p2"])
        self.assertEqual(sorted(offers("quern task delete p1 ")), ["later", "p1", "p2"])
        self.assertEqual(offers("quern task cancel p"), [])
        self.assertEqual(offers("quern queue pause ma"), ["mail"])
        self.assertEqual(offers("quern limit set ma"), ["mail"])
        self.assertEqual(offers("quern limit list ma"), ["mail"])
        self.assertEqual(offers("quern schedule pause ni"), ["nightly"])
        self.assertEqual(offers("quern schedule next ni"), ["nightly"])
        self.assertEqual(offers("quern enqueue t --on-duplicate de"), ["debounce"])
        self.assertEqual(offers("quern schedule add e --misfire sk"), ["skip"])
        self.assertEqual(offers("quern work --log-format te"), ["text"])
        self.assertEqual(sorted(offers("quern completion ")), ["bash", "fish", "zsh"])
        self.assertEqual(offers("quern --broker nothing.db queue pause ma"), [])
        self.assertEqual(offers(f"quern --broker {self.broker} queue pause ma"), ["mail"])
        self.assertEqual(offers(f"quern --broker={self.broker} queue pause ma"), ["mail"])

    def test_bash(self):
        self.check(self.bash)
        self.assertEqual(self.bash("quern queue pause nig"), [r"night\ work"])
        self.assertEqual(self.bash(r"quern queue pause night\ w"), [r"night\ work"])

    @unittest.skipUnless(has("fish"), "no fish")
    def test_fish(self):
        self.check(self.fish)
        self.assertEqual(self.fish("quern queue pause nig"), ["night work"])

    def test_foreign_names_are_quoted_and_never_run(self):
        for name in NAMES + ["-z"]:  # that would be taken for an option: it is not offered
            self.enqueue("t", f"--id={name}")
        offered = self.bash("quern task inspect ")
        self.assertEqual(len(offered), len(NAMES))
        read_back = self.ask("bash", "-c", f"printf '%s\\n' {' '.join(offered)}")
        self.assertEqual(sorted(read_back), sorted(NAMES))
        # bash itself replaces only the part behind the colon.
        self.assertEqual(self.bash("quern task inspect a:"), ["b", "c"])
        if has("fish"):
            self.assertEqual(sorted(self.fish("quern task inspect ")), sorted(NAMES))
        self.assertFalse(os.path.exists(self.path("EVIL")))

    @unittest.skipUnless(has("zsh"), "no zsh")
    def test_zsh(self):
        self.fill()
        self.enqueue("t", "--id", "$(touch EVIL)")
        for line, whole in (("quern queue pau", "quern queue pause"),
                            ("quern task list --sta", "quern task list --state"),
                            ("quern task list --state re", "quern task list --state retry"),
                            ("quern task list --queue ma", "quern task list --queue mail"),
                            ("quern queue pause nig", r"quern queue pause night\ work"),
                            ("quern task inspect la", "quern task inspect later"),
                            (r"quern task inspect \$", r"quern task inspect \$\(touch\ EVIL\)")):
            self.assertEqual(self.zsh(line), whole)
        self.assertFalse(os.path.exists(self.path("EVIL")))


if __name__ == "__main__":
    lib_cli.main()
