#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A Go client enqueues, quern runs; and the other way round; each reads the data of the other."""

import json
import signal
import subprocess
import time

import lib_interop
from lib_interop import InteropTest, assert_same_task, b64, import_line, payload_of, unb64

NUL = b"a\x00b\xff\x00"
MEGABYTE = bytes(range(256)) * 4096
HOUR_MS = 3600000
FAR_S = 4102444800

# Every option of a client, alone and together: fields of task.go.
OPTIONS = [
    {},
    {"queue": "low priority"},
    {"queue": "schlange-ß", "type": "größe:ändern", "id": "nº 1"},
    {"id": "invoice-17"},
    {"retry": 0},
    {"retry": 7},
    {"timeout_ms": 90000},
    {"deadline_s": FAR_S},
    {"timeout_ms": 90000, "deadline_s": FAR_S},
    {"unique_ms": HOUR_MS},
    {"process_at_s": FAR_S},
    {"process_at_s": 1000000000},
    {"process_in_ms": HOUR_MS},
    {"process_in_ms": HOUR_MS, "unique_ms": HOUR_MS},
    {"retention_ms": HOUR_MS},
    {"group": "digest"},
    {"group": "digest", "unique_ms": HOUR_MS},
    {"group": "digest", "process_in_ms": HOUR_MS},
    {"headers": {"trace": "0af7", "empty": "", "ü": "ß"}},
    {"payload": None},
    {"payload": None, "unique_ms": HOUR_MS},
    {"payload": NUL},
    {"payload": MEGABYTE},
    {"id": "all", "queue": "mail", "retry": 3, "timeout_ms": 60000, "deadline_s": FAR_S,
     "unique_ms": HOUR_MS, "process_at_s": FAR_S - 1000, "retention_ms": HOUR_MS,
     "headers": {"k": "v"}},
]


class ClientTest(InteropTest):
    def go_enqueue(self, **task):
        task = {"type": "ok", "payload": b"", **task}
        return self.go("enqueue", task={**task, "payload": b64(task["payload"])})

    def quern_enqueue(self, **task):
        """The same by quern's program, from a line of JSON."""
        line = import_line(task)
        line.setdefault("id", f"quern-{time.time_ns()}")
        result = self.quern_result("enqueue", "--from", "-", stdin=json.dumps(line).encode())
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        # Go is not asked: the task may have been run already.
        return {"id": line["id"], "queue": line.get("queue", "default"),
                "retention_ms": task.get("retention_ms", 0)}

    def enqueue_by(self, who, **task):
        return self.go_enqueue(**task) if who == "go" else self.quern_enqueue(**task)

    def inspect(self, info):
        return self.quern("task", "inspect", info["id"], "--queue", info["queue"])

    def assert_both_see(self, info):
        """quern's and Go's view of a task are the same; gives both."""
        theirs = self.go("task", queue=info["queue"], id=info["id"])
        ours = self.inspect(info)
        assert_same_task(self, ours, theirs)
        return ours, theirs


