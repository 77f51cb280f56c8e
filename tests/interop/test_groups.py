#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Groups of both: Go's servers and workers of quern aggregate each other's tasks, at once and one
after the other, and take over what a killed one has left. Each member is counted exactly once in
the tasks that were made.

A member's payload is its number. Servers of Go make tasks of the type "ok", quern's of the type
"result"; both are kept. Go's sets may be given back two minutes after they were made; the test
turns their ends back instead of waiting, when their server is dead.

asynq stores the task that it made and deletes the set in two steps; a server that is killed between
these counts members twice, whoever takes over. So its servers are killed before that, in the
aggregator.

QUERN_TEST_FULL=1: more members and more kills. QUERN_TEST_SEED=n: the same dice again."""

import json
import os
import random
import time
from collections import Counter

import lib_interop
from lib_interop import InteropTest, b64, unb64
from lib_quern import FULL, PATIENCE_S

KILLS = 40 if FULL else 1  # of each kind
MEMBERS = 30 if FULL else 8  # for each kill
GROUPS = ("a", "b:1", "ü")
SETS = "asynq:{default}:aggregation_sets"
NAMES = "asynq:{default}:groups"


class GroupsTest(InteropTest):
    def setUp(self):
        super().setUp()
        self.members = 0

    # --- Members ---------------------------------------------------------------------------

    def put(self, client, count, groups=GROUPS, **options):
        """New members, one by one of the groups in turn."""
        numbers = range(self.members, self.members + count)
        self.members += count
        tasks = [{"type": "part", "payload": str(number).encode(),
                  "group": groups[number % len(groups)], **options} for number in numbers]
        if client == "go":
            for task in tasks:
                self.go("enqueue", task={**task, "payload": b64(task["payload"])})
            return
        lines = "".join(json.dumps(lib_interop.import_line(task)) + "\n" for task in tasks)
        result = self.quern_result("enqueue", "--from", "-", stdin=lines.encode())
        self.assertEqual(result.returncode, 0, result.stderr.decode())

    def sums(self):
        """What was made: (who, group, members) of each task."""
        found = []
        for page in range(1, 1 + self.go("queue", queue="default")["Completed"] // 1000 + 1):
            for info in self.go("list", queue="default", state="completed", page=page, size=1000):
                group, _, members = unb64(info["payload"]).decode().rpartition("=")
                found.append(("go" if info["type"] == "ok" else "quern", group,
                              [int(member) for member in members.split("+")]))
        return found

    def counted(self):
        return Counter(member for _, _, members in self.sums() for member in members)

    def until_counted(self):
        self.until(lambda: self.counted().total() >= self.members, "all are counted")
        self.until(lambda: self.redis.do("ZCARD", SETS) == 0, "no set is left")

    def assert_each_once(self, groups=GROUPS):
        """Each member is in one task, of its own group, and nothing is left of any group."""
        counted = self.counted()
        self.assertEqual({number: counted[number] for number in range(self.members)
                          if counted[number] != 1}, {})
        self.assertEqual(counted.total(), self.members)
        for _, group, members in self.sums():
            self.assertEqual({groups[member % len(groups)] for member in members}, {group})
        self.assertEqual(self.redis.do("KEYS", "asynq:{default}:g:*"), [])
        info = self.go("queue", queue="default")
        self.assertEqual((info["Size"], info["Aggregating"]), (info["Completed"], 0))
        self.assert_clean()

    # --- Aggregators -----------------------------------------------------------------------

    def go_aggregator(self, size=0, delay_ms=0, die_in_call=0):
        return self.go_server(grace_ms=1000, size=size, delay_ms=delay_ms, keep_ms=3600000,
                              die_in_call=die_in_call)

    def quern_aggregator(self, *rules, lease_ms=30000, step="never", call=1):
        return self.start(os.environ["INTEROP_AGGREGATOR"], self.url, str(lease_ms), "default",
                          step, str(call), *(rules or ("*=1000,0,0",)))

    def turn_back_sets(self):
        """Their ends are over, and so are those of runs, as if as much time had passed. Gives how
        many sets there are."""
        self.age_leases()
        sets = self.redis.do("ZRANGE", SETS, 0, -1)
        for key in sets:
            self.redis.do("ZADD", SETS, "XX", int(time.time()) - 1, key)
        return len(sets)

    def until_dead(self, process):
        """It has killed itself in its aggregator, with a set."""
        self.assertEqual(process.wait(PATIENCE_S), -9)

    # --- Tests -----------------------------------------------------------------------------

    def test_quern_aggregates_the_groups_of_go_by_their_patterns(self):
        groups = ("digest", "mail:1")
        self.put("go", 14, groups, unique_ms=3600000)
        self.assertEqual(len(self.redis.do("KEYS", "*:unique:*")), 14)
        worker = self.quern_aggregator("mail:=60000,0,3", "*=1000,0,0")
        # Of mail:1 full sets only.
        self.until(lambda: self.counted().total() == 13, "all but one")
        self.assertEqual(sorted((group, len(members)) for _, group, members in self.sums()),
                         [("digest", 7), ("mail:1", 3), ("mail:1", 3)])
        self.assertEqual(self.go("groups", queue="default"), [{"Group": "mail:1", "Size": 1}])
        # The locks of members end with them.
        self.assertEqual(len(self.redis.do("KEYS", "*:unique:*")), 1)
        self.put("go", 4, groups)
        self.until_counted()
        self.assert_each_once(groups)
        self.stop(worker)

    def test_go_aggregates_the_groups_of_quern(self):
        """Also members that are unique, and those that wait for a moment first: a worker of quern
        that aggregates nothing names their groups, which Go forgets."""
        self.put("quern", 6, unique_ms=3600000)
        self.put("quern", 6, process_in_ms=300)
        worker = self.quern_worker()
        server = self.go_aggregator(size=4)
        self.until_counted()
        self.assertEqual({who for who, _, _ in self.sums()}, {"go"})
        self.assert_each_once()
        self.stop(server)
        self.stop(worker)

    def test_both_aggregate_the_same_groups_at_once(self):
        server = self.go_aggregator(size=2)
        worker = self.quern_aggregator("*=1000,0,5")
        ends = time.monotonic() + PATIENCE_S
        makers = set()
        # Go looks once a second, and takes one set of each group.
        while makers != {"go", "quern"} or self.members < 10 * MEMBERS:
            self.assertLess(time.monotonic(), ends)
            self.put("go", MEMBERS // 2)
            self.put("quern", MEMBERS // 2)
            makers = {who for who, _, _ in self.sums()}
        self.until_counted()
        self.assert_each_once()
        self.stop(worker)
        self.stop(server)

    def kill_in_turn(self, dice, kills):
        """Each kind dies with a set, and with one that it has taken over from the other."""
        for _ in range(kills):
            for start in dice.sample((self.die_as_go, self.die_as_quern), 2):
                self.put("go", MEMBERS // 2)
                self.put("quern", MEMBERS // 2)
                start(dice)
                self.assertGreater(self.turn_back_sets(), 0)

    def die_as_go(self, dice):
        self.until_dead(self.go_aggregator(size=4, die_in_call=dice.randint(1, 2)))

    def die_as_quern(self, dice):
        self.until_dead(self.quern_aggregator("*=1000,0,4", step="before", call=dice.randint(1, 2)))

    def dice(self):
        seed = int(os.environ.get("QUERN_TEST_SEED") or random.randrange(1 << 30))
        print(f"QUERN_TEST_SEED={seed}", flush=True)
        return random.Random(seed)

    def test_go_takes_over_what_killed_ones_have_left(self):
        self.kill_in_turn(self.dice(), KILLS)
        self.die_as_quern_with_everything()
        server = self.go_aggregator()
        self.until_counted()
        self.assert_each_once()
        self.stop(server)

    def test_quern_takes_over_what_killed_ones_have_left(self):
        self.kill_in_turn(self.dice(), KILLS - 1)
        self.die_as_quern_after_it_has_stored()
        self.until_dead(self.go_aggregator(die_in_call=1))
        self.turn_back_sets()
        worker = self.quern_aggregator()
        self.until_counted()
        self.assert_each_once()
        self.stop(worker)

    def die_as_quern_with_everything(self):
        """Its set is all that its group had: the name of the group has to stay. Each group gets a
        member, as a Go server that died with all of one has unlisted it."""
        self.put("go", len(GROUPS))
        self.until_dead(self.quern_aggregator(step="before"))
        self.assertGreater(self.turn_back_sets(), 0)

    def die_as_quern_after_it_has_stored(self):
        self.put("go", MEMBERS)
        before = len(self.sums())
        self.until_dead(self.quern_aggregator(step="after"))
        self.assertGreaterEqual(self.redis.do("ZCARD", "asynq:{default}:completed") +
                                self.redis.do("LLEN", "asynq:{default}:pending") +
                                self.redis.do("LLEN", "asynq:{default}:active"), before)


if __name__ == "__main__":
    lib_interop.main()
