#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern schedule: stored entries, over SQLite and over Redis; `run` is in other tests."""

import contextlib
import json
import sqlite3

import lib_cli
from lib_cli import CliTest, EXIT_DATA, EXIT_FAILURE, EXIT_USAGE, only

DAILY = ("--cron", "30 2 * * *", "--type", "report")
MANY = 5000


class EntryTest(CliTest):
    def add(self, name, *args, **kwargs):
        return self.ok("schedule", "add", name, *(args or DAILY), **kwargs)

    def entries(self, *args):
        return {entry["name"]: entry for entry in self.json("schedule", "list", *args)["entries"]}


class AddTest(EntryTest):
    def test_added_entry_is_shown_with_its_task_and_its_next_ticks(self):
        lines = self.add("nightly", *DAILY, "--zone", "Europe/Berlin", "--queue", "reports",
                         "--payload", '{"day":1}', "--header", "trace=42", "--timeout", "20m",
                         "--start-within", "1h", "--misfire", "all 3", "--late", "30s",
                         "--jitter", "5m", "--retry", "never").splitlines()
        self.assertEqual(len(lines), 4)
        for line in lines[1:]:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d 02:30:00 \+0[12]:00  \S+T0[01]:30:00Z  in ")
        shown = self.json("schedule", "show", "nightly")
        for key, value in {"name": "nightly", "queue": "reports", "type": "report",
                           "cron": "30 2 * * *", "zone": "Europe/Berlin", "origin": "cli",
                           "state": "ok", "fault": None, "misfire": "all 3", "late_ms": 30000,
                           "jitter_ms": 300000, "runs": 0, "events": []}.items():
            self.assertEqual(shown[key], value, key)
        task = shown["task"]
        self.assertEqual((task["payload"], task["headers"], task["timeout_ms"],
                          task["start_within_ms"], task["retry_max"]),
                         ('{"day":1}', {"trace": "42"}, 1200000, 3600000, -1))
        self.assertEqual(len(shown["next"]), 5)
        self.assertEqual(shown["next"][0]["at_ms"], shown["next_at_ms"])
        text = self.ok("schedule", "show", "nightly")
        for part in ("cron:             30 2 * * *", "start within:     1h",
                     "misfire:          all 3", 'payload:          {"day":1}',
                     "retry max:        never"):
            self.assertIn(part, text)

    def test_policies_of_a_unique_task_are_shown(self):
        self.add("e", *DAILY, "--unique", "1h", "--unique-key", "shop 7", "--unique-until",
                 "started", "--on-duplicate", "debounce", "--late", "0")
        shown = self.json("schedule", "show", "e")
        task = shown["task"]
        self.assertEqual((task["unique_ms"], task["unique_key"], task["unique_until"],
                          task["on_duplicate"]), (3600000, "shop 7", "started", "debounce"))
        self.assertEqual(shown["late_ms"], -1)
        text = self.ok("schedule", "show", "e")
        for part in ("unique:           1h", "unique key:       shop 7",
                     "unique until:     started", "on duplicate:     debounce",
                     "late:             0"):
            self.assertIn(part, text)

    def test_trigger_prints_the_task_that_stands_for_its_own(self):
        self.add("e", *DAILY, "--payload", "new", "--unique", "1h", "--unique-key", "k",
                 "--on-duplicate", "replace")
        holder = self.enqueue("t", "old", "--unique", "1h", "--unique-key", "k")
        self.assertEqual(self.ok("schedule", "trigger", "e").strip(), holder)
        self.assertEqual(self.json("task", "inspect", holder)["payload"], "new")
        event = self.json("schedule", "history", "e")[0]
        self.assertEqual((event["what"], event["id"], event["state"]),
                         ("replaced", holder, "pending"))

    def test_payload_comes_from_stdin(self):
        self.add("e", *DAILY, "--payload", "-", stdin="from stdin")
        self.assertEqual(self.json("schedule", "show", "e")["task"]["payload"], "from stdin")

    def test_faults_are_named_and_nothing_is_stored(self):
        cases = [
            (["--cron", "61 * * * *", "--type", "t"], 'cron: minute "61": 61 is above 59'),
            (["--cron", "* * *", "--type", "t"], "cron: 3 fields"),
            ([*DAILY, "--zone", "Europe/Atlantis"], 'no time zone "Europe/Atlantis"'),
            ([*DAILY, "--misfire", "twice"], "allowed are skip, once, and all N"),
            ([*DAILY, "--jitter", "2d"], "jitter must be at most a day"),
            ([*DAILY, "--queue", "a{b"], "queue"),
            ([*DAILY, "--header", "quern-tick=1"], "quern-tick is the scheduler's"),
        ]
        for args, text in cases:
            with self.subTest(args=args):
                result = self.quern("schedule", "add", "bad", *args)
                self.assertEqual(result.returncode, EXIT_DATA, result.stderr)
                self.assertIn(text, result.stderr)
        self.assertIn("visible ASCII", self.fails(EXIT_DATA, "schedule", "add", "a b", *DAILY))
        self.add("good")
        self.assertEqual(set(self.entries()), {"good"})

    def test_lines_that_are_wrong(self):
        cases = [
            (["add"], "NAME"), (["add", "e", "--type", "t"], "missing --cron"),
            (["add", "e", "--cron", "@daily"], "missing --type"),
            (["add", "e", *DAILY, "--force"], "--force is for --replace"),
            (["add", "e", *DAILY, "--unique", "1h", "--unique-until", "x"], "--unique-until"),
            (["next"], "either an entry or an expression"),
            (["next", "e", "--cron", "@daily"], "either an entry or an expression"),
            (["next", "e", "--zone", "UTC"], "--zone is for --cron"),
            (["resume", "e", "--from", "then"], "only 'now'"),
            (["resume", "e", "--from", "now", "--catch-up"], "exclude each other"),
            (["pause"], "NAME"), (["ls"], "quern schedule list"), (["rm", "e"], "schedule remove"),
        ]
        for args, text in cases:
            with self.subTest(args=args):
                self.assertIn(text, self.fails(EXIT_USAGE, "schedule", *args))

    def test_entry_that_is_there_is_replaced_only_if_wanted(self):
        self.add("e")
        before = self.json("schedule", "show", "e")
        self.add("e")  # the same again changes nothing
        error = self.fails(EXIT_FAILURE, "schedule", "add", "e", "--cron", "@hourly", "--type", "t")
        self.assertIn('queue "default" has an entry "e" already', error)
        self.assertIn("--replace", error)
        self.ok("schedule", "pause", "e")
        self.add("e", "--cron", "@hourly", "--type", "other", "--replace")
        after = self.json("schedule", "show", "e")
        self.assertEqual((after["cron"], after["type"], after["state"]),
                         ("@hourly", "other", "paused"))
        self.assertEqual(after["created_at_ms"], before["created_at_ms"])
        self.add("new", *DAILY, "--replace")
        self.assertEqual(set(self.entries()), {"e", "new"})

    @only("redis")
    def test_priority_is_refused_when_it_is_added(self):
        error = self.fails(EXIT_FAILURE, "schedule", "add", "e", *DAILY, "--priority", "5")
        self.assertIn("priority", error)
        self.assertEqual(self.entries(), {})

    @only("sqlite")
    def test_priority_is_kept(self):
        self.add("e", *DAILY, "--priority", "5")
        self.assertEqual(self.json("schedule", "show", "e")["task"]["priority"], 5)


