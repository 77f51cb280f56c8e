#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work --aggregate: commands that make one task of the members of a group."""

import json
import os

from lib_cli import CliTest, EXIT_USAGE, main

JOIN = """cat > {0}; python3 -c 'import json, sys
print(*(json.loads(line)["payload"] for line in open(sys.argv[1])), end="")' {0}"""


class AggregateTest(CliTest):
    def put(self, group, payload, *options, kind="note"):
        return self.enqueue(kind, payload, "--group", group, *options)

    def put_many(self, group, count):
        lines = "".join(json.dumps({"type": "note", "group": group, "payload": str(i)}) + "\n"
                        for i in range(count))
        self.ok("enqueue", "--from", "-", stdin=lines)

    def aggregate(self, command, *options, kind="note"):
        """Runs a worker until nothing is left; returns its stderr."""
        runs = f"{kind}=cat >> {self.path('ran')}; echo >> {self.path('ran')}"
        result = self.quern("work", "--drain", "--exec", runs, "--aggregate", command,
                            "--group-grace", "1s", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def ran(self):
        return self.read(self.path("ran")).splitlines()

    def start_one(self, command, *options):
        return self.start("work", "--exec", "note=true", "--aggregate", command,
                          "--group-max-size", "1", *options)

    def test_one_member_and_twelve(self):
        self.put("one", "alone")
        for i in range(12):
            self.put("mail:ann", str(i))
        self.aggregate("*=" + JOIN.format(self.path("lines")))
        self.assertEqual(sorted(self.ran()), ["0 1 2 3 4 5 6 7 8 9 10 11", "alone"])
        self.assertEqual(sum(self.counts().values()), 0)

    def test_worker_without_exec_aggregates_and_takes_no_tasks(self):
        other = self.enqueue("other")
        self.enqueue("note", "1", "--group", "g", "--delay", "1h")
        self.put("g", "2")
        result = self.quern("work", "--aggregate", "g=cat", "--group-max-size", "1", "--until-idle")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("types=none, groups only", result.stderr.replace('"', ""))
        counts = self.counts()
        self.assertEqual(counts["pending"], 2)  # the other one, and the one that was made
        self.assertEqual(counts["active"] + counts["retry"] + counts["aggregating"], 0)
        self.assertEqual(self.json("task", "inspect", other)["state"], "pending")
        worker = self.start("work", "--aggregate", "g=cat", "--group-max-size", "1")
        self.until(lambda: "worker serves" in self.read(worker.log_name), "it serves")
        because = self.json("task", "inspect", other)["waits_because"]
        self.assertEqual(because, "no live worker of queue default serves type other")
        self.assertEqual(self.stop(worker), 0)
        self.assertIn("--exec", self.fails(EXIT_USAGE, "work", "--drain"))

    def test_five_thousand_members_are_several_sets(self):
        self.put_many("many", 5000)
        self.aggregate("many=" + JOIN.format(self.path("lines")))
        numbers = [int(word) for line in self.ran() for word in line.split()]
        self.assertEqual(sorted(numbers), list(range(5000)))
        self.assertGreaterEqual(len(self.ran()), 5)

    def test_settings_may_be_those_of_one_pattern(self):
        for number in range(2):
            self.put("mail:ann", str(number))
            self.put("other", str(number), "--id", f"other{number}")
        worker = self.start("work", "--exec", "*=true", "--aggregate", "mail:=cat >>mails",
                            "--aggregate", "*=false", "--group-max-size", "3",
                            "--group-max-size", "mail:=1", "--group-grace", "1h")
        self.until(lambda: self.read("mails").count("\n") == 2, "each mail alone")
        self.until(lambda: self.counts()["aggregating"] == 2, "the others wait")
        self.put("other", "2", "--id", "other2")
        self.until(lambda: "aggregator failed" in self.read(worker.log_name), "three are enough")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.counts()["aggregating"], 3)

    def test_command_knows_its_group_and_the_type_can_be_given(self):
        self.put("g", "x", kind="a")
        self.put("g", "y", kind="b")
        self.aggregate('g=echo "$QUERN_QUEUE $QUERN_GROUP $QUERN_AGGREGATE_COUNT"',
                       "--aggregate-type", "g=sum", kind="sum")
        self.assertEqual(self.ran(), ["default g 2", ""])

    def test_members_are_lines_with_id_type_payload_and_headers(self):
        self.enqueue("note", "-", "--group", "g", "--header", "lang=de", stdin="\udcff\0\n")
        self.put("g", "two\nlines", "--id", "second")
        self.aggregate(f"g=cat > {self.path('seen')}")
        first, second = [json.loads(line) for line in self.read(self.path("seen")).splitlines()]
        self.assertEqual((first["type"], first["payload_base64"]), ("note", "/wAK"))
        self.assertEqual(first["headers"], {"lang": "de"})
        self.assertEqual((second["id"], second["payload"]), ("second", "two\nlines"))
        self.assertEqual(self.ran(), [""])  # no output is an empty payload

    def test_after_a_failure_the_members_are_back(self):
        for command, words in (("exit 3", "exit status 3"),
                               ("echo unlucky >&2; exit 65", "exit status 65: unlucky"),
                               ("kill -9 $$", "killed by signal 9")):
            task_id = self.put("g", "x")
            worker = self.start_one("g=" + command)
            self.until(lambda p=worker: "aggregator failed" in self.read(p.log_name), command)
            self.assertIn(words, self.read(worker.log_name))
            self.assertEqual(self.stop(worker), 0)
            task = self.task(task_id)
            self.assertEqual(task["state"], "aggregating")
            self.assertIn("it waits in group g until", task["waits_because"])
            self.assertIn("quern work --aggregate", task["what_to_do"])
            self.ok("task", "delete", task_id)

    def test_members_of_several_types_need_a_type(self):
        self.put("g", "x", kind="a")
        self.put("g", "y", kind="b")
        worker = self.start("work", "--exec", "*=true", "--aggregate", "g=cat",
                            "--group-max-size", "2")
        self.until(lambda: "give --aggregate-type" in self.read(worker.log_name), "the advice")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.counts()["aggregating"], 2)

    def test_command_that_runs_is_ended_at_shutdown(self):
        self.fifo("gate")
        task_id = self.put("g", "x")
        worker = self.start_one(f"g=echo > {self.path('begun')}; cat {self.path('gate')}",
                                "--shutdown-timeout", "100ms")
        self.until(lambda: os.path.exists(self.path("begun")), "the command runs")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.state(task_id), "aggregating")

    def test_groups_without_a_command_are_named(self):
        self.put("mine", "x")
        self.put("other", "y")
        worker = self.start_one("mine=true")
        self.until(lambda: "no aggregator here serves this group" in self.read(worker.log_name),
                   "the warning")
        self.until(lambda: self.counts()["aggregating"] == 1, "mine is aggregated")
        self.assertEqual(self.stop(worker), 0)
        self.assertNotIn("group=mine", self.read(worker.log_name))

    def test_wrong_options_are_refused(self):
        for words in (("--aggregate", "g"), ("--aggregate", "g="), ("--aggregate", "=true"),
                      ("--group-grace", "1s"), ("--aggregate", "g=true", "--group-grace", "h=1s"),
                      ("--aggregate", "g=true", "--group-grace", "1ms"),
                      ("--aggregate", "g=true", "--group-grace", "0"),
                      ("--aggregate", "g=true", "--group-max-delay", "soon"),
                      ("--aggregate", "g=true", "--group-max-delay", "0"),
                      ("--aggregate", "g=true", "--group-max-size", "1001"),
                      ("--aggregate", "g=true", "--aggregate", "g=false")):
            self.fails(EXIT_USAGE, "work", "--exec", "*=true", *words)


if __name__ == "__main__":
    main()
