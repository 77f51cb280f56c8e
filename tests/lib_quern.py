# SPDX-License-Identifier: MIT
"""The fixture of all tests in Python that run quern: each test has a home of its own, which is
removed at its end, and processes that it started and left are killed. Waiting is for conditions,
with a deadline; nothing sleeps and hopes. QUERN names the program."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from lib_changes import LOOK_S, Changes
from lib_redis import PATIENCE_S, die_with_parent

FULL = os.environ.get("QUERN_TEST_FULL") == "1"  # the larger counts
PAUSE_S_MAX = 0.3

ONLY = os.environ.get("QUERN_TEST_ONLY", "")  # the name of one test: no other is run


class Result(unittest.TextTestResult):
    """Prints a line for each skipped test, which scripts/check repeats at its end. Of the only test
    also those of a program in C, for scripts/check_seeded_bugs."""

    def tell(self, word, test):
        if ONLY:
            print(f"[{word:^10}] {test.id().rpartition('.')[2]}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell("      OK", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell("FAILED", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"\nskipped: {test.id().partition('.')[2]}: {reason}", flush=True)


def is_alive(pid):
    """Whether the process is there, and is no zombie that waits for its parent."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main():
    runner = unittest.TextTestRunner(resultclass=Result)
    argv = [*sys.argv, *(("-k", ONLY) if ONLY else ())]
    unittest.main(module="__main__", testRunner=runner, argv=argv)


class QuernTest(unittest.TestCase):
    def setUp(self):
        self.program = os.environ["QUERN"]
        self.home = tempfile.mkdtemp(prefix="quern-test-")
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("QUERN", "XDG_")) or name == "QUERN_SEEDED_BUG"}
        self.env["HOME"] = self.home
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        shutil.rmtree(self.home, ignore_errors=True)

    def spawn(self, *command, **options):
        """Starts a program in the home of the test and leaves it running."""
        process = subprocess.Popen(command, env=self.env, cwd=self.home,
                                   preexec_fn=die_with_parent, **options)
        self.processes.append(process)
        return process

    def run_quern(self, *args, env=None, **options):
        """Runs the program to its end."""
        return subprocess.run([self.program, *args], capture_output=True, cwd=self.home,
                              env={**self.env, **(env or {})}, timeout=PATIENCE_S, check=False,
                              **options)

    def until(self, condition, what, patience_s=PATIENCE_S):
        """Waits until the condition holds, and gives its value. It is looked at again when a file
        in the home of the test has changed, when a process has ended, and after a moment. A look
        that runs a program is followed by a pause of twice its time: else each test that waits
        would keep a processor busy, as what the program does to its files is an event, too."""
        ends = time.monotonic() + patience_s
        changes = Changes(self.home)
        try:
            while True:
                changes.forget()
                began = time.monotonic()
                value = condition()
                now = time.monotonic()
                if value:
                    return value
                if now > ends:
                    return self.fail(f"not within {patience_s} s: {what}\n{self.story()}")
                if now - began > LOOK_S:
                    time.sleep(min(2 * (now - began), PAUSE_S_MAX))
                changes.wait(process for process in self.processes if process.poll() is None)
        finally:
            changes.close()

    def story(self):
        """The evidence of a failed test."""
        return ""

    def path(self, name):
        return os.path.join(self.home, name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)