class ListTest(EntryTest):
    def test_number_of_entries(self):
        self.enqueue("t")
        result = self.quern("schedule", "list")
        self.assertIn("0 entries", result.stderr)
        self.assertNotIn("no scheduler runs", result.stderr)
        self.add("one")
        result = self.quern("schedule", "list")
        self.assertIn("1 entry\n", result.stderr)
        self.assertIn("no scheduler runs", result.stderr)
        for i in range(11):
            self.add(f"more{i:02}")
        self.ok("schedule", "pause", "more03")
        result = self.quern("schedule", "list")
        self.assertIn("12 entries, 1 paused", result.stderr)
        names = [line.split()[0] for line in result.stdout.splitlines()]
        self.assertEqual(names, ["NAME", *(f"more{i:02}" for i in range(11)), "one"])
        self.assertIsNone(self.json("schedule", "list")["leader"])

    def test_list_fits_a_terminal_and_wide_shows_all(self):
        self.enqueue("t")
        self.add("a-name-that-is-rather-long-for-a-table", "--cron", "*/5 8-18 1-15 * MON-FRI",
                 "--type", "t", "--zone", "America/Argentina/Buenos_Aires",
                 "--queue", "another-queue")
        for columns in (80, 120):
            for line in self.on_terminal("schedule", "list", columns=columns).splitlines():
                if "quern:" not in line:
                    self.assertLessEqual(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")),
                                         columns)
        wide = self.on_terminal("schedule", "list", "--wide", "--utc")
        for part in ("*/5 8-18 1-15 * MON-FRI", "America/Argentina/Buenos_Aires", "Z "):
            self.assertIn(part, wide)

    def test_same_name_in_two_queues(self):
        self.add("e")
        self.add("e", *DAILY, "--queue", "other")
        self.assertEqual(list(self.entries("--queue", "other")), ["e"])
        for args in (["show", "e"], ["next", "e"], ["pause", "e"], ["resume", "e"],
                     ["trigger", "e"], ["history", "e"], ["remove", "e"]):
            with self.subTest(args=args):
                self.assertIn("in 2 queues", self.fails(EXIT_FAILURE, "schedule", *args))
        self.ok("schedule", "remove", "e", "--queue", "other")
        self.ok("schedule", "show", "e")

    def test_unknown_names(self):
        self.add("e")
        for verb in ("show", "next", "pause", "resume", "trigger", "history", "remove"):
            with self.subTest(verb=verb):
                self.assertIn('no entry "wrong"',
                              self.fails(EXIT_FAILURE, "schedule", verb, "wrong"))
        result = self.quern("schedule", "pause", "wrong", "e")
        self.assertEqual((result.returncode, result.stdout), (EXIT_FAILURE, "e paused\n"))

    def test_queue_shows_the_number_of_its_entries(self):
        self.enqueue("t")
        self.assertEqual(self.json("queue", "inspect", "default")["entries"], 0)
        self.add("a")
        self.add("b")
        self.add("c", *DAILY, "--queue", "other")
        self.assertEqual(self.json("queue", "inspect", "default")["entries"], 2)
        self.assertRegex(self.ok("queue", "inspect", "default"), r"(?m)^entries: +2$")

    def test_names_are_completed(self):
        self.add("nightly")
        self.add("weekly")
        self.assertEqual(self.ok("completion", "entries"), "nightly\nweekly")

    def test_thousands_of_entries(self):
        self.enqueue("t")
        conf = self.write("many.conf", "".join(
            f"[e{i:04}]\ncron = 0 6 * * *\ntype = t\n" for i in range(MANY)))
        self.start("schedule", "run", "--file", conf)
        self.until(lambda: len(self.entries()) == MANY, "all are stored")
        self.assertEqual(list(self.entries()), [f"e{i:04}" for i in range(MANY)])
        lines = self.ok("schedule", "list").splitlines()
        self.assertEqual(len(lines), MANY + 1)
        self.assertEqual(self.json("schedule", "show", "e4999")["state"], "ok")