class OptionTest(ClientTest):
    def test_what_a_go_client_wrote_reads_the_same_in_quern(self):
        for options in OPTIONS:
            with self.subTest(repr(options)[:200]):
                self.empty()
                info = self.go_enqueue(**options)
                ours, _ = self.assert_both_see(info)
                self.assertEqual(payload_of(ours), options.get("payload") or b"")

    def test_what_quern_wrote_reads_the_same_in_go(self):
        for options in OPTIONS:
            with self.subTest(repr(options)[:200]):
                self.empty()
                _, info = self.assert_both_see(self.quern_enqueue(**options))
                # And by the options.
                self.assertEqual(unb64(info["payload"]), options.get("payload") or b"")
                self.assertEqual(info["type"], options.get("type", "ok"))
                self.assertEqual(info["max_retry"], options.get("retry", 25))
                self.assertEqual(info["headers"] or {}, options.get("headers", {}))
                self.assertEqual(info["group"], options.get("group", ""))
                self.assertEqual(info["retention_ms"], options.get("retention_ms", 0))
                self.assertEqual(info["deadline_ns"], options.get("deadline_s", 0) * 10**9)
                self.assertEqual(info["timeout_ms"], options.get(
                    "timeout_ms", 0 if "deadline_s" in options else 1800000))

    def test_parts_of_a_second_are_rounded_up_for_go(self):
        info = self.quern_enqueue(timeout_ms=1500, retention_ms=2001, process_in_ms=90500)
        info = self.go("task", queue="default", id=info["id"])
        self.assertEqual((info["timeout_ms"], info["retention_ms"]), (2000, 3000))
        ours = self.inspect(info)
        self.assertEqual((ours["timeout_ms"], ours["retention_ms"]), (1500, 2001))
        self.assertEqual(info["next_process_at_ns"] // 10**9, -(-ours["due_at_ms"] // 1000))

    def test_a_message_without_any_limit_means_thirty_minutes_if_go_wrote_it(self):
        info = self.go_enqueue(timeout_ms=500, type="hold")
        self.assertEqual(self.go("task", queue="default", id=info["id"])["timeout_ms"], 0)
        self.assertEqual(self.inspect(info)["timeout_ms"], 1800000)
        worker = self.quern_worker()
        self.until_started(info["id"])
        [run] = self.until(lambda: self.quern("worker", "list")[0]["runs"], "the run is listed")
        self.assertLess(abs(run["deadline_at_ms"] / 1000 - time.time() - 1800), 60)
        self.release(info["id"])
        self.until_state("gone", info["id"])
        self.stop(worker)

    def test_no_limit_of_quern_is_a_hundred_years_for_go(self):
        info = self.quern_enqueue(timeout_ms=0, type="hold")
        years = self.go("task", queue="default", id=info["id"])["timeout_ms"] / 1000 / 86400 / 366
        self.assertAlmostEqual(years, 100, delta=0.1)
        self.assertEqual(self.inspect(info)["timeout_ms"], -1)
        server = self.go_server()
        self.until_started(info["id"])
        self.release(info["id"])
        self.until_state("gone", info["id"])
        self.assertEqual(self.counts(), (1, 0))
        self.stop(server)

    def test_ids_and_locks_hold_between_the_two(self):
        for first, second in (("go", "quern"), ("quern", "go")):
            with self.subTest(first):
                self.empty()
                self.enqueue_by(first, id="x", unique_ms=HOUR_MS, payload=b"same")
                for task, text in (({"id": "x", "payload": b"other"}, "conflict"),
                                   ({"id": "y", "payload": b"same", "unique_ms": 1000}, "exists")):
                    if second == "go":
                        reply = self.go.request("enqueue", task={
                            "type": "ok", **task, "payload": b64(task["payload"])})
                        self.assertIn(text, reply["error"])
                    else:
                        options = ["--id", task["id"]]
                        if "unique_ms" in task:
                            options += ["--unique", "1s"]
                        result = self.quern_result("enqueue", "ok", "-", *options,
                                                   stdin=task["payload"])
                        self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(self.go("queue", queue="default")["Size"], 1)

    def test_a_go_worker_runs_a_task_that_did_not_start_in_time(self):
        line = {"type": "ok", "id": "late", "start_within": 0.001}
        self.quern_result("enqueue", "--from", "-", stdin=json.dumps(line).encode())
        self.until(lambda: self.inspect({"id": "late", "queue": "default"})["start_by_at_ms"] <
                   time.time() * 1000, "its time is over")
        server = self.go_server()
        self.until_state("gone", "late")
        self.assertEqual(self.counts(), (1, 0))
        self.stop(server)

    def test_a_go_client_is_not_bound_by_the_limit_of_a_queue(self):
        self.quern("queue", "set", "default", "--max-pending", "1")
        self.go_enqueue(id="one")
        self.go_enqueue(id="two")
        result = self.quern_result("enqueue", "ok")
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertEqual(self.go("queue", queue="default")["Size"], 2)

    def test_a_retry_of_go_has_started_and_does_not_expire(self):
        line = {"type": "fail", "id": "again", "start_within": 3600}
        self.quern_result("enqueue", "--from", "-", stdin=json.dumps(line).encode())
        server = self.go_server()
        self.until_state("retry", "again")
        self.stop(server)
        self.assertIsNone(self.inspect({"id": "again", "queue": "default"})["start_by_at_ms"])

    def test_what_quern_cannot_run_is_archived_where_go_reads_it(self):
        odd = [{"type": "a\0b"}, {"type": "ok", "headers": {"k\0": "v"}},
               {"type": "ok", "headers": {"k": "\0"}}, {"type": "ok", "id": "nul\0id"}]
        infos = [self.go_enqueue(process_in_ms=HOUR_MS, unique_ms=HOUR_MS, payload=NUL,
                                 queue=f"q{i}", **task) for i, task in enumerate(odd)]
        last = self.go_enqueue(queue="q0", type="ok")
        self.assert_clean()  # a Go worker could run them
        worker = self.quern_worker(queues=[info["queue"] for info in infos])
        for info in infos:
            self.go("run", queue=info["queue"], id=info["id"])
            self.until_state("archived", info["id"], info["queue"])
            theirs = self.go("task", queue=info["queue"], id=info["id"])
            self.assertEqual(theirs["type"], info["type"])
            self.assertEqual(theirs["headers"], info["headers"])
            self.assertEqual(unb64(theirs["payload"]), NUL)
            self.assertIn("NUL", theirs["last_err"])
            self.assertEqual(theirs["retried"], 0)
            [ours] = self.quern("task", "list", "--queue", info["queue"], "--state", "archived")
            self.assertIn("NUL", ours["error"])
            self.assertEqual(ours["type"], info["type"].replace("\0", "\ufffd"))
            self.assertEqual(self.counts(info["queue"])[1], 1)
            self.assertEqual(self.go("delete", queue=info["queue"], id=info["id"]), None)
        self.until_state("gone", last["id"], "q0")
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.stop(worker)
        self.assert_clean()

    def test_what_nobody_can_read_is_archived_with_its_bytes(self):
        info = self.go_enqueue(process_in_ms=HOUR_MS)
        self.redis.do("HSET", f"asynq:{{default}}:t:{info['id']}", "msg", b"\xff\0garbage")
        worker = self.quern_worker()
        self.go("run", queue="default", id=info["id"])
        self.until_state("archived", info["id"])
        [theirs] = self.go("list", queue="default", state="archived")
        self.assertEqual((theirs["type"], theirs["id"]), ("quern:unreadable", info["id"]))
        self.assertEqual(unb64(theirs["payload"]), b"\xff\0garbage")
        self.assertIn("cannot be used", theirs["last_err"])
        self.stop(worker)
        self.assert_clean()

    def test_odd_shapes_of_a_message_mean_the_same_to_both(self):
        shapes = [
            "83010a0278788401",  # an unknown group
            "8301930194018401",  # a group in a group
            "0801",  # the type again, as a number
            "2a0105",  # a text where a number is
            "6d01020304",  # four bytes where a number is
            "0a026f6b",  # the type again
            "7a060a016b12017a7a060a016b12017b",  # a header that comes twice
            "7a0a0a016b12017a23080124",  # an unknown field in a header
        ]
        worker = self.quern_worker(queues=["default", "q"])
        for shape in shapes:
            with self.subTest(shape):
                info = self.go_enqueue(headers={"k": "v"}, process_in_ms=HOUR_MS)
                key = f"asynq:{{default}}:t:{info['id']}"
                self.redis.do("HSET", key, "msg",
                              self.redis.do("HGET", key, "msg") + bytes.fromhex(shape))
                ours, theirs = self.assert_both_see(info)
                self.assertEqual(ours["headers"], theirs["headers"])
                self.go("run", queue="default", id=info["id"])
                self.until_state("gone", info["id"])
        self.stop(worker)
        self.assert_clean()

    def test_a_queue_of_any_name_that_go_can_make_is_served(self):
        names = ["a{b}", "}x", "tab\tand\nline", "a=b", "ä" * 300, "\x1b[31m"]
        worker = self.start_work("*=true", *(f"{name}=1" for name in names))
        infos = [self.go_enqueue(queue=name) for name in names]
        for info in infos:
            self.until_state("gone", info["id"], info["queue"])
        self.assertEqual([run["queue"] for run in self.quern("worker", "list")[0]["runs"]], [])
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(lib_interop.PATIENCE_S), 0)
        self.assert_clean()

    def start_work(self, command, *queues):
        """A worker of quern's program."""
        words = [word for queue in queues for word in ("--queue", queue)]
        return self.spawn(self.program, "work", "--exec", command, *words,
                          stderr=subprocess.DEVNULL)

    def test_the_locks_of_an_empty_payload_and_of_none_are_the_same_for_both(self):
        for first, second in (("go", "quern"), ("quern", "go")):
            for payload, other in ((b"", None), (None, b"")):
                with self.subTest(first=first, payload=payload):
                    self.empty()
                    self.assertTrue(self.lock_by(first, payload))
                    self.assertFalse(self.lock_by(second, payload))
                    self.assertTrue(self.lock_by(second, other))

    def lock_by(self, who, payload):
        """Enqueues a unique task, quern's by its program; whether it was stored."""
        if who == "go":
            return "error" not in self.go.request("enqueue", task={
                "type": "ok", "payload": b64(payload), "unique_ms": HOUR_MS})
        operands = ("ok",) if payload is None else ("ok", "-")
        result = self.quern_result("enqueue", *operands, "--unique", "1h", stdin=payload or b"")
        self.assertIn(result.returncode, (0, 1), result.stderr)
        return result.returncode == 0


