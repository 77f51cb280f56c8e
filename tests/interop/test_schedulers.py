#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Go's Inspector on the entries of quern's scheduler, and Go's schedulers beside it."""

import os

import lib_interop
from lib_interop import InteropTest, b64


class SchedulersTest(InteropTest):
    def quern_scheduler(self, name="every-second"):
        return self.start(os.environ["INTEROP_SCHEDULER"], self.url, "reports", name)

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
        self.assertIn(self.redis.do("TTL", key), (19, 20))
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


if __name__ == "__main__":
    lib_interop.main()
