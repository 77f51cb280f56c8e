#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The moments and refusals in tests/data/cron are those of the committed generator with the pinned
robfig/cron: it is run once more and writes the same. unit.task_cron_vectors holds quern to them."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

DATA = pathlib.Path(__file__).parent.parent / "data"
PROGRAM = os.environ["INTEROP_CRON"]


class Cron(unittest.TestCase):
    def test_vectors_are_those_of_the_go_library(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, DATA / "zoneinfo", DATA / "cron", folder], check=True,
                           timeout=100)
            for name in ("next.txt", "refused.txt"):
                written = (pathlib.Path(folder) / name).read_bytes()
                self.assertTrue(written == (DATA / "cron" / name).read_bytes(), name)


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        print("skipped: no Go")
        sys.exit(77)
    unittest.main()
