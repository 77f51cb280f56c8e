#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern watch: what becomes of tasks, live, as lines and as JSON, also where a worker is killed."""

import json
import signal

import lib_cli
from lib_cli import CliTest, EXIT_BROKER, EXIT_USAGE, only


class WatchTest(CliTest):
    def watch(self, *args):
        """Starts it, and waits until it knows what there is."""
        self.enqueue("none", "--queue", "other", "--delay", "1d")  # so that there is a broker
        self.lines = self.path("lines")
        with open(self.lines, "w", encoding="utf-8") as out:
            with open(self.path("notes"), "w", encoding="utf-8") as notes:
                process = self.spawn(self.program, "watch", "--interval", "100ms", *args,
                                     stdout=out, stderr=notes)
        self.until(lambda: "between two looks" in self.read("notes"), "it watches")
        return process

    def documents(self):
        """All lines so far, without one that is being written."""
        whole, _, _ = self.read("lines").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def events(self, task_id):
        """The steps of a task."""
        return [(document["from"], document["to"]) for document in self.documents()
                if document.get("id") == task_id]

    def causes(self, task_id):
        return [document["cause"] for document in self.documents()
                if document.get("id") == task_id]

    def wait_event(self, task_id, step):
        self.until(lambda: step in self.events(task_id), f"{task_id}: {step}")

    def test_life_of_a_task(self):
        self.enqueue("t", "--id", "old")
        self.watch("--json")
        self.fifo("held-a")
        self.fifo("held-old")
        self.enqueue("t", "--id", "a", "--retention", "1h")
        self.wait_event("a", ("", "pending"))
        worker = self.start("work", "--exec", "t=cat held-$QUERN_TASK_ID", "--concurrency", "2")
        self.wait_event("a", ("pending", "active"))
        self.wait_event("old", ("pending", "active"))
        for name in ("a", "old"):
            with open(self.path(f"held-{name}"), "w", encoding="ascii"):
                pass
        self.wait_event("a", ("active", "completed"))
        self.wait_event("old", ("active", "gone"))
        self.assertEqual(self.events("a"), [("", "pending"), ("pending", "active"),
                                            ("active", "completed")])
        self.assertEqual(self.events("old"), [("pending", "active"), ("active", "gone")])
        self.assertEqual(self.stop(worker), 0)

    def test_failure_as_text_and_only_what_matches(self):
        self.watch("--match", "type = bad")
        self.enqueue("good", "--id", "g", "--retention", "1h")
        self.enqueue("bad", "--id", "b", "--retry", "never")
        self.until(lambda: " b bad pending" in self.read("lines"), "it is there")
        self.drain("bad=echo no route >&2; exit 1", "good=true")
        self.until(lambda: "no route" in self.read("lines"), "it has failed")
        line = self.read("lines").splitlines()[-1]
        self.assertRegex(line, r"^\S+Z default b bad \w+ -> archived: ")
        self.assertIn("no route", line)
        self.assertNotIn(" g ", self.read("lines"))

    def test_killed_worker(self):
        self.watch("--json")
        self.fifo("held")
        self.enqueue("t", "--id", "a")
        self.wait_event("a", ("", "pending"))
        first = self.start("work", "--exec", "t=cat held")
        self.wait_event("a", ("pending", "active"))
        self.stop(first, signal.SIGKILL)
        second = self.start("work", "--exec", "t=cat held")
        self.until(lambda: "worker died" in self.causes("a"), "it came back")
        self.until(lambda: self.state("a") == "active", "it runs again")
        with open(self.path("held"), "w", encoding="ascii"):
            pass
        self.wait_event("a", ("active", "gone"))
        self.assertEqual(self.stop(second), 0)

    def test_ends_that_are_not_seen_are_counted(self):
        self.watch("--json")
        self.enqueue("--from", "-", stdin='{"type":"t"}\n' * 50)
        self.drain("t=true", options=["--concurrency", "8"])
        self.until(lambda: self.ends() >= 50, "all ends were seen or counted")

    def ends(self):
        return sum(document.get("missed", 1 if document.get("to") == "gone" else 0)
                   for document in self.documents())

    @only("redis")
    def test_server_that_is_away_for_a_while(self):
        self.watch("--json")
        self.redis.do("CLIENT", "PAUSE", "100", "ALL")
        self.redis.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.enqueue("t", "--id", "a")
        self.wait_event("a", ("", "pending"))

    @only("sqlite")
    def test_what_is_refused(self):
        self.fails(EXIT_BROKER, "watch")
        self.enqueue("t")
        self.assertIn("no field 'typ'",
                      self.fails(EXIT_USAGE, "watch", "--match", "typ = a"))
        self.fails(EXIT_USAGE, "watch", "--interval", "100d")  # poll counts in an int


if __name__ == "__main__":
    lib_cli.main()
