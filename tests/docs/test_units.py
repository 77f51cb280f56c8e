#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The units in contrib/systemd: systemd understands each line, and what they leave open is little.
The programs that they name need not be installed."""

import os
import shutil
import subprocess
import unittest

from lib_quern import QuernTest, main

UNITS = os.path.join(os.environ["QUERN_SOURCE"], "contrib", "systemd")
EXPOSURE_MAX = "15"  # of 100, as --threshold has it: 1.5 of 10
WORKER, SCHEDULER = "quern-work@mail.service", "quern-schedule.service"


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
class UnitTest(QuernTest):
    def setUp(self):
        super().setUp()
        for name, unit in ("quern-work@.service", WORKER), (SCHEDULER, SCHEDULER):
            with open(os.path.join(UNITS, name), encoding="utf-8") as file:
                self.write(unit, file.read().replace("/usr/bin/quern", self.program))

    def analyze(self, *args):
        result = subprocess.run(["systemd-analyze", "--no-pager", *args], capture_output=True,
                                encoding="utf-8", check=False, env=self.env)
        return result.returncode, result.stdout + result.stderr

    def verify(self, unit, may_say=()):
        code, text = self.analyze("--man=no", "verify", self.path(unit))
        lines = [line for line in text.splitlines() if not any(word in line for word in may_say)]
        self.assertEqual((code, lines), (0, []), text)

    def exposure(self, unit, limit=EXPOSURE_MAX):
        return self.analyze("security", "--offline=true", "--threshold=" + limit, self.path(unit))

    def test_systemd_understands_them(self):
        self.verify(WORKER)
        self.verify(SCHEDULER)

    def test_a_wrong_line_would_be_found(self):
        self.write(SCHEDULER, self.read(SCHEDULER).replace("ProtectClock=", "ProtectClocks="))
        self.assertIn("ProtectClocks", self.analyze("--man=no", "verify", self.path(SCHEDULER))[1])

    def test_they_leave_little_open(self):
        for unit in WORKER, SCHEDULER:
            code, text = self.exposure(unit)
            self.assertEqual(code, 0, text)
        self.assertNotEqual(self.exposure(WORKER, "5")[0], 0, "the limit is one")

    def test_drop_ins(self):
        for name, may_say in ("jit.conf", ()), ("cgroup.conf", ("DelegateSubgroup",)):  # >= 254
            os.makedirs(self.path(WORKER + ".d"), exist_ok=True)
            shutil.copy(os.path.join(UNITS, name), self.path(WORKER + ".d"))
            self.verify(WORKER, may_say)
            code, text = self.exposure(WORKER, "20")
            self.assertEqual(code, 0, text)
            shutil.rmtree(self.path(WORKER + ".d"))

    def test_the_jit_drop_in_opens_what_it_says(self):
        os.makedirs(self.path(WORKER + ".d"))
        before = self.exposure(WORKER)[1]
        shutil.copy(os.path.join(UNITS, "jit.conf"), self.path(WORKER + ".d"))
        self.assertIn("cannot create writable executable memory", before)
        self.assertIn("may create writable executable memory", self.exposure(WORKER)[1])

    def test_the_program_takes_their_command_lines(self):
        self.env["RUNTIME_DIRECTORY"] = self.path("run")
        os.mkdir(self.path("run"))
        line = next(line for line in self.read(WORKER).splitlines()
                    if line.startswith("ExecStart="))
        words = line.partition("=")[2].replace("%i", "mail").split()
        self.assertEqual(words[0], self.program)
        result = self.run_quern(*words[1:-1], "--exec", "mail:=true", "--drain", "--broker",
                                self.path("q.db"), encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    main()