class ActTest(EntryTest):
    def test_pause_and_resume(self):
        self.add("a")
        self.add("b")
        self.assertEqual(self.ok("schedule", "pause", "a", "b"), "a paused\nb paused")
        self.assertEqual([e["state"] for e in self.entries().values()], ["paused"] * 2)
        self.assertIsNone(self.entries()["a"]["next_at_ms"])
        self.assertIn("paused", self.fails(EXIT_FAILURE, "schedule", "pause", "a"))
        self.ok("schedule", "resume", "a")
        last = self.entries()["b"]["last_at_ms"]
        self.ok("schedule", "resume", "b", "--catch-up")
        self.assertEqual(self.entries()["b"]["last_at_ms"], last)
        self.assertIn("not paused", self.fails(EXIT_FAILURE, "schedule", "resume", "a"))
        self.ok("schedule", "resume", "a", "--from", "now")
        self.assertEqual({e["state"] for e in self.entries().values()}, {"ok"})

    @only("sqlite")
    def test_last_tick_ahead_of_the_clock_is_shown_and_set_back(self):
        self.add("a")
        db = sqlite3.connect(self.broker)
        with contextlib.closing(db), db:
            db.execute("UPDATE quern_entry SET last_s = last_s + 3600")
        self.assertEqual(self.entries()["a"]["state"], "ahead")
        self.ok("schedule", "resume", "a", "--from", "now")
        self.assertEqual(self.entries()["a"]["state"], "ok")

    def test_trigger_enqueues_the_task_now(self):
        self.add("e", *DAILY, "--payload", "p", "--header", "h=1", "--delay", "1h",
                 "--start-within", "1h")
        before = self.json("schedule", "show", "e")
        task_id = self.ok("schedule", "trigger", "e")
        self.assertRegex(task_id, r"^e@[0-9a-f-]{36}$")
        task = self.json("task", "inspect", task_id)
        self.assertEqual((task["state"], task["payload"], task["type"]),
                         ("pending", "p", "report"))
        self.assertEqual(task["headers"], {"h": "1", "quern-entry": "e"})
        left = task["start_by_at_ms"] - task["enqueued_at_ms"]
        self.assertLess(abs(left - 3600000), 1000)
        after = self.json("schedule", "show", "e")
        self.assertEqual((after["runs"], after["last_at_ms"]), (1, before["last_at_ms"]))
        event, = self.json("schedule", "history", "e")
        self.assertEqual((event["what"], event["id"], event["tick_at_ms"], event["state"]),
                         ("triggered", task_id, None, "pending"))
        self.ok("task", "delete", task_id)
        self.assertIn("gone", self.ok("schedule", "history", "e"))

    def test_history_of_a_removed_entry(self):
        self.add("e")
        for _ in range(3):
            self.ok("schedule", "trigger", "e")
        self.ok("schedule", "remove", "e")
        error = self.fails(EXIT_FAILURE, "schedule", "history", "e")
        self.assertIn('no entry "e"', error)
        self.assertIn("if it was removed, its history needs --queue", error)
        events = self.json("schedule", "history", "e", "--queue", "default", "-n", "2")
        self.assertEqual(len(events), 2)
        self.assertIn("2 of 3 events",
                      self.quern("schedule", "history", "e", "--queue", "default",
                                 "-n", "2").stderr)

    def test_history_of_ticks_fits_80_columns(self):
        self.add("nightly", "--cron", "@every 1s", "--type", "t")
        self.start("schedule", "run")
        self.until(lambda: self.json("task", "list"), "a tick is enqueued")
        page = self.on_terminal("schedule", "history", "nightly", env={"NO_COLOR": "1"})
        title, row = page.splitlines()[:2]
        self.assertEqual(title.split(), ["TICK", "WHAT", "STATE", "TASK"])
        self.assertRegex(row, r"^(\S+Z)  enqueued  pending  nightly@\1$")
        self.assertIn("PASSED OVER", self.ok("schedule", "history", "nightly"))

    def test_json_of_several_entries(self):
        self.add("a")
        result = self.quern("schedule", "remove", "a", "b", "--json")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        done, failed = json.loads(result.stdout)
        self.assertEqual(done, {"name": "a", "done": "removed"})
        self.assertIn("no entry", failed["error"])

    def test_entry_of_a_file_is_changed_only_by_force(self):
        conf = self.write("s.conf", "[e]\ncron = 0 6 * * *\ntype = t\n")
        self.enqueue("t")
        process = self.start("schedule", "run", "--file", conf)
        self.until(lambda: "e" in self.entries(), "the entry is stored")
        self.assertRegex(self.json("schedule", "list")["leader"], r":\d+:")
        self.assertEqual(self.stop(process), 0)
        self.assertEqual(self.entries()["e"]["origin"], f"file:{conf}")
        for args in (["add", "e", *DAILY, "--replace"], ["remove", "e"]):
            error = self.fails(EXIT_FAILURE, "schedule", *args)
            self.assertIn(f"belongs to file:{conf}: change it there, or force it", error)
        self.ok("schedule", "pause", "e")
        self.ok("schedule", "trigger", "e")
        self.add("e", *DAILY, "--replace", "--force")
        self.assertEqual(self.entries()["e"]["origin"], "cli")
        self.ok("schedule", "remove", "e")


