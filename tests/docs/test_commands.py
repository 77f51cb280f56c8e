#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands in README.md, docs/guide and the examples of the manual page work: each line of
their sh blocks is run, page by page, by a shell with a home of its own, and ends with 0 unless
UNUSUAL says otherwise.

What the pages take for granted is there: the handlers and files that they name, and the tasks ID,
ID1, ID2 and ID3. `quern work` without --drain and `quern schedule run` are told to stop as soon as
they are ready."""

import os
import pathlib
import re
import shutil
import stat
import subprocess

from lib_quern import PATIENCE_S, QuernTest, main

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs/guide").glob("*.md")),
         SOURCE / "man/quern.1"]
# What is not run here: the build and the installation (tests/package), and a server elsewhere.
ELSEWHERE = ("git clone", "make ", "sudo make", "cc ", "export QUERN_BROKER='redis:")
UNUSUAL = {"quern task run --all": 2,  # asks, and there is no terminal
           "quern task cancel ID": 1}  # it does not run
# Only what runs on needs more than the program.
QUERN = """#!/bin/sh
case " $* " in
    *" --drain "* | *" --help "*) exec "$PROGRAM" "$@" ;;
    *" work "* | " schedule run "*) exec python3 "$0.py" "$@" ;;
esac
exec "$PROGRAM" "$@"
"""
STOPPED = """
import os, signal, subprocess, sys
with subprocess.Popen([os.environ["PROGRAM"], *sys.argv[1:]], stderr=subprocess.PIPE,
                      text=True) as process:
    for line in process.stderr:
        sys.stderr.write(line)
        if "worker serves" in line or "scheduler is ready" in line:
            process.send_signal(signal.SIGTERM)
sys.exit(process.returncode)
"""


def commands(page):
    """The lines of the sh blocks of a page, each with its number; in the manual those with a $."""
    found = []
    inside = False
    begun = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        line = begun + line.strip()
        begun = ""
        if inside and line.endswith("\\"):
            begun = line[:-1]
            continue
        if line.startswith("```"):
            inside = not inside and line == "```sh"
        elif line.startswith("$ "):
            found.append((number, line[2:]))
        elif inside and line and not line.startswith(ELSEWHERE):
            found.append((number, line.replace("/backup/", "backup/")))
    if not shutil.which("jq"):
        found = [(number, line) for number, line in found if "jq " not in line]
    return found


def expected(line):
    if "--yes" in line.split("  #")[0]:
        return 0
    return next((code for words, code in UNUSUAL.items() if line.startswith(words)), 0)


class CommandsTest(QuernTest):
    def executable(self, name, text):
        path = self.write(name, text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def prepare(self):
        for name in ("bin", "backup"):
            os.mkdir(self.path(name))
        self.executable("bin/quern", QUERN)
        self.write("bin/quern.py", STOPPED)
        for name in ("send-mail", "send", "resize", "welcome", "order", "digest"):
            self.executable(name, "#!/bin/sh\ncat >/dev/null\n")
        for name in ("picture.json", "a.jpg", "b.jpg"):
            self.write(name, "{}\n")
        self.write("tasks.jsonl", '{"type": "a"}\n{"type": "b", "payload": [1]}\n')
        self.env["PROGRAM"] = self.program
        self.env["PATH"] = self.path("bin") + ":" + self.env["PATH"]

    def test_each_key_of_schedule_conf_is_described(self):
        table = (SOURCE / "src/schedule/conf_section.c").read_text(encoding="utf-8")
        keys = re.findall(r'^    \{"(\w+)", KIND_(?!REFUSED)', table, re.M)
        self.assertGreater(len(keys), 20)
        guide = (SOURCE / "docs/guide/schedule.md").read_text(encoding="utf-8")
        manual = (SOURCE / "man/quern.1").read_text(encoding="utf-8")
        manual = manual[manual.index("schedule.conf"):]
        for key in keys:
            self.assertIn(f"| `{key}` |", guide)
            self.assertRegex(manual, rf"\b{key}\b")

    def test_the_examples_of_schedule_conf_have_no_fault(self):
        for page in (SOURCE / "docs/guide/schedule.md", SOURCE / "man/quern.1"):
            text = re.sub(r"(?m)^    ", "", page.read_text(encoding="utf-8"))
            conf = re.search(r"(?m)^\[nightly\]\n(?:\w+ = .*\n| +\S.*\n)+", text).group()
            result = self.run_quern("schedule", "check", self.write("conf", conf))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(b"1 entry", result.stderr)
            self.assertEqual(result.stdout.count(b":30:00Z"), 3, conf)

    def test_the_examples_of_quern_conf_have_no_fault(self):
        for page in (SOURCE / "docs/guide/configuration.md", SOURCE / "man/quern.1"):
            text = page.read_text(encoding="utf-8")
            conf = re.search(r"(?m)^context = prod\n(?:\[.*\n|[a-z-]+ = .*\n|\n)+", text).group()
            self.assertIn("[work]", conf)
            path = self.write("quern.conf", conf)
            os.chmod(path, 0o600)
            result = self.run_quern("config", "check", path)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_commands_of_the_pages_work(self):
        self.prepare()
        ran = 0
        for page in PAGES:
            name = page.relative_to(SOURCE)
            shutil.rmtree(self.path(".local"), ignore_errors=True)
            lines = commands(page)
            text = "\n".join(line for _, line in lines)
            for task in sorted(set(re.findall(r"\bID\d?", text))):
                queue = "mail" if task == "ID3" else "media"
                self.run_quern("enqueue", "t", "--id", task, "--queue", queue)
            script = "".join(f"{line}\necho {number} $? >&3\n" for number, line in lines)
            with open(self.path("codes"), "w", encoding="utf-8") as codes:
                result = subprocess.run(
                    ["bash", "-c", f"exec 3>&{codes.fileno()}\n{script}"], env=self.env,
                    cwd=self.home, pass_fds=[codes.fileno()], stdin=subprocess.DEVNULL,
                    capture_output=True, timeout=3 * PATIENCE_S, check=False)
            codes = dict(map(int, pair.split()) for pair in self.read("codes").splitlines())
            for number, line in lines:
                self.assertEqual(codes.get(number), expected(line),
                                 f"{name}:{number}: {line}\n{result.stderr.decode()}")
            ran += len(lines)
        self.assertGreater(ran, 30)


if __name__ == "__main__":
    main()
