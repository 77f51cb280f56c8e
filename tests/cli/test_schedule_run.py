#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern schedule run: a scheduler as a service, its files, its signals, its exit codes."""

import json
import os
import signal

import lib_cli
from lib_cli import CliTest, EXIT_BROKER, EXIT_CONFIG, EXIT_DATA, EXIT_USAGE, only

SECONDS = "[e]\ncron = * * * * * *\ntype = t\nmisfire = all 100\n"
NEVER = "[{}]\ncron = 0 0 30 2 *\ntype = t\n"


class ScheduleRunTest(CliTest):
    def scheduler(self, *args):
        process = self.start("schedule", "run", *args)
        self.logged(process, "scheduler is ready")
        return process

    def logged(self, process, text, count=1):
        self.until(lambda: self.read(process.log_name).count(text) >= count, text)

    def tasks(self):
        return json.loads(self.ok("--json", "task", "list", "--limit", "1000"))

    def ids(self):
        return [task["id"] for task in self.tasks()]

    def test_seconds_of_a_file_are_enqueued_and_signals_end_it(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            with self.subTest(number):
                process = self.scheduler("--file", self.write("s.conf", SECONDS), "--verbose")
                self.logged(process, "tick was sent", 2)
                self.assertEqual(self.stop(process, number), 0)
        ids = self.ids()
        self.assertEqual(len(ids), len(set(ids)))
        self.assertTrue(all(name.startswith("e@") for name in ids))

    @only("sqlite")
    def test_database_that_is_created_is_reported_once(self):
        for count in (1, 0):
            process = self.scheduler()
            self.assertEqual(self.read(process.log_name).count("created the database"), count)
            self.assertEqual(self.stop(process), 0)

    def test_tick_is_a_line_of_json(self):
        process = self.start("--json", "schedule", "run", "--file",
                             self.write("s.conf", SECONDS))
        line = json.loads(process.stdout.readline())
        self.assertEqual((line["entry"], line["queue"], line["outcome"], line["missed"]),
                         ("e", "default", "enqueued", False))
        self.assertEqual(self.stop(process), 0)
        self.assertIn(line["id"], self.ids())

    def test_file_is_read_when_it_changes_and_on_hup(self):
        path = self.write("s.conf", NEVER.format("a"))
        process = self.scheduler("--file", path)
        os.rename(self.write("new", NEVER.format("b")), path)
        self.logged(process, "entry was removed")
        log = self.read(process.log_name)
        self.assertIn("entry was added entry=b", log)
        self.assertIn("entry was removed entry=a", log)
        process.send_signal(signal.SIGHUP)
        self.logged(process, "files and time zones are read again")
        self.assertEqual(self.stop(process), 0)

    def test_fault_keeps_what_is_stored(self):
        path = self.write("s.conf", NEVER.format("a") + NEVER.format("b"))
        self.stop(self.scheduler("--file", path))
        self.write("s.conf", "[a]\ncron = wrong\ntype = t\n" + NEVER.format("c") + SECONDS)
        process = self.scheduler("--file", path, "--verbose")
        self.logged(process, "tick was sent")  # of another section
        self.stop(process)
        log = self.read(process.log_name)
        self.assertRegex(log, "section of a file with entries is skipped .*line=[12] entry=a ")
        self.assertIn("entry was added entry=c", log)
        self.assertIn("entry was removed entry=b", log)
        self.assertNotIn("entry was removed entry=a", log)

    def test_empty_file_removes_its_entries_only_if_that_is_allowed(self):
        path = self.write("s.conf", NEVER.format("a"))
        self.stop(self.scheduler("--file", path))
        self.write("s.conf", "")
        process = self.scheduler("--file", path)
        self.stop(process)
        self.assertIn("empty set of entries was ignored", self.read(process.log_name))
        process = self.scheduler("--file", path, "--allow-empty")
        self.stop(process)
        self.assertIn("entry was removed entry=a", self.read(process.log_name))

    def test_file_that_is_missing_is_logged_and_found_later(self):
        process = self.scheduler("--file", self.path("later.conf"))
        self.assertIn("file with entries cannot be used", self.read(process.log_name))
        os.rename(self.write("new", NEVER.format("a")), self.path("later.conf"))
        self.logged(process, "entry was added")
        self.stop(process)

    def test_second_one_waits_and_takes_over(self):
        path = self.write("s.conf", SECONDS)
        first = self.scheduler("--file", path)
        self.logged(first, "scheduler leads")
        second = self.scheduler("--file", path)
        self.assertIn("another scheduler leads", self.read(second.log_name))
        first.kill()
        self.logged(second, "scheduler leads scheduler=")
        self.stop(second)

    def test_entries_of_two_files_stay_apart(self):
        one = self.write("one.conf", NEVER.format("a"))
        two = self.write("two.conf", NEVER.format("a") + NEVER.format("b"))
        process = self.scheduler("--file", one, "--file", two)
        self.stop(process)
        log = self.read(process.log_name)
        self.assertIn("entry belongs to another origin, and stays entry=a", log)
        self.assertIn("entry was added entry=b", log)

    def test_what_is_wrong_is_an_exit_code(self):
        self.assertIn("Nowhere", self.fails(EXIT_DATA, "schedule", "run", "--zone", "Nowhere/X"))
        self.fails(EXIT_USAGE, "schedule", "run", "--quiet", "--verbose")
        self.fails(EXIT_USAGE, "schedule", "run", "--log-format", "xml")
        self.fails(EXIT_CONFIG, "--broker", "gopher://x", "schedule", "run")
        self.fails(EXIT_BROKER, "--broker", "redis://127.0.0.1:1", "schedule", "run", "--no-retry")

    def test_log_has_three_formats(self):
        process = self.start("schedule", "run", "--log-format", "json")
        self.logged(process, "scheduler is ready")
        self.stop(process)
        for line in self.read(process.log_name).splitlines():
            self.assertIn("msg", json.loads(line))


if __name__ == "__main__":
    lib_cli.main()