class NextTest(EntryTest):
    def test_night_when_clocks_change(self):
        ticks = self.json("schedule", "next", "--cron", "30 2 * * *", "--zone", "Europe/Berlin",
                          "-n", "3", "--from", "2027-03-26T00:00:00Z")
        self.assertEqual([tick["local"] for tick in ticks],
                         ["2027-03-26 02:30:00 +01:00", "2027-03-27 02:30:00 +01:00",
                          "2027-03-29 02:30:00 +02:00"])
        self.assertEqual([tick["clocks_changed"] for tick in ticks], [False, False, True])
        text = self.ok("schedule", "next", "--cron", "30 2 * * *", "--zone", "Europe/Berlin",
                       "-n", "3", "--from", "2027-03-26T00:00:00Z")
        self.assertEqual(text.count("changed before"), 1)

    def test_every_counts_from_its_creation(self):
        self.add("e", "--cron", "@every 7s", "--type", "t")
        entry = self.entries()["e"]
        for tick in self.json("schedule", "next", "e", "--from", "2030-01-01T00:00:00Z"):
            self.assertEqual((tick["at_ms"] - entry["created_at_ms"] // 1000 * 1000) % 7000, 0)

    def test_expression_without_a_tick(self):
        result = self.quern("schedule", "next", "--cron", "0 0 30 2 *")
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertIn("no tick within five years", result.stderr)
        self.add("never", "--cron", "0 0 30 2 *", "--type", "t")
        self.assertEqual(self.entries()["never"]["state"], "never")

    def test_wrong_expression_and_zone(self):
        self.assertIn("61 is above 59",
                      self.fails(EXIT_DATA, "schedule", "next", "--cron", "61 * * * *"))
        self.assertIn("no time zone", self.fails(EXIT_DATA, "schedule", "next", "--cron",
                                                 "@daily", "--zone", "Nowhere/City"))


class CheckTest(EntryTest):
    def test_faults_of_a_file(self):
        conf = self.write("s.conf", "[good]\ncron = 0 6 * * *\ntype = t\n\n"
                                    "[bad]\ncron = 61 * * * *\ntype = t\n")
        result = self.quern("schedule", "check", conf)
        self.assertEqual(result.returncode, EXIT_DATA)
        self.assertRegex(result.stderr, rf"{conf}:\d+: \[bad\] cron: minute \"61\"")
        self.assertIn("1 entry, 1 fault", result.stderr)
        self.assertEqual(result.stdout.count("T06:00:00Z"), 3)
        found = json.loads(self.quern("schedule", "check", conf, "--json").stdout)
        self.assertEqual([e["name"] for e in found["entries"]], ["good"])
        self.assertEqual([f["name"] for f in found["faults"]], ["bad"])
        self.assertEqual(len(found["entries"][0]["next"]), 3)

    def test_file_without_faults_and_one_that_is_not_there(self):
        conf = self.write("s.conf", "[good]\ncron = 0 6 * * *\ntype = t\n")
        table = self.ok("schedule", "check", conf, "--zone", "Asia/Tokyo")
        self.assertIn("Asia/Tokyo", table)
        self.assertIn("T21:00:00Z", table)
        self.fails(EXIT_FAILURE, "schedule", "check", self.path("absent.conf"))


if __name__ == "__main__":
    lib_cli.main()
