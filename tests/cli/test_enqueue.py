#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern enqueue: one task from the command line, or many from lines of JSON."""

import base64
import json
import os
import signal
import stat
import subprocess
import time

import lib_cli
from lib_cli import (CliTest, EXIT_CONFIG, EXIT_DATA, EXIT_FAILURE, EXIT_USAGE, PATIENCE_S,
                     only)


class EnqueueTest(CliTest):
    def test_id_is_printed_and_the_task_is_stored(self):
        task_id = self.enqueue("mail:welcome", "ann@example.org", "--queue", "mail")
        task = self.task(task_id)
        self.assertEqual(task["state"], "pending")
        self.assertEqual(task["queue"], "mail")
        self.assertEqual(task["type"], "mail:welcome")
        self.assertEqual(task["payload"], "ann@example.org")
        self.assertEqual(task["retry_max"], 25)

    def test_json_prints_the_stored_task(self):
        task = self.json("enqueue", "t", "p", "--id", "mine", "--in", "1h")
        self.assertEqual((task["id"], task["state"], task["queue"]),
                         ("mine", "scheduled", "default"))

    def test_every_option_reaches_the_task(self):
        now_ms = time.time() * 1000
        task_id = self.enqueue(
            "t", "p", "--id", "x", "--queue", "q", "--retry", "3", "--timeout", "90s",
            "--deadline", "2126-01-01T00:00:00Z", "--in", "1h30m", "--unique", "2h",
            "--retention", "1d", "--header", "a=1", "--header", "b=x=y", "--start-within", "5s")
        task = self.task(task_id)
        self.assertEqual(task["retry_max"], 3)
        self.assertEqual(task["timeout_ms"], 90000)
        self.assertEqual(task["retention_ms"], 86400000)
        self.assertEqual(task["deadline_at_ms"], 4922899200000)
        self.assertEqual(task["headers"], {"a": "1", "b": "x=y"})
        self.assertEqual(task["state"], "scheduled")
        self.assertGreaterEqual(task["due_at_ms"], now_ms + 5400000 - 1000)
        self.assertEqual(task["start_by_at_ms"], task["due_at_ms"] + 5000)
        self.assertIn("start by", self.ok("task", "inspect", task_id))

    def test_never_and_minus_1_turn_a_limit_off_and_0_is_refused(self):
        for value in ("never", "-1"):
            task = self.task(self.enqueue("t", "--retry", value, "--timeout", value))
            self.assertEqual((task["retry_max"], task["timeout_ms"]), (-1, -1))
            line = json.dumps({"type": "t", "retry_max": task["retry_max"],
                               "timeout": task["timeout_ms"], "id": f"id-{value}"})
            self.ok("enqueue", "--from", "-", stdin=line)
            task = self.task(f"id-{value}")
            self.assertEqual((task["retry_max"], task["timeout_ms"]), (-1, -1))
        self.assertIn("0/never", self.ok("task", "list", "--wide"))
        self.assertIn("0, retry-max never", self.ok("task", "inspect", "id-never"))

    def test_a_limit_of_0_is_refused(self):
        for option in ("--retry-max", "--timeout"):
            refused = self.quern("enqueue", "t", option, "0")
            self.assertEqual(refused.returncode, EXIT_USAGE)
            self.assertIn(f"{option}: 0 is refused: use never, or leave it out", refused.stderr)
        self.fails(EXIT_USAGE, "enqueue", "t", "--start-within", "0")
        for key in ("retry_max", "timeout"):
            refused = self.quern("enqueue", "--from", "-", stdin=json.dumps({"type": "t", key: 0}))
            self.assertEqual(refused.returncode, EXIT_DATA)
            self.assertIn(f'"{key}" 0 is refused: use -1 for never', refused.stderr)

    def test_at_in_the_past_is_pending(self):
        self.assertEqual(self.state(self.enqueue("t", "--at", "@1000000000")), "pending")

    def test_empty_group_is_refused(self):
        self.assertIn("--group: must not be empty",
                      self.fails(EXIT_USAGE, "enqueue", "t", "--group", ""))

    def test_group_is_stored_as_aggregating(self):
        task = self.task(self.enqueue("t", "--group", "digest"))
        self.assertEqual((task["state"], task["group"]), ("aggregating", "digest"))

    def test_payload_dash_reads_stdin(self):
        task = self.task(self.enqueue("t", "-", stdin="line 1\nline 2\n"))
        self.assertEqual(task["payload"], "line 1\nline 2\n")

    def test_names_that_break_the_rules_are_bad_data(self):
        for args in (["", "p"], ["   "], ["t", "--queue", " "], ["t", "--queue", "a{b}"],
                     ["t", "--id", ""], ["t" * 257], ["a\tb"], [b"bad\xff".decode(
                         "utf-8", "surrogateescape")]):
            with self.subTest(args=args):
                self.fails(EXIT_DATA, "enqueue", *args)

    def test_payload_over_the_limit_is_bad_data(self):
        error = self.fails(EXIT_DATA, "enqueue", "t", "-", stdin="x" * (33 << 20))
        self.assertIn("payload", error)

    @only("sqlite")
    def test_refused_enqueue_makes_no_database(self):
        self.write("bad.jsonl", "not json\n")
        self.write("none.jsonl", "")
        before = sorted(os.listdir(self.home))
        for code, args in ((EXIT_USAGE, ["t", "--in", "soon"]), (EXIT_DATA, [""]),
                           (EXIT_USAGE, ["t", "--header", "x"]), (EXIT_DATA, ["t", "--queue", "{"]),
                           (EXIT_DATA, ["t", "--id", ""]), (EXIT_DATA, ["--from", "bad.jsonl"]),
                           (EXIT_FAILURE, ["--from", "missing.jsonl"])):
            with self.subTest(args=args):
                self.fails(code, "enqueue", *args, env={"QUERN_BROKER": ""})
                self.fails(code, "enqueue", *args)
        self.fails(EXIT_DATA, "enqueue", "t", "-", stdin="x" * (33 << 20))
        self.assertEqual(self.ok("enqueue", "--from", "none.jsonl"), "0 tasks stored")
        self.assertEqual(sorted(os.listdir(self.home)), before)
        self.write("bad.jsonl", '{"type":"t"}\nnot json\n')
        self.fails(EXIT_DATA, "enqueue", "--from", "bad.jsonl")
        self.assertEqual(self.counts()["pending"], 1)

    def test_same_id_is_refused(self):
        self.enqueue("t", "--id", "one")
        self.assertIn("one", self.fails(EXIT_FAILURE, "enqueue", "t", "--id", "one"))

    def test_a_refusal_names_the_task_that_is_there(self):
        first = self.enqueue("t", "p", "--unique", "1h")
        self.enqueue("t", "--id", "mine")
        for args, existing, status in ((["t", "p", "--unique", "1h"], first, "duplicate"),
                                       (["t", "--id", "mine"], "mine", "conflict")):
            self.assertIn(existing, self.fails(EXIT_FAILURE, "enqueue", *args))
            result = self.quern("--json", "enqueue", *args)
            document = json.loads(result.stdout)
            self.assertEqual((document["status"], document["existing_id"]), (status, existing))
            self.assertIn(document["error"], result.stderr)

    def test_equal_unique_task_is_refused(self):
        self.enqueue("t", "p", "--unique", "1h")
        self.fails(EXIT_FAILURE, "enqueue", "t", "p", "--unique", "1h")
        self.enqueue("t", "other", "--unique", "1h")

    def test_policies_of_unique_tasks(self):
        first = self.enqueue("t", "p", "--unique", "1h", "--unique-key", "k", "--delay", "1h")
        for policy, payload in (("ignore", "p"), ("replace", "q"), ("debounce", "q")):
            there = self.enqueue("u", "q", "--unique", "1h", "--unique-key", "k",
                                 "--on-duplicate", policy, "--delay", "2h")
            self.assertEqual((there, self.task(first)["payload"]), (first, payload))
            again = self.json("enqueue", "u", "q", "--unique", "1h", "--unique-key", "k",
                              "--on-duplicate", policy, "--delay", "2h")
            self.assertEqual((again["id"], again["existing"]), (first, True))
        other = self.json("enqueue", "u", "--unique", "1h", "--on-duplicate", "ignore")
        self.assertEqual((other["id"] != first, other["existing"]), (True, False))
        self.assertEqual(self.task(first)["type"], "u")
        self.assertGreater(self.task(first)["due_at_ms"] / 1000, time.time() + 7000)
        self.fails(EXIT_FAILURE, "enqueue", "t", "--unique", "1h", "--unique-key", "k")
        for until in ("done", "started", "removed", "ended", "expired"):
            self.enqueue("t", "--unique", "1h", "--unique-key", until, "--unique-until", until)
        for args in (("--unique", "1h", "--unique-until", "never"),
                     ("--unique", "1h", "--on-duplicate", "what")):
            self.assertIn(args[3], self.fails(EXIT_USAGE, "enqueue", "t", *args))
        self.assertIn("needs unique_ms", self.fails(EXIT_DATA, "enqueue", "t", "--unique-key", "k"))

    def test_default_broker_lies_in_a_private_directory(self):
        share = self.path("share")
        self.ok("enqueue", "t", env={"XDG_DATA_HOME": share, "QUERN_BROKER": ""})
        self.assertTrue(os.path.exists(os.path.join(share, "quern/quern.db")))
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(share, "quern")).st_mode), 0o700)
        self.ok("enqueue", "t", env={"QUERN_BROKER": ""})
        self.assertTrue(os.path.exists(self.path(".local/share/quern/quern.db")))

    def test_no_home_at_all_is_bad_configuration(self):
        self.fails(EXIT_CONFIG, "enqueue", "t", env={"QUERN_BROKER": "", "HOME": ""})

    def test_full_stdout_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([self.program, "enqueue", "t"], stdout=full,
                                    stderr=subprocess.PIPE, env=self.env, check=False,
                                    timeout=PATIENCE_S)
        self.assertEqual(result.returncode, EXIT_FAILURE)
        self.assertIn(b"stdout", result.stderr)