class Runs(ClientTest):
    """Tasks of one side run by the other; the two classes below are the two directions."""

    giver = runner = None

    def worker(self, **more):
        return self.go_server(**more) if self.runner == "go" else self.quern_worker(**more)

    def other_worker(self):
        return self.quern_worker() if self.runner == "go" else self.go_server()

    def give(self, **task):
        return self.enqueue_by(self.giver, **task)

    def test_every_kind_of_task_is_run_to_its_end(self):
        infos = [self.give(**options) for options in OPTIONS
                 if not {"process_in_ms", "group"} & set(options)
                 and options.get("process_at_s", 0) < time.time()
                 and options.get("type") is None
                 and (self.giver == "go" or options.get("payload", b"") is not None)]
        worker = self.worker(queues=self.queues(infos))
        for info in infos:
            self.until_state("completed" if info["retention_ms"] else "gone", info["id"],
                             info["queue"])
        self.stop(worker)
        for queue in {info["queue"] for info in infos}:
            count = sum(info["queue"] == queue for info in infos)
            self.assertEqual(self.counts(queue), (count, 0))
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.assertEqual(sorted(line["id"] for line in self.read_journal("start")),
                         sorted(info["id"] for info in infos))
        self.assert_clean()

    def queues(self, infos):
        names = sorted({info["queue"] for info in infos})
        return {name: 1 for name in names} if self.runner == "go" else names

    def test_a_result_of_any_bytes_is_kept(self):
        worker = self.worker()
        for payload in (b"", b"text", NUL, MEGABYTE):
            info = self.give(type="result", payload=payload, retention_ms=HOUR_MS)
            self.until_state("completed", info["id"])
            ours, theirs = self.assert_both_see(info)
            self.assertEqual(unb64(theirs["result"]), payload)
            self.assertLess(abs(theirs["completed_at_ns"] / 1e9 - time.time()), 30)
            self.assertLess(abs(ours["expires_at_ms"] - ours["completed_at_ms"] - HOUR_MS), 2000)
        self.stop(worker)
        self.assert_clean()

    def test_a_failure_is_retried_and_reported(self):
        worker = self.worker()
        info = self.give(type="fail:2", payload="nicht möglich".encode(),
                               retry=5, retention_ms=HOUR_MS, unique_ms=HOUR_MS)
        self.until_state("completed", info["id"])
        _, theirs = self.assert_both_see(info)
        self.assertEqual((theirs["retried"], theirs["last_err"]), (2, "nicht möglich"))
        self.assertEqual([line["retried"] for line in self.read_journal("start")], [0, 1, 2])
        self.assertEqual(self.counts(), (3, 2))
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.stop(worker)
        self.assert_clean()

    def test_asynqs_delays_between_retries(self):
        worker = self.worker(retry_ms=None if self.runner == "go" else -1)
        info = self.give(type="fail", payload=b"no")
        self.until_state("retry", info["id"])
        ours, theirs = self.assert_both_see(info)
        delay_s = theirs["next_process_at_ns"] / 1e9 - theirs["last_failed_at_ns"] / 1e9
        self.assertGreaterEqual(delay_s, 14)
        self.assertLessEqual(delay_s, 46)
        self.assertEqual(ours["cause"], "retry" if self.runner == "quern" else ours["cause"])
        self.stop(worker)

    def test_the_archive(self):
        worker = self.worker()
        skipped = self.give(type="skip", payload=b"why not", unique_ms=HOUR_MS)
        used_up = self.give(type="fail", payload=b"no more", retry=0)
        for info, text in ((skipped, "why not"), (used_up, "no more")):
            self.until_state("archived", info["id"])
            ours, theirs = self.assert_both_see(info)
            self.assertTrue(theirs["last_err"].startswith(text), theirs)
            self.assertEqual(ours["error"], theirs["last_err"])
        self.assertEqual(self.counts(), (2, 2))
        # Both keep the lock of an archived task.
        self.assertEqual(len(self.redis.do("KEYS", "*:unique:*")), 1)
        self.stop(worker)
        self.assert_clean()

    def test_a_task_that_is_no_longer_wanted_is_dropped(self):
        worker = self.worker()
        info = self.give(type="revoke", retention_ms=HOUR_MS, unique_ms=HOUR_MS)
        self.until_state("gone", info["id"])
        self.assertEqual(self.counts(), (1, 0))
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.stop(worker)
        self.assert_clean()

    def test_a_run_is_cancelled_by_the_other_side(self):
        # The retry waits, so that it can be looked at.
        worker = self.worker(retry_ms=60000)
        info = self.give(type="hold")
        self.until_started(info["id"])
        if self.runner == "quern":
            self.go("cancel", id=info["id"])
        else:
            self.quern("task", "cancel", info["id"])
        self.until_state("retry", info["id"])
        _, theirs = self.assert_both_see(info)
        self.assertEqual(theirs["retried"], 1)
        self.assertIn("cancel", theirs["last_err"])
        self.stop(worker)
        self.assert_clean()

    def test_timeouts_and_deadlines_end_a_run(self):
        worker = self.worker(retry_ms=60000)
        timed = self.give(type="hold", timeout_ms=1000)
        ended = self.give(type="hold", deadline_s=int(time.time()) + 2, retry=0)
        self.until_state("retry", timed["id"])
        self.until_state("archived", ended["id"])
        for info in (timed, ended):
            _, theirs = self.assert_both_see(info)
            self.assertRegex(theirs["last_err"], "timeout|deadline")
            [start] = [line for line in self.read_journal("start") if line["id"] == info["id"]]
            [end] = [line for line in self.read_journal("end") if line["id"] == info["id"]]
            self.assertLess(end["at_ns"] - start["at_ns"], 5 * 10**9)
        self.stop(worker)
        self.assert_clean()

    def test_a_task_past_its_deadline_is_not_run(self):
        # quern's clients refuse a task that could never run, so it is put before its deadline.
        deadline_s = int(time.time()) + 2
        info = self.give(type="ok", deadline_s=deadline_s, retry=3)
        self.until(lambda: time.time() > deadline_s + 1, "the deadline is over")
        worker = self.worker(retry_ms=60000)
        # asynq tries it again and again until its retries are used up; ours archives it.
        self.until_state("retry" if self.runner == "go" else "archived", info["id"])
        _, theirs = self.assert_both_see(info)
        self.assertIn("deadline exceeded", theirs["last_err"])
        self.assertEqual(self.read_journal(), [])
        self.assertEqual(self.counts(), (1, 1))
        self.stop(worker)
        self.assert_clean()

    def test_a_delayed_task_is_not_run_before_it_is_due(self):
        worker = self.worker()
        began_ns = time.time_ns()
        info = self.give(type="ok", process_in_ms=1200)
        due_ns = began_ns + 1200000000
        self.until_state("gone", info["id"])
        [start] = self.read_journal("start")
        # asynq's clients cut off the parts of a second, so theirs may be early by so much.
        self.assertGreater(start["at_ns"], due_ns - (10**9 if self.giver == "go" else 0))
        self.stop(worker)
        self.assert_clean()

    def test_the_order_of_a_queue_is_kept(self):
        ids = [f"n{number:02}" for number in range(20)]
        if self.giver == "go":
            for task_id in ids:
                self.go_enqueue(id=task_id)
        else:
            lines = "".join(json.dumps({"type": "ok", "id": task_id}) + "\n" for task_id in ids)
            result = self.quern_result("enqueue", "--from", "-", stdin=lines.encode())
            self.assertEqual(result.returncode, 0)
        worker = self.worker(concurrency=1)
        self.until(lambda: self.counts()[0] == len(ids), "all are done")
        self.stop(worker)
        self.assertEqual([line["id"] for line in self.read_journal("start")], ids)

    def test_a_worker_that_ends_gives_its_run_back_to_the_other(self):
        worker = self.worker()
        info = self.give(type="hold")
        self.until_started(info["id"])
        self.stop(worker)
        self.assertEqual(self.state(info["id"]), "pending")
        self.assert_both_see(info)
        self.release(info["id"])
        worker = self.other_worker()
        self.until_state("gone", info["id"])
        self.assertEqual([line["retried"] for line in self.read_journal("start")], [0, 0])
        self.assertEqual(self.counts(), (1, 0))
        self.stop(worker)
        self.assert_clean()


class GoGivesTest(Runs):
    giver, runner = "go", "quern"

    def test_a_go_client_wakes_an_idle_worker(self):
        worker = self.quern_worker()
        # One after the other: looking each second alone would take 30 s.
        began = time.monotonic()
        for number in range(30):
            self.go_enqueue(id=f"n{number}")
            self.until_state("gone", f"n{number}")
        self.assertLess(time.monotonic() - began, 20)
        self.stop(worker)

    def test_strict_and_weighted_queues_are_seen_in_servers(self):
        worker = self.quern_worker(name="w", queues=("high=6", "low=1"), concurrency=3)
        [server] = self.until(lambda: self.go("servers"), "Go sees the worker")
        self.assertEqual((server["Queues"], server["Concurrency"], server["Status"],
                          server["StrictPriority"]), ({"high": 6, "low": 1}, 3, "active", False))
        self.assertEqual(server["PID"], worker.pid)
        self.stop(worker)
        self.assertEqual(self.go("servers") or [], [])


class QuernGivesTest(Runs):
    giver, runner = "quern", "go"


del ClientTest, Runs  # they are no tests by themselves


if __name__ == "__main__":
    lib_interop.main()
