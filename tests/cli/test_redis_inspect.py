#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reading the data of Go programs in Redis, and acting on it: tasks with none of our fields,
damaged ones, queues with many of them, and users who may only look."""

import json
import os
import re
import select
import socket
import threading
import time

import lib_cli
import lib_redis
from lib_cli import CliTest, EXIT_BROKER, EXIT_DATA, EXIT_FAILURE, PATIENCE_S
from lib_quern import FULL

Q = "asynq:{default}:"


class InspectTest(CliTest):
    def setUp(self):
        super().setUp()
        self.redis = lib_cli.the_server()
        self.redis.do("FLUSHALL")
        self.broker = self.redis.url()
        self.env["QUERN_BROKER"] = self.broker
        self.now = int(time.time())

    def put(self, task_id, state, after=0, **more):
        self.redis.go_put(task_id, state, self.now + after, **more)

    def ids(self, *args, **kwargs):
        return [task["id"] for task in self.json("task", "list", *args, **kwargs)]

    def put_all_states(self):
        self.put("pending", "pending", -10)
        self.put("active", "active", 20)
        self.put("scheduled", "scheduled", 100)
        self.put("retry", "retry", 200, retried=2, error_msg="no route", last_failed_at=self.now)
        self.put("archived", "archived", -50, error_msg="gave up")
        self.put("completed", "completed", 300, retention=310, completed_at=self.now - 10,
                 fields={"result": b"\x00ok"})
        self.put("grouped", "aggregating", -5, fields={"group": "g"}, group_key="g")


class GoTaskTest(InspectTest):
    def test_every_state_is_shown(self):
        self.put_all_states()
        self.assertEqual(self.ids(), ["active", "pending", "scheduled", "retry", "archived",
                                      "completed", "grouped"])
        info = self.json("queue", "inspect", "default")
        self.assertEqual(set(info["counts"].values()), {1})
        self.assertEqual((info["size"], info["group_count"]), (7, 1))
        self.assertGreaterEqual(info["latency_ms"], 10000)
        self.assertGreater(info["memory_bytes"], 7 * 64)

    def test_moments_are_those_of_the_scores(self):
        self.put_all_states()
        tasks = {task["id"]: task for task in self.json("task", "list")}
        moments = {name: {key: task[key] // 1000 - self.now
                          for key in ("due_at_ms", "archived_at_ms", "expires_at_ms",
                                      "grouped_at_ms") if task[key] is not None}
                   for name, task in tasks.items()}
        self.assertEqual(moments, {
            "pending": {}, "active": {}, "scheduled": {"due_at_ms": 100},
            "retry": {"due_at_ms": 200}, "archived": {"archived_at_ms": -50},
            "completed": {"expires_at_ms": 300}, "grouped": {"grouped_at_ms": -5}})
        self.assertEqual(tasks["pending"]["enqueued_at_ms"], (self.now - 10) * 1000)
        self.assertEqual(tasks["completed"]["completed_at_ms"], (self.now - 10) * 1000)
        self.assertEqual(tasks["retry"]["failed_at_ms"], self.now * 1000)
        self.assertEqual((tasks["retry"]["retry_count"], tasks["retry"]["error"]), (2, "no route"))
        self.assertEqual(tasks["pending"]["timeout_ms"], 1800000)
        self.assertEqual((tasks["active"]["worker"], tasks["active"]["fence"]), ("", 0))

    def test_a_lease_that_is_over_or_missing_makes_an_orphan(self):
        self.put("held", "active", 20)
        self.put("over", "active", -1)
        self.put("lost", "active", 20)
        self.redis.do("ZREM", Q + "lease", "lost")
        tasks = self.json("task", "list")
        self.assertEqual([(task["id"], task["orphaned"]) for task in tasks],
                         [("held", False), ("over", True), ("lost", True)])

    def test_ends_are_shown_newest_first(self):
        for n in range(3):
            self.put(f"a{n}", "archived", n)
            self.put(f"c{n}", "completed", 100 - n, completed_at=self.now - 50 + n)
        self.assertEqual(self.ids(), ["a2", "a1", "a0", "c2", "c1", "c0"])

    def test_actions_do_what_asynqs_do(self):
        self.put_all_states()
        for task_id in ("scheduled", "retry", "archived", "completed", "grouped"):
            self.ok("task", "run", task_id)
            self.assertEqual(self.redis.do("HGET", f"{Q}t:{task_id}", "state"), b"pending")
        self.assertEqual(self.redis.do("LRANGE", Q + "pending", 0, -1),
                         [b"grouped", b"completed", b"archived", b"retry", b"scheduled",
                          b"pending"])
        self.assertEqual(self.redis.do("EXISTS", Q + "groups", Q + "g:g", Q + "scheduled"), 0)
        since = int(self.redis.do("HGET", Q + "t:retry", "pending_since"))
        self.assertLess(abs(since / 1e9 - time.time()), PATIENCE_S)
        self.ok("task", "archive", "retry")
        self.assertEqual(self.redis.do("HGET", Q + "t:retry", "state"), b"archived")
        self.assertAlmostEqual(int(self.redis.do("ZSCORE", Q + "archived", "retry")), self.now,
                               delta=PATIENCE_S)
        self.ok("task", "delete", "retry")
        self.assertEqual(self.redis.do("EXISTS", Q + "t:retry", Q + "archived"), 0)
        self.fails(EXIT_FAILURE, "task", "delete", "active")

    def test_cancel_publishes_the_bare_id(self):
        self.put("active", "active", 20)
        listener = lib_redis.Connection(self.redis.path)
        listener.do("SUBSCRIBE", "asynq:cancel")
        self.ok("task", "cancel", "active", "--then", "archive")
        self.assertEqual(listener.reply(), [b"message", b"asynq:cancel", b"active"])
        listener.close()
        self.assertEqual(self.redis.do("HGET", Q + "t:active", "quern_cancel"), b"archive")

    def test_delete_frees_the_lock_that_the_task_holds(self):
        lock, other = Q + "unique:t:1", Q + "unique:t:2"
        self.put("a", "retry", 60, unique_key=lock, fields={"unique_key": lock})
        self.put("b", "retry", 60, unique_key=other, fields={"unique_key": other})
        # asynq names the lock of a grouped task in the message only.
        third = Q + "unique:t:3"
        self.put("c", "aggregating", unique_key=third, fields={"group": "g"}, group_key="g")
        fourth = Q + "unique:t:4"
        self.put("d", "aggregating", unique_key=fourth, fields={"group": "g"}, group_key="g")
        for name, owner in ((lock, "a"), (other, "another"), (third, "c"), (fourth, "d")):
            self.redis.do("SET", name, owner)
        for task_id in ("a", "b", "c"):
            self.ok("task", "delete", task_id)
        self.ok("task", "delete", "--all", "--state", "aggregating", "--yes")
        self.assertEqual([self.redis.do("EXISTS", name) for name in (lock, other, third, fourth)],
                         [0, 1, 0, 0])

    def test_a_task_in_an_aggregation_set_is_shown_and_left_alone(self):
        self.put("a", "aggregating", fields={"group": "g"}, group_key="g")
        self.redis.do("RENAME", Q + "g:g", Q + "g:g:set")
        self.redis.do("DEL", Q + "groups")
        self.redis.do("ZADD", Q + "aggregation_sets", self.now + 100, Q + "g:g:set")
        self.assertEqual(self.ids(), ["a"])
        self.assertEqual(self.json("queue", "inspect", "default")["counts"]["aggregating"], 1)
        for verb in ("run", "archive", "delete"):
            self.assertIn("aggregated", self.fails(EXIT_FAILURE, "task", verb, "a"))
        self.assertEqual(self.redis.do("ZCARD", Q + "g:g:set"), 1)

    def test_an_archive_beyond_its_limit_loses_the_oldest_with_their_hashes(self):
        commands = []
        for n in range(10000):
            commands += self.redis.go_commands(f"old{n}", "archived", self.now - 20000 + n)[1:]
        self.redis.pipeline(commands)
        self.put("new", "retry", 60)
        self.ok("task", "archive", "new")
        self.assertEqual(self.redis.do("ZCARD", Q + "archived"), 10000)
        self.assertEqual(self.redis.do("EXISTS", Q + "t:old0", Q + "t:old1"), 1)
        self.assertEqual(self.json("queue", "inspect", "default")["trimmed_total"], 1)
        self.put("more", "retry", 60)
        everything = ("task", "archive", "--all", "--state", "retry", "--yes")
        error = self.fails(EXIT_FAILURE, *everything)
        self.assertIn("would delete its oldest 1", error)
        self.assertEqual(self.quern(*everything).stdout.strip(), "0 tasks archived; others that "
                         "match were not changed")
        self.assertEqual(json.loads(self.quern(*everything, "--json").stdout),
                         {"done": "archived", "count": 0, "complete": False})
        self.assertEqual(self.state("more"), "retry")

    def test_a_removed_queue_leaves_nothing(self):
        self.put_all_states()
        self.redis.do("DEL", Q + "active", Q + "lease", Q + "t:active")
        lock = Q + "unique:t:1"
        self.put("locked", "pending", unique_key=lock, fields={"unique_key": lock})
        self.redis.do("SET", lock, "locked")
        day = time.strftime("%Y-%m-%d", time.gmtime(self.now - 89 * 86400))
        for name in ("processed", "failed", "paused", f"processed:{day}", f"failed:{day}"):
            self.redis.do("SET", Q + name, 1)
        self.put("b", "aggregating", fields={"group": "h"}, group_key="h")
        self.redis.do("RENAME", Q + "g:h", Q + "g:h:set")
        self.redis.do("ZADD", Q + "aggregation_sets", self.now + 100, Q + "g:h:set")
        for n in range(1200):
            self.put(f"n{n}", "scheduled", n)
        self.assertIn("holds", self.fails(EXIT_FAILURE, "queue", "remove", "default", "--yes"))
        self.ok("queue", "remove", "default", "--yes", "--force")
        self.assertEqual(self.redis.do("KEYS", "*"), [])


class Front:
    """A socket in front of a server, which calls on_request(data) before it passes data on."""

    def __init__(self, folder, server_path, on_request):
        self.path = os.path.join(folder, "front.sock")
        self.server_path, self.on_request = server_path, on_request
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def carry(self):
        """One connection, to its end."""
        with self.listener, self.listener.accept()[0] as client, \
                socket.socket(socket.AF_UNIX) as server:
            server.connect(self.server_path)
            other = {client: server, server: client}
            while True:
                for source in select.select(list(other), [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is client:
                        self.on_request(data)
                    try:
                        other[source].sendall(data)
                    except BrokenPipeError:  # the client has ended
                        return


class SlowTest(InspectTest):
    def test_completion_ends_although_each_answer_is_in_time(self):
        # 64 are read at once.
        self.redis.do("SADD", "asynq:queues", *(f"q{i}" for i in range(2000)))
        front = Front(self.home, self.redis.path, lambda data: time.sleep(0.5))
        begun = time.monotonic()
        result = self.quern("--broker", f"redis-socket://{front.path}", "completion", "queues")
        self.assertLess(time.monotonic() - begun, 8)  # not the 16 that all answers would take
        self.assertEqual(result.returncode, EXIT_FAILURE)
        self.assertEqual((result.stdout, result.stderr),
                         ("", "quern: completion: the broker took too long\n"))


class RemoveRaceTest(InspectTest):
    def remove_with_an_enqueue_between(self, *options):
        """Removes queue "new", which comes after the question and before the removal: both begin
        by looking for it."""
        searches = []

        def on_request(data):
            found = re.findall(b"SISMEMBER", data)
            searches.extend(found)
            if found and len(searches) == 2:
                self.redis.go_put("late", "pending", self.now, queue="new")

        front = Front(self.home, self.redis.path, on_request)
        result = self.quern("--broker", f"redis-socket://{front.path}", "queue", "remove", "new",
                            *options)
        front.thread.join(PATIENCE_S)
        self.assertEqual(len(searches), 2, "the task was not enqueued at its moment")
        return result

    def test_force_alone_removes_no_task_that_came_after_the_question(self):
        result = self.remove_with_an_enqueue_between("--force")
        self.assertEqual(result.returncode, EXIT_FAILURE, result.stderr)
        self.assertIn("holds 1 task: not removed without force", result.stderr)
        self.assertEqual(self.ids(), ["late"])

    def test_force_and_yes_remove_that_task_too(self):
        result = self.remove_with_an_enqueue_between("--force", "--yes")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.redis.do("KEYS", "*"), [])


class DamageTest(InspectTest):
    def damage(self):
        """One good task, and one of each damage, all archived."""
        self.put("good", "archived", 0)
        self.put("undecodable", "archived", -1, fields={"msg": b"\xff\xff"})
        self.put("foreign", "archived", -2, fields={"msg": lib_redis.go_message(id="x")})
        self.redis.do("ZADD", Q + "archived", self.now - 3, "ghost")
        self.redis.do("ZADD", Q + "archived", self.now - 4, "text")
        self.redis.do("SET", Q + "t:text", "no hash")
        self.redis.do("ZADD", Q + "archived", self.now - 5, "stub")
        self.redis.do("HSET", Q + "t:stub", "result", "late")

    def test_damaged_tasks_are_listed_with_what_is_wrong(self):
        self.damage()
        tasks = self.json("task", "list")
        self.assertEqual([task["id"] for task in tasks],
                         ["good", "undecodable", "foreign", "ghost", "text", "stub"])
        self.assertEqual((tasks[0]["type"], tasks[0]["error"]), ("t", ""))
        for task, text in zip(tasks[1:], ("decoded", "is of task x", "missing", "WRONGTYPE",
                                          "missing")):
            self.assertEqual((task["type"], task["state"]), ("", "archived"))
            self.assertTrue(task["error"].startswith("damaged: "), task)
            self.assertIn(text, task["error"])
        self.assertEqual(self.task("ghost")["state"], "archived")
        self.assertEqual(self.ids("--type", "*"), self.ids())
        self.assertEqual(self.ids("--text", "damaged"), self.ids()[1:])

    def test_damaged_tasks_can_be_deleted_one_by_one(self):
        self.damage()
        for task_id in ("ghost", "text", "stub"):
            self.assertIn("damaged", self.fails(EXIT_FAILURE, "task", "run", task_id))
        for task_id in ("undecodable", "foreign", "ghost", "text", "stub"):
            self.ok("task", "delete", task_id)
        self.assertEqual(self.ids(), ["good"])
        self.assertEqual(len(self.redis.do("KEYS", Q + "t:*")), 1)

    def test_ids_and_queues_of_any_bytes_are_shown_and_removed(self):
        for task_id in (b"\xff\xfe", b"a\x00b", b"\x1b[31m", b""):
            self.redis.do("ZADD", Q + "archived", self.now, task_id)
        self.redis.do("SADD", "asynq:queues", "default", b"\xff", "", "a b", "{x}", b"n\x00q")
        self.assertEqual(len(self.json("queue", "list")), 5)
        self.assertEqual(len(self.json("task", "list")), 4)
        self.assertNotIn("\x1b", self.ok("task", "list"))
        done = self.json("task", "delete", "--all", "--state", "archived", "--yes")
        self.assertEqual(done["count"], 4)
        self.assertEqual(self.redis.do("KEYS", "*"), [b"asynq:queues"])

    def test_damaged_tasks_do_not_stop_an_action_on_all(self):
        self.damage()
        self.assertEqual(self.json("task", "run", "--all", "--state", "archived", "--yes")["count"],
                         3)
        self.damage()
        self.assertEqual(
            self.json("task", "delete", "--all", "--state", "archived", "--yes")["count"], 6)
        self.assertEqual(self.redis.do("ZCARD", Q + "archived"), 0)

    def test_a_key_of_a_wrong_type_is_named_and_other_queues_are_shown(self):
        self.redis.do("SET", Q + "retry", "no zset")
        self.put("a", "pending", queue="other")
        self.put("b", "pending")
        self.assertIn("WRONGTYPE", self.fails(EXIT_DATA, "task", "list"))
        counts = {info["name"]: info["counts"] for info in self.json("queue", "list")}
        self.assertEqual((counts["default"]["retry"], counts["default"]["pending"]), (0, 1))
        self.assertEqual(self.ids("--queue", "other"), ["a"])
        self.assertEqual(self.ids("--queue", "default", "--state", "pending"), ["b"])
        self.ok("queue", "remove", "default", "--yes", "--force")
        self.assertEqual(self.ids(), ["a"])
        self.assertEqual(self.redis.do("KEYS", Q + "*"), [])


class MemoryTest(InspectTest):
    def tearDown(self):
        self.redis.do("CONFIG", "SET", "maxmemory", 0)
        super().tearDown()

    def test_without_memory_an_operator_can_still_act(self):
        self.put_all_states()
        self.put("b", "archived")
        self.redis.do("CONFIG", "SET", "maxmemory", 1)
        self.assertIn("maxmemory", self.quern("enqueue", "t").stderr)
        self.ok("task", "run", "retry")
        self.ok("task", "archive", "scheduled")
        self.ok("task", "delete", "scheduled")
        self.ok("task", "cancel", "active")
        self.ok("task", "delete", "--all", "--state", "archived", "--yes")
        self.redis.do("DEL", Q + "active")
        self.ok("queue", "remove", "default", "--yes", "--force")
        self.assertEqual(self.redis.do("DBSIZE"), 0)


class ManyTest(InspectTest):
    def reads_of_queues(self):
        """How often the length of a list was asked for, as for each queue that is listed."""
        stats = self.redis.do("INFO", "commandstats")
        found = re.search(r"cmdstat_llen:calls=(\d+)", str(stats))
        return int(found.group(1)) if found else 0

    def test_queues_that_are_not_meant_cost_nothing(self):
        self.redis.do("SADD", "asynq:queues", *(f"q{i}" for i in range(500)))
        for arguments in (("work", "--until-idle", "--exec", "t=true", "--queue", "q1"),
                          ("queue", "inspect", "q1"), ("queue", "remove", "q1", "--yes")):
            with self.subTest(arguments):
                before = self.reads_of_queues()
                result = self.quern(*arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("q1", result.stdout + result.stderr)
                self.assertLess(self.reads_of_queues() - before, 100)

    COUNT = 20000 if FULL else 4000

    def fill(self, state):
        commands = []
        for n in range(self.COUNT):
            # Seven tasks a second, so that pages end within seconds.
            commands += self.redis.go_commands(
                f"t{n:05}", state, self.now + n // 7, type="odd" if n % 1000 == 999 else "even")[1:]
        self.redis.do("SADD", "asynq:queues", "default")
        self.redis.pipeline(commands)

    def pages(self, total, size, *args):
        ids = []
        for page in range(1, total // size + 2):
            ids += self.ids("--size", str(size), "--page", str(page), *args)
        return ids

    def test_pages_show_each_task_once_and_in_order(self):
        expected = [f"t{n:05}" for n in range(self.COUNT)]
        newest_first = ("archived", "completed")
        for state in ("pending", "scheduled", "archived", "completed"):
            with self.subTest(state=state):
                self.redis.do("FLUSHALL")
                self.fill(state)
                self.assertEqual(self.pages(self.COUNT, 1234),
                                 expected[::-1] if state in newest_first else expected)
                odd = expected[999::1000]
                self.assertEqual(self.pages(len(odd), 3, "--type", "odd"),
                                 odd[::-1] if state in newest_first else odd)

    def test_an_action_on_all_that_fit_reaches_the_last(self):
        for state in ("pending", "scheduled"):
            with self.subTest(state=state):
                self.redis.do("FLUSHALL")
                self.fill(state)
                done = self.json("task", "archive", "--all", "--state", state, "--type", "odd",
                                 "--yes")
                self.assertEqual(done["count"], self.COUNT // 1000)
                done = self.json("task", "delete", "--all", "--state", state, "--yes")
                self.assertEqual(done["count"], self.COUNT - self.COUNT // 1000)
                self.assertEqual(self.redis.do("EXISTS", Q + state), 0)


class ReaderTest(InspectTest):
    LOOKS = (["queue", "list"], ["queue", "inspect", "default"], ["task", "list"],
             ["task", "list", "--text", "route"], ["task", "inspect", "retry"], ["worker", "list"],
             ["queue", "history", "default"], ["stats"])

    def test_a_user_who_may_only_read_can_inspect(self):
        self.put_all_states()
        shown = [self.json(*words) for words in self.LOOKS[:6]]
        self.redis.do("ACL", "SETUSER", "reader", "on", ">look", "resetchannels", "-@all",
                      "~asynq:*", "+@read")
        self.env["QUERN_BROKER"] = self.redis.url("reader", "look")
        for words, before in zip(self.LOOKS, shown):
            with self.subTest(words=words):
                after = self.json(*words)
                if words[0] == "task":
                    self.assertEqual(after, before)
        for words in self.LOOKS[6:]:
            self.ok(*words)
        for words in (["queue", "pause", "default"], ["task", "run", "retry"]):
            with self.subTest(words=words):
                error = self.fails(EXIT_BROKER, *words)
                self.assertIn("NOPERM", error)
                self.assertNotIn("look@", error)
        self.assertEqual(self.redis.do("HGET", Q + "t:retry", "state"), b"retry")


if __name__ == "__main__":
    lib_cli.main()