class ImportTest(CliTest):
    def lines(self, *objects):
        return "".join(json.dumps(each) + "\n" for each in objects)

    def test_policies_in_an_import(self):
        line = {"type": "t", "unique": "1h", "unique_key": "k", "unique_until": "ended"}
        self.ok("enqueue", "--from", "-", stdin=self.lines(
            {**line, "id": "a"}, {**line, "on_duplicate": "replace", "payload": "new"}))
        self.assertEqual(self.task("a")["payload"], "new")
        again = self.lines({**line, "id": "a", "on_duplicate": "ignore"},
                           {**line, "on_duplicate": "replace", "payload": "newer"},
                           {"type": "t", "id": "b"})
        self.assertEqual(self.ok("enqueue", "--from", "-", stdin=again),
                         "1 task stored, 2 were there")
        self.assertEqual(self.json("enqueue", "--from", "-", stdin=again.splitlines()[0]),
                         {"stored": 0, "existing": 1, "duplicates": 0, "conflicts": 0})
        self.assertEqual(self.ok("enqueue", "--from", "-", stdin=again.splitlines()[0]),
                         "0 tasks stored, 1 was there")
        stopped = self.fails(EXIT_DATA, "enqueue", "--from", "-", stdin=again + "bad\n")
        self.assertIn("(stored 0 tasks before it, 2 were there; the rest", stopped)
        for key in ("unique_until", "on_duplicate"):
            text = self.fails(EXIT_DATA, "enqueue", "--from", "-",
                              stdin=self.lines({**line, key: "what"}))
            self.assertIn(f'"{key}" is not', text)

    def test_thousand_lines_from_stdin(self):
        text = "".join(f'{{"type":"n","payload":"{n}"}}\n' for n in range(1, 1001))
        self.assertEqual(self.ok("enqueue", "--from", "-", stdin=text), "1000 tasks stored")
        self.assertEqual(self.counts()["pending"], 1000)

    def test_more_than_one_batch_from_a_file_keeps_the_order(self):
        name = self.write("in.jsonl", "".join(
            f'{{"type":"n","id":"{n}"}}\n' for n in range(2500)))
        self.assertEqual(self.json("enqueue", "--from", name),
                         {"stored": 2500, "existing": 0, "duplicates": 0, "conflicts": 0})
        tasks = self.json("task", "list", "--size", "2500")
        self.assertEqual([task["id"] for task in tasks], [str(n) for n in range(2500)])

    @only("sqlite")
    def test_a_priority_reaches_the_task(self):
        self.ok("enqueue", "t", "--id", "low", "--priority", "-5")
        self.ok("enqueue", "--from", "-", stdin=self.lines(
            {"type": "t", "id": "high", "priority": 100}, {"type": "t", "id": "none"}))
        tasks = self.json("task", "list")
        self.assertEqual([(task["id"], task["priority"]) for task in tasks],
                         [("high", 100), ("none", 0), ("low", -5)])
        self.assertRegex(self.ok("task", "inspect", "low"), r"(?m)^priority: +-5$")
        self.fails(EXIT_USAGE, "enqueue", "t", "--priority", "101")
        said = self.fails(EXIT_DATA, "enqueue", "--from", "-",
                          stdin=self.lines({"type": "t", "priority": 1.5}))
        self.assertIn("a whole number from -100 to 100", said)

    @only("redis")
    def test_a_priority_is_refused_with_advice(self):
        result = self.quern("enqueue", "t", "--priority", "1")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("use a queue for each priority", result.stderr)
        self.assertEqual(self.json("queue", "list"), [])

    def test_every_key_reaches_the_task(self):
        self.ok("enqueue", "--from", "-", stdin=self.lines({
            "type": "t", "id": "a", "queue": "q", "payload": "p", "retry_max": "never",
            "delay": "1m", "timeout": 1.5, "deadline": "2126-01-01T00:00:00Z", "unique": 3600,
            "retention": "2h", "start_within": 1.5, "headers": {"k": "v"}, "kill_after": 2.5,
            "cpu": "90s", "memory": "1.5G"}))
        task = self.task("a")
        self.assertEqual(
            [task[key] for key in ("type", "queue", "payload", "retry_max", "state", "timeout_ms",
                                   "deadline_at_ms", "retention_ms", "headers")],
            ["t", "q", "p", -1, "scheduled", 1500, 4922899200000, 7200000, {"k": "v"}])
        self.assertEqual(task["start_by_at_ms"], task["due_at_ms"] + 1500)
        self.assertEqual([task[key] for key in ("kill_after_ms", "cpu_ms", "memory_max")],
                         [2500, 90000, 3 << 29])
        self.ok("enqueue", "--from", "-", stdin=self.lines(
            {"type": "t", "id": "b", "process_at": 4922899200.25},
            {"type": "t", "id": "c", "group": "g"}))
        self.assertEqual(self.task("b")["due_at_ms"], 4922899200250)
        self.assertEqual(self.task("c")["state"], "aggregating")

    def test_limits_of_a_run_are_kept_and_shown(self):
        self.ok("enqueue", "t", "--id", "a", "--kill-after", "10", "--cpu", "1m", "--memory", "2G")
        task = self.task("a")
        self.assertEqual([task[key] for key in ("kill_after_ms", "cpu_ms", "memory_max")],
                         [10000, 60000, 2 << 30])
        shown = self.ok("task", "inspect", "a")
        for line in (r"kill after: +10s", r"cpu: +1m", r"memory: +2\.0 GiB"):
            self.assertRegex(shown, rf"(?m)^{line}")
        self.ok("enqueue", "--from", "-", "--memory", "64M",
                stdin=self.lines({"type": "t", "id": "b"}, {"type": "t", "id": "c",
                                                            "memory": 1 << 20}))
        self.assertEqual(self.task("b")["memory_max"], 64 << 20)
        self.assertEqual(self.task("c")["memory_max"], 1 << 20)
        self.assertIn("--memory", self.fails(EXIT_USAGE, "enqueue", "t", "--memory", "much"))
        self.assertIn("at least 1048576", self.fails(EXIT_DATA, "enqueue", "t", "--memory", "64K"))
        self.fails(EXIT_DATA, "enqueue", "--from", "-",
                   stdin=self.lines({"type": "t", "memory": "-1"}))

    def test_payload_that_is_no_string_is_stored_as_its_compact_json(self):
        cases = [('{"a": [1, 2.50, null], "b": 1.1}', '{"a":[1,2.5,null],"b":1.1}'),
                 ("17", "17"), ("true", "true"), ("0.30000000000000004", "0.30000000000000004")]
        for number, (given, stored) in enumerate(cases):
            self.ok("enqueue", "--from", "-",
                    stdin=f'{{"type":"t","id":"{number}","payload":{given}}}\n')
            self.assertEqual(self.task(str(number))["payload"], stored)

    def test_binary_payload_comes_as_base64(self):
        data = bytes(range(256))
        self.ok("enqueue", "--from", "-", stdin=self.lines(
            {"type": "t", "id": "a", "payload_base64": base64.b64encode(data).decode()}))
        self.assertEqual(base64.b64decode(self.task("a")["payload_base64"]), data)
        self.assertIn("256 bytes: 00 01 02", self.ok("task", "inspect", "a"))

    def test_options_are_the_defaults_of_all_lines(self):
        self.ok("enqueue", "--from", "-", "--queue", "q", "--retry", "never", "--in", "1h",
                stdin=self.lines({"type": "t", "id": "a"},
                                 {"type": "t", "id": "b", "queue": "p", "retry_max": 2,
                                  "process_at": 1}))
        a, b = self.task("a"), self.task("b")
        self.assertEqual((a["queue"], a["retry_max"], a["state"]), ("q", -1, "scheduled"))
        self.assertEqual((b["queue"], b["retry_max"], b["state"]), ("p", 2, "pending"))

    def test_bad_line_is_named_and_nothing_after_it_is_read(self):
        cases = [
            ('{"type":', "not JSON"), ("[1]", "not a JSON object"), ("{}", 'no "type"'),
            ('{"tpye":"t"}', 'did you mean "type"?'), ('{"type":7}', '"type" is not a string'),
            ('{"type":""}', "type"), ('{"type":"t","delay":-1}', '"delay"'),
            ('{"type":"t","delay":"soon"}', '"delay"'),
            ('{"type":"t","retry_max":-2}', '"retry_max"'),
            ('{"type":"t","retry_max":1.5}', '"retry_max"'),
            ('{"type":"t","delay":1,"process_at":5}', ""),
            ('{"type":"t","payload_base64":"a"}', "base64"),
            ('{"type":"t","payload_base64":"AAA-"}', "base64"),
            ('{"type":"t","payload":"a","payload_base64":"AAAA"}', "both"),
            ('{"type":"t","headers":{"a":1}}', "headers"), ('{"type":"t","type":"u"}', "not JSON"),
            ('{"type":"t","queue":"a{b"}', "queue"), ('{"type":"a\\u0000b"}', "NUL"),
            ('{"type":"t","unique":0.5}', "unique"),
        ]
        for number, (bad, text) in enumerate(cases):
            with self.subTest(bad=bad):
                broker = self.path(f"{number}.db")
                lines = '{"type":"t"}\n' * 16 + bad + "\n" + '{"type":"t"}\n' * 5
                error = self.fails(EXIT_DATA, "enqueue", "--from", "-", "--broker", broker,
                                   stdin=lines)
                self.assertIn("line 17: ", error)
                self.assertIn(text, error)
                self.assertIn("(stored 16 tasks before it; the rest was not read)", error)
                self.assertEqual(len(self.json("task", "list", "--broker", broker)), 16)

    def test_bad_line_of_a_file_is_named_with_the_file(self):
        name = self.write("tasks.jsonl", '{"type":"t"}\nnot json\n')
        error = self.fails(65, "enqueue", "--from", name)
        self.assertIn(f"{name}: line 2: not JSON", error)
        self.assertIn("stored 1 task before it", error)

    def test_text_for_a_number_is_named_with_file_line_and_key(self):
        for key, value, text in (("retry_max", "3", "is not a whole number from 1 on"),
                                 ("retry_max", True, "is not a whole number from 1 on"),
                                 ("retry_max", None, "is not a whole number from 1 on"),
                                 ("delay", True, "is not a duration"),
                                 ("timeout", "3 apples", "is not a duration"),
                                 ("retention", [1], "is not a duration"),
                                 ("process_at", "3", "is not a moment"),
                                 ("deadline", {}, "is not a moment")):
            with self.subTest(key=key, value=value):
                name = self.write("in.jsonl", "\n" + self.lines({"type": "t", key: value}))
                error = self.fails(EXIT_DATA, "enqueue", "--from", name)
                self.assertIn(f'{name}: line 2: "{key}"', error)
                self.assertIn(text, error)

    def test_byte_order_mark_at_the_start_is_no_part_of_the_first_line(self):
        mark = "\ufeff"
        self.ok("enqueue", "--from", "-", stdin=mark + self.lines({"type": "t", "id": "a"}))
        self.assertEqual(self.task("a")["type"], "t")
        error = self.fails(65, "enqueue", "--from", "-",
                           stdin=self.lines({"type": "t", "id": "b"}) + mark + '{"type":"t"}')
        self.assertIn("line 2: not JSON", error)

    def test_lines_that_are_there_already_do_not_end_the_import(self):
        text = self.lines({"type": "t", "id": "a"}, {"type": "t", "id": "b"},
                          {"type": "t", "id": "a"}, {"type": "u", "unique": 60},
                          {"type": "u", "unique": 60}, {"type": "t", "id": "c"})
        result = self.quern("--json", "enqueue", "--from", "-", stdin=text)
        self.assertEqual(result.returncode, EXIT_FAILURE)
        self.assertEqual(json.loads(result.stdout),
                         {"stored": 4, "existing": 0, "duplicates": 1, "conflicts": 1})
        self.assertIn("skipped 2: 1 id already exists, 1 equal unique task exists (first: line 3)",
                      result.stderr)
        self.assertEqual(self.state("c"), "pending")
        again = self.fails(EXIT_FAILURE, "enqueue", "--from", "-", stdin='{"type":"t","id":"c"}')
        self.assertIn("skipped 1: id already exists (first: line 1)", again)
        stopped = self.fails(EXIT_DATA, "enqueue", "--from", "-", stdin='{"type":"t"}\nbad\n')
        self.assertIn("(stored 1 task before it; the rest was not read)", stopped)

    def test_interrupt_stores_what_was_read_and_reports_how_much(self):
        self.fifo("lines")
        process = self.start("enqueue", "--from", "lines")
        with open(self.path("lines"), "w", encoding="utf-8") as lines:
            lines.write('{"type":"t"}\n' * 1000)
            lines.flush()
            self.until(lambda: self.quern("queue", "list").returncode == 0 and
                            self.counts().get("pending") == 1000, "the first batch is stored")
            lines.write('{"type":"t"}\n' * 5)
            lines.flush()
            self.assertEqual(self.stop(process, signal.SIGINT), EXIT_FAILURE)
        said = self.read(process.log_name)
        stored = self.counts()["pending"]
        self.assertIn(f"interrupted after line {stored}: stored {stored} tasks; the rest was not "
                      "read", said)

    def test_empty_lines_and_a_missing_last_line_end_are_fine(self):
        self.assertEqual(self.ok("enqueue", "--from", "-", stdin='\n{"type":"t"}\n\n{"type":"t"}'),
                         "2 tasks stored")
        self.assertEqual(self.ok("enqueue", "--from", "-", stdin='{"type":"t"}'), "1 task stored")
        self.assertEqual(self.ok("enqueue", "--from", "-", stdin=""), "0 tasks stored")

    def test_missing_file_is_an_error(self):
        self.assertIn("nothing.jsonl", self.fails(EXIT_FAILURE, "enqueue", "--from",
                                                  "nothing.jsonl"))

    def test_from_refuses_what_cannot_go_with_it(self):
        self.fails(EXIT_USAGE, "enqueue", "t", "--from", "-")
        self.fails(EXIT_USAGE, "enqueue", "--id", "x", "--from", "-")


if __name__ == "__main__":
    lib_cli.main()
