#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands in README.md and docs/guide do what the pages say: each line of their sh blocks is
run, page by page, by a shell with a home of its own, and ends with 0 unless UNUSUAL says otherwise.

What the pages take for granted is there: the handlers and files that they name, and tasks called
ID, ID1, ID2 and ID3. `quern work` without --drain is told to stop as soon as it serves."""

import os
import pathlib
import shutil
import stat
import subprocess
import unittest

from lib_quern import PATIENCE_S, QuernTest

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs/guide").glob("*.md"))]
# What is not run here: the build and the installation (tests/package), and a server elsewhere.
ELSEWHERE = ("git clone", "make ", "sudo make", "cc ", "export QUERN_BROKER='redis:")
UNUSUAL = {"quern task run --all": 2,  # asks, and there is no terminal
           "quern task cancel ID": 1}  # it does not run
QUERN = """#!/usr/bin/env python3
import os, signal, subprocess, sys
words = [os.environ["PROGRAM"], *sys.argv[1:]]
if sys.argv[1:2] != ["work"] or "--drain" in words or "--help" in words:
    os.execv(words[0], words)
with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as worker:
    for line in worker.stderr:
        sys.stderr.write(line)
        if "worker serves" in line:
            worker.send_signal(signal.SIGTERM)
sys.exit(worker.returncode)
"""


def commands(page):
    """The lines of the sh blocks of a page, each with its number."""
    found = []
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("```"):
            inside = not inside and line.strip() == "```sh"
        elif inside and line.strip() and not line.strip().startswith(ELSEWHERE):
            found.append((number, line.strip().replace("/backup/", "backup/")))
    return found


def expected(line):
    return next((code for words, code in UNUSUAL.items() if line.startswith(words)), 0)


class CommandsTest(QuernTest):
    def executable(self, name, text):
        path = self.write(name, text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def prepare(self):
        for name in ("bin", "backup"):
            os.mkdir(self.path(name))
        self.executable("bin/quern", QUERN)
        if not shutil.which("jq"):
            self.executable("bin/jq", "#!/bin/sh\ncat\n")
        for name in ("send-mail", "send", "resize"):
            self.executable(name, "#!/bin/sh\ncat >/dev/null\n")
        self.write("picture.json", "{}\n")
        self.write("tasks.jsonl", '{"type": "a"}\n{"type": "b", "payload": [1]}\n')
        self.env["PROGRAM"] = self.program
        self.env["PATH"] = self.path("bin") + ":" + self.env["PATH"]

    def test_the_commands_of_the_pages_work(self):
        self.prepare()
        ran = 0
        for page in PAGES:
            name = page.relative_to(SOURCE)
            shutil.rmtree(self.path(".local"), ignore_errors=True)
            for task in ("ID", "ID1", "ID2", "ID3"):
                queue = "mail" if task == "ID3" else "media"
                self.run_quern("enqueue", "t", "--id", task, "--queue", queue)
            lines = commands(page)
            script = "".join(f"{line}\necho {number} $? >&3\n" for number, line in lines)
            with open(self.path("codes"), "w", encoding="utf-8") as codes:
                result = subprocess.run(
                    ["bash", "-c", f"exec 3>&{codes.fileno()}\n{script}"], env=self.env,
                    cwd=self.home, pass_fds=[codes.fileno()], stdin=subprocess.DEVNULL,
                    capture_output=True, timeout=PATIENCE_S, check=False)
            codes = dict(map(int, pair.split()) for pair in self.read("codes").splitlines())
            for number, line in lines:
                self.assertEqual(codes.get(number), expected(line),
                                 f"{name}:{number}: {line}\n{result.stderr.decode()}")
            ran += len(lines)
        self.assertGreater(ran, 30)


if __name__ == "__main__":
    unittest.main()
