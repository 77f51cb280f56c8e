#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Brokers that are wrong or not there, and pipes that close."""

import os
import sqlite3
import subprocess

import lib_cli
from lib_cli import (CliTest, PATIENCE_S, EXIT_BROKER, EXIT_CONFIG, EXIT_DATA, EXIT_TEMPORARY,
                     only)

LOOKS = (["stats"], ["queue", "list"], ["task", "list"], ["worker", "list"], ["doctor"],
         ["queue", "pause", "q"], ["task", "run", "x"], ["db", "info"])
ALL = LOOKS + (["enqueue", "t"], ["work", "--drain", "--exec", "t=true"])


class BrokerTest(CliTest):
    def test_unknown_scheme_is_bad_configuration(self):
        for args in ALL:
            with self.subTest(args=args):
                self.assertIn("gopher", self.fails(EXIT_CONFIG, "--broker", "gopher://x", *args))

    @only("sqlite")
    def test_url_and_path_name_the_same_file(self):
        task_id = self.ok("--broker", f"sqlite://{self.broker}", "enqueue", "t")
        self.assertEqual(self.state(task_id), "pending")

    def test_urls_that_mean_something_else_are_refused_with_the_right_way(self):
        for url, way in (("localhost:6379", "redis://localhost:6379"),
                         ("me:s3cret@10.0.0.7:6379/0", "redis://me:***@10.0.0.7:6379/0"),
                         ("localhost", "redis://localhost,"), ("10.0.0.7", "redis://10.0.0.7,"),
                         ("db.lan:6379/0?db=1", "redis://db.lan:6379/0?db=1,"),
                         (":memory:", "name a file"),
                         ("memory:", "name a file"), ("memory:jobs", "name a file"),
                         ("memory:/x", "name a file"), ("sqlite:///:memory:", "name a file"),
                         ("file:q.db", "sqlite:///path"), ("file:///q.db", "sqlite:///path"),
                         ("rediss:localhost", "lacks //"),
                         ("rediss+sentinel://h/0", "rediss-sentinel://"),
                         ("sentinel://h:26379;sentinel://i:26379", "redis-sentinel://"),
                         ("unix:///r.sock?db=x", "the database is a number"),
                         ("valkeys://h?ssl_cert_reqs=none", "always checked"),
                         ("redis://h?ssl_ca_certs=/ca.pem", "rediss://"),
                         ("redis:localhost", "lacks //"),
                         ("redis//:s3cret@db.lan", "lacks : behind"),
                         (":s3cret@db.lan", "redis://:***@db.lan,"),
                         ("me:s3cret@db.lan", "redis://me:***@db.lan,")):
            for args in (["enqueue", "t"], ["work", "--drain", "--exec", "t=true"], ["stats"]):
                with self.subTest(url=url, args=args):
                    error = self.fails(EXIT_CONFIG, "--broker", url, *args)
                    self.assertIn(way, error)
                    self.assertNotIn("s3cret", error)
        self.assertEqual(os.listdir(self.home), [])
        self.ok("--broker", "./localhost:6379", "enqueue", "t")

    @only("sqlite")
    def test_parameters_behind_a_path_make_no_second_database(self):
        task_id = self.enqueue("t")
        os.chmod(self.broker, 0o666)
        url = f"sqlite://{self.broker}?trust_owner=1"
        self.assertIn(f"write {url} if you trust", self.fails(EXIT_BROKER, "stats"))
        error = self.fails(EXIT_CONFIG, "--broker", f"{self.broker}?trust_owner=1", "enqueue", "t")
        self.assertIn(url, error)
        for name in ("a.db?sync=full", "a.db?unsafe_fs=1", "a.db?mode=ro", "b/a.db?foo=1"):
            self.fails(EXIT_CONFIG, "--broker", name, "enqueue", "t")
        self.assertFalse([name for name in os.listdir(self.home) if "?" in name])
        self.assertIn(task_id, self.ok("--broker", url, "task", "list"))
        self.write("odd?sync=full", "")
        self.ok("--broker", "odd?sync=full", "enqueue", "t")

    @only("sqlite")
    def test_file_whose_name_begins_as_a_server_is_not_waited_for(self):
        self.fails(EXIT_BROKER, "--broker", "redis/no/q.db", "work", "--drain", "--exec", "t=true")

    @only("sqlite")
    def test_database_that_is_created_is_reported_once(self):
        for args in (["enqueue", "t"], ["work", "--drain", "--exec", "t=true"],
                     ["limit", "set", "q", "1"], ["queue", "set", "q", "--max-pending", "1"],
                     ["schedule", "add", "e", "--cron", "@daily", "--type", "t"]):
            with self.subTest(args=args):
                name = self.path(args[0] + ".db")
                made = f"created the database {name}"
                self.assertEqual(self.quern("--broker", name, *args).stderr.count(made), 1)
                self.assertNotIn("created", self.quern("--broker", name, *args).stderr)

    @only("sqlite")
    def test_missing_directory_gets_a_hint_as_a_missing_file_does(self):
        self.assertIn("the first enqueue or work creates it", self.fails(EXIT_BROKER, "stats"))
        default = {"QUERN_BROKER": ""}
        error = self.fails(EXIT_BROKER, "stats", env=default)
        self.assertIn(".local/share/quern", error)
        self.assertIn("the first enqueue or work creates it", error)
        for args in ALL:
            error = self.fails(EXIT_BROKER, "--broker", "no/such/q.db", *args)
            self.assertIn("create it first: mkdir -p 'no/such'", error)
        self.assertEqual(os.listdir(self.home), [])
        self.ok("enqueue", "t", env=default)
        self.ok("stats", env=default)

    def test_option_goes_before_the_environment(self):
        task_id = self.enqueue("t")
        self.ok("task", "inspect", task_id, "--broker", self.broker,
                env={"QUERN_BROKER": "gopher://x"})
        self.fails(EXIT_CONFIG, "stats", env={"QUERN_BROKER": "gopher://x"})

    def test_password_is_never_shown(self):
        error = self.fails(EXIT_CONFIG, "--broker", "gopher://u:secret@host", "stats")
        self.assertNotIn("secret", error)

    @only("sqlite")
    def test_missing_file_is_not_created_by_inspecting(self):
        for args in LOOKS:
            with self.subTest(args=args):
                self.assertIn("q.db", self.fails(EXIT_BROKER, *args))
                self.assertFalse(os.path.exists(self.broker))

    def test_missing_directory_is_a_broker_that_is_not_available(self):
        self.fails(EXIT_BROKER, "--broker", self.path("no/such/q.db"), "enqueue", "t")

    def test_text_file_is_refused_and_left_alone(self):
        text = "this is no database, " * 1000
        name = self.write("notes.txt", text)
        for args in ALL + (["db", "init"],):
            with self.subTest(args=args):
                self.fails(EXIT_DATA, "--broker", name, *args)
                self.assertEqual(self.read("notes.txt"), text)

    def test_directory_is_refused(self):
        self.fails(EXIT_BROKER, "--broker", self.home, "enqueue", "t")

    def test_path_that_cannot_be_written_is_refused(self):
        self.fails(EXIT_BROKER, "--broker", "/proc/quern.db", "enqueue", "t")


    @only("sqlite")
    def test_file_that_stays_locked_is_a_temporary_failure(self):
        self.ok("db", "init")
        db = sqlite3.connect(self.broker, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        try:
            self.assertIn("locked", self.fails(EXIT_TEMPORARY, "enqueue", "t"))
            self.assertEqual(self.json("queue", "list"), [])
            self.assertIn("locked",
                          self.fails(EXIT_TEMPORARY, "work", "--no-retry", "--exec", "t=true"))
        finally:
            db.close()
        self.ok("enqueue", "t")


    def test_work_that_cannot_begin_ends_with_the_code_of_its_page(self):
        """docs/guide/supervise.md; a locked file above, refused logins in test_redis.py."""
        for code, broker in ((EXIT_DATA, self.write("notes.txt", "no database " * 1000)),
                             (EXIT_BROKER, self.home), (EXIT_BROKER, "/proc/quern.db"),
                             (EXIT_BROKER, "redis://127.0.0.1:1"), (EXIT_CONFIG, "nats://there")):
            with self.subTest(broker=broker):
                self.fails(code, "--broker", broker, "work", "--no-retry", "--exec", "t=true")


class PipeTest(CliTest):
    def test_closed_stdout_ends_quietly(self):
        self.ok("enqueue", "--from", "-", stdin='{"type":"t"}\n' * 2000)
        process = subprocess.Popen([self.program, "task", "list", "--size", "2000"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env)
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        process.wait(timeout=PATIENCE_S)
        self.assertEqual(error, b"")


if __name__ == "__main__":
    lib_cli.main()
