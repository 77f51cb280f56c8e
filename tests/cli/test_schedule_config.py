#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SIGHUP and a configuration file: a scheduler reads it again, changes its log, and names what
waits for a start."""

import os
import signal

import lib_cli
from lib_cli import CliTest, EXIT_CONFIG

AGAIN = "configuration read again"
FILE = "[each]\ncron = * * * * * *\ntype = t\n"


class ScheduleConfigTest(CliTest):
    def configure(self, text):
        self.write("new.conf", f"[schedule run]\nlog-format = logfmt\nfile = s.conf\n{text}")
        os.rename(self.path("new.conf"), self.path("quern.conf"))

    def hup(self, process, text):
        before = self.story().count(text)
        process.send_signal(signal.SIGHUP)
        self.until(lambda: self.story().count(text) > before, text)

    def test_log_changes_and_other_values_wait(self):
        self.write("s.conf", FILE)
        self.configure("")
        scheduler = self.start("--config", "quern.conf", "schedule", "run")
        self.until(lambda: self.quern("task", "list").stdout.count(" t ") > 0, "a tick")
        self.assertNotIn("tick was sent", self.story())
        self.configure("verbose = true\n")
        self.hup(scheduler, f'{AGAIN}" file=quern.conf options=log')
        self.until(lambda: "tick was sent" in self.story(), "ticks are logged")
        self.configure("verbose = true\nzone = UTC\nallow-empty = yes\n")
        self.hup(scheduler, 'a stop and a start" file=quern.conf options="zone allow-empty"')
        self.configure("log_format = json\n")
        self.hup(scheduler, 'stay" error="quern.conf:4: --log-format is given twice"')
        self.configure("quiet = true\nverbose = true\n")
        self.hup(scheduler, "--quiet and --verbose exclude each other")
        self.assertEqual(self.stop(scheduler), 0)

    def test_many_signals_and_the_end(self):
        self.write("s.conf", FILE)
        self.configure("")
        scheduler = self.start("--config", "quern.conf", "schedule", "run")
        self.until(lambda: "scheduler is ready" in self.story(), "it leads")
        for _ in range(20):
            self.hup(scheduler, AGAIN)
        scheduler.send_signal(signal.SIGHUP)
        self.assertEqual(self.stop(scheduler), 0)

    def test_wrong_value_ends_the_start(self):
        self.configure("verbose = maybe\n")
        self.assertIn("quern.conf:4: --verbose: 'maybe' is not", self.fails(
            EXIT_CONFIG, "--config", "quern.conf", "schedule", "run"))
        self.assertIn("quern.conf:4: ", self.fails(EXIT_CONFIG, "config", "check", "quern.conf"))


if __name__ == "__main__":
    lib_cli.main()
