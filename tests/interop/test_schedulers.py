#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Go's Inspector on the entries of quern's scheduler, and Go's schedulers beside it."""

import os
import subprocess

import lib_interop
from lib_interop import InteropTest, b64

CONF = """
[seconds]
cron = * * * * * *
type = ok
queue = reports
payload = seconds
misfire = all 100

[nightly]
cron = 30 2 * * *
zone = Europe/Berlin
type = mail:report
retry_max = 3
timeout = 90s
retention = 2d
delay = 36h
unique = 1d
"""
GO_NEVER_S = -62135596800  # time.Time{}


class SchedulersTest(InteropTest):
    """interop_scheduler has an entry of Go's five fields; the program runs with those of CONF."""

    def quern_scheduler(self, name="every-second"):
        return self.start(os.environ["INTEROP_SCHEDULER"], self.url, "reports", name)

    def quern_program(self):
        log = self.path(f"log-{len(self.processes)}")
        with open(log, "w", encoding="utf-8") as stderr:
            process = self.spawn(self.program, "schedule", "run", "--file",
                                 self.write("schedule.conf", CONF), stdout=subprocess.DEVNULL,
                                 stderr=stderr)
        self.until(lambda: "scheduler is ready" in self.read(log), "the program is ready")
        return process

    def leader_of(self, processes):
        def find():
            pid = (self.quern("schedule", "list")["leader"] or "::").split(":")[1]
            return next((process for process in processes if str(process.pid) == pid), None)
        return self.until(find, "one of them leads")

    def entries(self):
        return self.go("scheduler_entries") or []

    def events(self, entry_id):
        return self.go("scheduler_events", id=entry_id) or []

    def until_events(self, entry_id, count):
        return self.until(lambda: len(self.events(entry_id)) >= count and self.events(entry_id),
                          f"{count} events of {entry_id}")

    def test_go_lists_our_entry_and_its_history(self):
        scheduler = self.quern_scheduler()
        [entry] = self.until(self.entries, "Go lists an entry")
        self.assertEqual(entry["ID"], "{reports}:every-second")
        self.assertEqual(entry["Spec"], "CRON_TZ=Europe/Berlin * * * * *")
        self.assertEqual((entry["Type"], entry["Payload"]), ("ok", b64(b"body")))
        self.assertEqual(entry["Opts"], ['Queue("reports")', "MaxRetry(3)", "Timeout(1m30s)",
                                         "Retention(1h0m0s)"])
        events = self.until_events(entry["ID"], 2)
        # Newest first, one for each second, each with the task that is there.
        seconds = [int(event["TaskID"].rsplit("@", 1)[1]) for event in events]
        self.assertEqual(seconds, list(range(seconds[0], seconds[0] - len(seconds), -1)))
        for event in events:
            self.assertLessEqual(int(event["TaskID"].rsplit("@", 1)[1]), event["AtS"])
            info = self.go("task", queue="reports", id=event["TaskID"])
            self.assertEqual((info["state"], info["payload"]), ("pending", b64(b"body")))
        self.until(lambda: self.entries()[0]["PrevS"] >= seconds[0], "the record follows")
        [entry] = self.entries()
        self.assertEqual(entry["NextS"], entry["PrevS"] + 1)
        self.stop(scheduler)
        self.assertEqual(self.entries(), [])
        self.assertGreaterEqual(len(self.events("{reports}:every-second")), 2)
        self.assert_clean()

    def test_the_record_lives_twenty_seconds(self):
        scheduler = self.quern_scheduler()
        self.until(self.entries, "Go lists an entry")
        [key] = self.redis.do("KEYS", "asynq:schedulers:*")
        self.assertIn(self.redis.do("TTL", key), range(10, 21))  # the machine may be busy
        self.assertEqual(self.redis.do("ZRANGE", "asynq:schedulers", 0, -1), [key])
        self.stop(scheduler)
        self.assertEqual(self.redis.do("KEYS", "asynq:schedulers*"), [])

    def test_all_kinds_of_schedulers_run_beside_each_other(self):
        ours = self.quern_scheduler()
        theirs = self.start(os.environ["INTEROP_PEER"], "scheduler", self.redis.path)
        entries = self.until(lambda: len(self.entries()) == 3 and self.entries(), "three entries")
        for entry in entries:
            self.until_events(entry["ID"], 2)
        self.assertEqual(sorted(entry["Payload"] for entry in entries),
                         sorted(b64(text) for text in (b"body", b"managed", b"registered")))
        self.stop(theirs)
        [left] = self.entries()
        self.assertEqual(left["ID"], "{reports}:every-second")
        count = len(self.events(left["ID"]))
        self.until_events(left["ID"], count + 1)
        self.stop(ours)
        self.assert_clean()

    def test_go_lists_the_entries_of_the_program_beside_its_own(self):
        ours = [self.quern_program() for _ in range(2)]
        theirs = self.start(os.environ["INTEROP_PEER"], "scheduler", self.redis.path)
        self.until(lambda: len(self.entries()) == 4, "four entries")
        entries = {entry["ID"]: entry for entry in self.entries()}
        nightly = entries["{default}:nightly"]
        self.assertEqual((nightly["Spec"], nightly["Type"]),
                         ("CRON_TZ=Europe/Berlin 30 2 * * *", "mail:report"))
        self.assertEqual(nightly["Opts"],
                         ['Queue("default")', "MaxRetry(3)", "Timeout(1m30s)", "Unique(24h0m0s)",
                          "Retention(48h0m0s)", "ProcessIn(36h0m0s)"])
        [tick] = self.quern("schedule", "next", "nightly", "-n", "1")
        self.assertEqual((nightly["NextS"] * 1000, nightly["PrevS"]), (tick["at_ms"], GO_NEVER_S))
        self.assertEqual(entries["{reports}:seconds"]["Spec"], "* * * * * *")
        for name in entries.keys() - {"{default}:nightly"}:
            self.until_events(name, 2)
        leader = self.leader_of(ours)
        leader.kill()
        leader.wait()
        ours.remove(leader)
        self.leader_of(ours)
        seen = len(self.events("{reports}:seconds"))
        events = self.until_events("{reports}:seconds", seen + 2)
        ids = [event["TaskID"] for event in events]
        self.assertEqual(ids, sorted(set(ids), reverse=True))
        for task_id in ids:
            info = self.go("task", queue="reports", id=task_id)
            self.assertEqual((info["state"], info["payload"]), ("pending", b64(b"seconds")))
        self.until(lambda: len(self.entries()) == 4, "the new leader's entries, and Go's")
        self.stop(ours[0])
        self.assertEqual(len(self.entries()), 2)
        self.stop(theirs)
        self.assertEqual(self.entries(), [])
        self.assert_clean()


if __name__ == "__main__":
    lib_interop.main()
