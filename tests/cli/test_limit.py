#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Limits: setting, listing, removing them, and what a worker makes of them."""

import json
import os
import time

import lib_cli
import lib_quern
from lib_cli import CliTest, EXIT_DATA, EXIT_FAILURE, EXIT_USAGE


class LimitTest(CliTest):
    def test_limits_are_set_listed_and_removed(self):
        self.assertIn("10", self.ok("limit", "set", "mail", "10"))
        self.ok("limit", "set", "mail", "100/m")
        self.ok("limit", "set", "mail", "100/1m burst 20", "--type", "mail:digest")
        self.ok("limit", "set", "mail", "3", "--key", "*")
        self.ok("limit", "set", "other", "1")
        self.assertEqual(
            self.json("limit", "set", "mail", "4", "--key", "*"),
            {"queue": "mail", "scope": "key", "name": "*", "limit": "4", "count": 4,
             "period_ms": 0, "burst": 0})
        limits = self.json("limit", "list", "mail")
        self.assertEqual([(one["scope"], one.get("name"), one["limit"]) for one in limits],
                         [("queue", None, "10"), ("queue", None, "100/1m"),
                          ("type", "mail:digest", "100/1m burst 20"), ("key", "*", "4")])
        self.assertEqual(len(self.json("limit", "list")), 5)
        table = self.ok("limit", "list").splitlines()
        self.assertEqual(table[0].split(), ["QUEUE", "SCOPE", "NAME", "LIMIT", "USED"])
        self.assertEqual(len(table), 6)
        self.assertRegex(table[4], r"^mail +key +\* +4 +each$")
        self.assertEqual([one["used"] for one in limits], [0, 0, 0, None])
        self.assertEqual(self.ok("limit", "remove", "mail"), "limit of queue mail removed")
        self.assertEqual(self.ok("limit", "remove", "mail", "--key", "*"),
                         "limit of key * in queue mail removed")
        self.assertEqual([one["scope"] for one in self.json("limit", "list", "mail")], ["type"])
        self.fails(EXIT_FAILURE, "limit", "remove", "mail")
        self.assertEqual(self.json("limit", "list", "none"), [])

    def test_wrong_limits_are_refused(self):
        for text in ("x", "-1", "10/", "10/0s", "10 burst 5", "10/s burst 0"):
            self.fails(EXIT_USAGE, "limit", "set", "mail", "--", text)
        self.fails(EXIT_USAGE, "limit", "set", "mail", "1", "--key", "a", "--type", "b")
        self.fails(EXIT_DATA, "limit", "set", "mail", "1", "--key", "")

    def test_limits_of_all_queues_are_set_listed_and_removed(self):
        self.assertEqual(
            self.json("limit", "set", "--all-queues", "5", "--type", "mail:digest"),
            {"queue": "{all}", "scope": "type", "name": "mail:digest", "limit": "5", "count": 5,
             "period_ms": 0, "burst": 0})
        self.ok("limit", "set", "100/s", "--all-queues")
        self.ok("limit", "set", "*", "3")  # a queue may have this name
        self.ok("limit", "set", "mail", "7")
        self.assertEqual([(one["queue"], one["limit"]) for one in self.json("limit", "list")],
                         [("{all}", "100/1s"), ("{all}", "5"), ("*", "3"), ("mail", "7")])
        self.assertEqual([one["limit"] for one in self.json("limit", "list", "--all-queues")],
                         ["100/1s", "5"])
        self.assertIn("{all}", self.ok("limit", "list"))
        self.assertEqual(self.ok("limit", "remove", "--all-queues", "--type", "mail:digest"),
                         "limit of type mail:digest in all queues removed")
        self.assertEqual(self.json("limit", "remove", "{all}"),
                         {"queue": "{all}", "scope": "queue", "done": "removed"})
        self.fails(EXIT_FAILURE, "limit", "remove", "--all-queues")
        self.assertEqual(self.json("limit", "list", "--all-queues"), [])

    def test_a_list_or_a_pattern_of_queues_is_a_warning_unless_a_queue_is_named_so(self):
        self.ok("limit", "set", "mail", "5")
        for args in (["limit", "set", "*", "5"], ["limit", "set", "a,b", "5"],
                     ["queue", "set", "mail*", "--max-pending", "5"]):
            warned, again = self.quern(*args), self.quern(*args)
            self.assertEqual((warned.returncode, again.returncode, again.stderr), (0, 0, ""))
            self.assertIn(f"this makes a queue with the name '{args[2]}'", warned.stderr)
            self.assertIn("all-queues" if args[0] == "limit" else "by itself", warned.stderr)

    def test_queue_and_all_queues_exclude_each_other(self):
        for words in (("set", "mail", "5", "--all-queues"), ("remove", "mail", "--all-queues"),
                      ("list", "mail", "--all-queues"), ("set", "5"), ("remove",)):
            self.fails(EXIT_USAGE, "limit", *words)
        self.fails(EXIT_DATA, "limit", "set", "{al}", "5")

    def test_semaphores_are_set_listed_and_removed(self):
        self.assertEqual(
            self.json("limit", "set", "mail", "5", "--semaphore", "smtp"),
            {"queue": "mail", "scope": "semaphore", "name": "smtp", "limit": "5", "count": 5,
             "period_ms": 0, "burst": 0})
        self.ok("limit", "set", "bulk", "3", "--semaphore", "smtp")
        self.ok("limit", "set", "bulk", "2", "--semaphore", "*")
        self.assertEqual([(one["queue"], one["name"], one["limit"])
                          for one in self.json("limit", "list")],
                         [("bulk", "*", "2"), ("bulk", "smtp", "3"), ("mail", "smtp", "5")])
        self.assertEqual([line.split() for line in self.ok("limit", "list", "bulk").splitlines()],
                         [["QUEUE", "SCOPE", "NAME", "LIMIT", "USED"],
                          ["bulk", "semaphore", "*", "2", "0"],
                          ["bulk", "semaphore", "smtp", "3", "0"]])
        self.ok("limit", "remove", "bulk", "--semaphore", "*")
        self.ok("limit", "remove", "bulk", "--semaphore", "smtp")
        self.assertEqual(self.json("limit", "list", "bulk"), [])

    def test_semaphores_are_for_queues(self):
        for words in (("mail", "5", "--semaphore", "s", "--key", "k"),
                      ("5", "--semaphore", "s", "--all-queues")):
            self.fails(EXIT_USAGE, "limit", "set", *words)
        self.fails(EXIT_DATA, "limit", "set", "mail", "5/s", "--semaphore", "s")
        self.fails(EXIT_FAILURE, "limit", "remove", "mail", "--semaphore", "s")

    def check_workers_share(self, *limits):
        log = self.path("log")
        for words in limits:
            self.ok("limit", "set", *words)
        for queue in ("a", "b"):
            self.ok("enqueue", "--queue", queue, "--from", "-", stdin='{"type":"t"}\n' * 6)
        command = f"t=echo + >>{log}; sleep 0.05; echo - >>{log}"
        other = self.start("work", "--queue", "a", "--exec", command, "--concurrency", "8",
                           "--drain")
        self.ok("work", "--queue", "b", "--exec", command, "--concurrency", "8", "--drain")
        self.assertEqual(other.wait(), 0)
        running = most = started = 0
        for line in self.read("log").split():
            running += 1 if line == "+" else -1
            started += line == "+"
            most = max(most, running)
        self.assertEqual((started, running), (12, 0))
        self.assertLessEqual(most, 2)

    def test_workers_of_two_queues_share_a_limit(self):
        self.check_workers_share(("--all-queues", "2"))

    def test_workers_of_two_queues_share_a_limit_of_a_type(self):
        self.check_workers_share(("--all-queues", "2", "--type", "t"))

    def test_workers_of_two_queues_share_a_semaphore(self):
        self.check_workers_share(("a", "2", "--semaphore", "s"), ("b", "2", "--semaphore", "s"))

    def test_inspect_shows_the_semaphore_that_a_task_waits_for(self):
        self.fifo("end")
        self.ok("limit", "set", "a", "1", "--semaphore", "s")
        self.ok("limit", "set", "b", "1", "--semaphore", "s")
        held = self.enqueue("t", "--queue", "a")
        self.start("work", "--queue", "a", "--exec", "t=read x < end")
        self.wait_state(held, "active")
        self.start("work", "--queue", "b", "--queue", "c", "--exec", "t=true")
        waiting = self.enqueue("t", "--queue", "b")
        self.wait_state(self.enqueue("t", "--queue", "c"), "gone")
        task = self.json("task", "inspect", waiting)
        self.assertEqual(task["state"], "pending")
        self.assertEqual(task["waits_because"], "the limit 1 of semaphore s is used up")
        self.assertEqual(task["what_to_do"],
                         "nothing, or raise it: quern limit set b LIMIT --semaphore 's'")
        with open(self.path("end"), "w", encoding="ascii") as file:
            file.write("go\n")
        self.wait_state(waiting, "gone")

    def test_key_of_a_task_is_shown_and_imported(self):
        one = self.enqueue("t", "--limit-key", "acme")
        self.assertEqual(self.json("task", "inspect", one)["limit_key"], "acme")
        self.assertRegex(self.ok("task", "inspect", one), r"limit key: +acme")
        self.ok("enqueue", "--from", "-", stdin='{"type":"t","id":"two","limit_key":"k"}\n')
        self.assertEqual(self.json("task", "inspect", "two")["limit_key"], "k")

    def test_worker_runs_no_more_at_a_time_than_the_limit_and_all_in_the_end(self):
        log = self.path("log")
        self.ok("limit", "set", "default", "2", "--key", "*")
        lines = [json.dumps({"type": "t", "limit_key": "ab"[i % 2]}) for i in range(12)]
        self.ok("enqueue", "--from", "-", stdin="\n".join(lines) + "\n")
        command = f"t=echo + >>{log}; sleep 0.05; echo - >>{log}"
        self.ok("work", "--exec", command, "--concurrency", "8", "--drain")
        running = most = started = 0
        for line in self.read("log").split():
            running += 1 if line == "+" else -1
            started += line == "+"
            most = max(most, running)
        self.assertEqual((started, running), (12, 0))
        self.assertLessEqual(most, 4)

    def test_worker_until_idle_waits_for_a_limit_and_runs_the_others_in_its_only_slot(self):
        self.ok("limit", "set", "default", "0", "--type", "held")
        held = self.enqueue("held")
        self.enqueue("free")
        worker = self.start("work", "--exec", "*=echo $QUERN_TASK_TYPE >>ran", "--concurrency", "1",
                            "--until-idle")
        self.until(lambda: self.read("ran") == "free\n", "the other one has run")
        self.until(lambda: self.counts()["active"] == 0, "it is reported")
        self.assertIn("limit", self.json("task", "inspect", held)["waits_because"])
        self.ok("limit", "set", "default", "1", "--type", "held")
        self.assertEqual(worker.wait(lib_quern.PATIENCE_S), 0)
        self.assertEqual(self.read("ran"), "free\nheld\n")
        self.assertEqual(sum(self.counts().values()), 0)

    def test_inspect_shows_the_limit_that_a_task_waits_for(self):
        self.fifo("never")
        self.ok("limit", "set", "default", "1", "--type", "t")
        first = self.enqueue("t")
        self.start("work", "--exec", "t=read x < never", "--concurrency", "2")
        self.wait_state(first, "active")
        waiting = self.json("task", "inspect", self.enqueue("t"))
        self.assertEqual(waiting["waits_because"], "the limit 1 of type t is used up")
        self.assertEqual(waiting["what_to_do"],
                         "nothing, or raise it: quern limit set default LIMIT --type 't'")
        self.ok("limit", "remove", "default", "--type", "t")
        self.wait_state(waiting["id"], "active")
        busy = self.json("task", "inspect", self.enqueue("t"))
        self.assertIn("all slots", busy["waits_because"])
        self.ok("limit", "set", "default", "0")
        self.assertEqual(self.json("task", "inspect", busy["id"])["waits_because"],
                         "the limit 0 of queue default is used up")

    def test_inspect_shows_the_limit_of_all_queues_that_a_task_waits_for(self):
        self.start("work", "--exec", "t=true", "--concurrency", "2")
        self.wait_state(self.enqueue("t"), "gone")
        self.ok("limit", "set", "--all-queues", "0", "--type", "t")
        waiting = busy = self.json("task", "inspect", self.enqueue("t"))
        self.assertEqual(waiting["waits_because"],
                         "the limit 0 of type t in all queues is used up")
        self.assertIn("quern limit set --all-queues LIMIT --type 't'", waiting["what_to_do"])
        self.ok("limit", "set", "--all-queues", "0")
        self.assertEqual(self.json("task", "inspect", busy["id"])["waits_because"],
                         "the limit 0 of all queues is used up")

    def test_inspect_shows_a_limit_of_each_key_unless_the_key_has_its_own(self):
        self.ok("limit", "set", "default", "0", "--key", "*")
        self.ok("limit", "set", "default", "5", "--key", "own")
        each = self.enqueue("t", "--limit-key", "other")
        own = self.enqueue("t", "--limit-key", "own")
        none = self.enqueue("t")
        self.start("work", "--exec", "t=true", "--concurrency", "2")
        self.wait_state(own, "gone")
        self.wait_state(none, "gone")
        task = self.json("task", "inspect", each)
        self.assertEqual(task["waits_because"],
                         "the limit 0 of each key in queue default is used up")
        self.assertIn("quern limit set default LIMIT --key '*'", task["what_to_do"])

    def test_rate_holds_over_two_workers(self):
        log = self.path("log")
        self.ok("limit", "set", "default", "5/1s")
        self.ok("enqueue", "--from", "-", stdin='{"type":"t"}\n' * 11)
        started = time.monotonic()
        command = f"t=echo + >>{log}"
        other = self.start("work", "--exec", command, "--drain")
        self.ok("work", "--exec", command, "--drain")
        self.assertEqual(other.wait(), 0)
        self.assertEqual(self.read("log").split(), ["+"] * 11)
        self.assertGreaterEqual(time.monotonic() - started, 2)


if __name__ == "__main__":
    lib_cli.main()
