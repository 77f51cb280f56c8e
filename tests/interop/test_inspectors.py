#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Go's Inspector on data of quern, and quern's program on data of Go."""

import os
import shutil
import socket
import subprocess
import time

import lib_interop
from lib_interop import InteropTest, assert_same_task, b64

STATES = ("pending", "active", "scheduled", "retry", "archived", "completed", "aggregating")


class StageTest(InteropTest):
    """Tasks in every state, made by one side: client and worker."""

    COUNTS = {"pending": 3, "active": 1, "scheduled": 3, "retry": 2, "archived": 3,
              "completed": 2, "aggregating": 2}

    def put(self, side, task_id, task_type="ok", *, delay_s=None, retention_s=None, group=None,
            retry=None, payload=b"body"):
        if side == "go":
            task = {"type": task_type, "payload": b64(payload), "id": task_id}
            for name, value in (("process_in_ms", delay_s and delay_s * 1000), ("group", group),
                                ("retention_ms", retention_s and retention_s * 1000),
                                ("retry", retry)):
                if value is not None:
                    task[name] = value
            self.go("enqueue", task=task)
            return
        options = ["--id", task_id]
        for name, value in (("--in", delay_s), ("--retention", retention_s), ("--group", group),
                            ("--retry", retry)):
            if value is not None:
                options += [name, str(value)]
        self.enqueue(task_type, payload, *options)

    def populate(self, side):
        """Gives the worker, which holds the one active task."""
        for number in range(3):
            self.put(side, f"archived-{number}", "skip")
        for number in range(2):
            self.put(side, f"completed-{number}", "result", retention_s=3600)
            self.put(side, f"retry-{number}", "fail")
        self.put(side, "active-0", "hold")
        worker = (self.go_server(retry_ms=600000, concurrency=1) if side == "go" else
                  self.quern_worker(retry_ms=600000, concurrency=1))
        self.until_started("active-0")
        for number in range(3):
            self.put(side, f"pending-{number}")
            self.put(side, f"scheduled-{number}", delay_s=3600 + number * 10)
        for number in range(2):
            self.put(side, f"aggregating-{number}", group="digest")
        self.until(lambda: self.counts()[0] == 7, "seven runs ended")
        return worker

    def finish(self, worker):
        self.release("active-0")
        self.until_state("gone", "active-0")
        self.stop(worker)
        self.assert_clean()

    def finish_what_was_moved(self):
        """The worker runs all that is pending: retry-0 fails and archived-0 is archived once
        more."""
        self.release("active-0")
        self.until(lambda: self.go("queue", queue="default")["Pending"] == 0, "all are run")
        self.until(lambda: self.state("retry-0") == "retry", "retry-0 failed again")
        self.until(lambda: self.state("archived-0") == "archived", "archived-0 failed again")
        self.until(lambda: self.state("completed-0") == "completed", "completed-0 ran again")
        self.stop(self.worker)
        self.assert_clean()

    def go_ids(self, state, **more):
        return [info["id"] for info in self.go("list", queue="default", state=state,
                                               group="digest", **more)]

    def quern_ids(self, state, *options):
        return [info["id"] for info in self.quern("task", "list", "--queue", "default", "--state",
                                                  state, *options)]


class GoInspectsQuernTest(StageTest):
    def setUp(self):
        super().setUp()
        self.worker = self.populate("quern")

    def test_queues_and_their_figures(self):
        self.assertEqual(self.go("queues"), ["default"])
        info = self.go("queue", queue="default")
        for state, count in self.COUNTS.items():
            self.assertEqual(info[state.capitalize()], count, state)
        self.assertEqual(info["Size"], sum(self.COUNTS.values()))
        self.assertEqual((info["Groups"], info["Paused"]), (1, False))
        self.assertEqual((info["Processed"], info["Failed"]), (7, 5))
        self.assertEqual((info["ProcessedTotal"], info["FailedTotal"]), (7, 5))
        self.assertGreater(info["MemoryUsage"], 0)
        [today, yesterday] = self.go("history", queue="default", days=2)
        self.assertEqual((today["Processed"], today["Failed"]), (7, 5))
        self.assertEqual((yesterday["Processed"], yesterday["Failed"]), (0, 0))
        self.assertEqual(self.go("groups", queue="default"), [{"Group": "digest", "Size": 2}])
        self.finish(self.worker)

    def test_latency_is_the_same_for_both(self):
        def ours_ms():
            return self.quern("queue", "inspect", "default")["latency_ms"]
        before_ms = ours_ms()
        theirs_ms = self.go("queue", queue="default")["Latency"] / 1e6
        self.assertGreater(before_ms, 0)
        self.assertLessEqual(before_ms - 2, theirs_ms)
        self.assertLessEqual(theirs_ms, ours_ms() + 2)
        self.finish(self.worker)

    def test_lists_pages_and_tasks(self):
        for state, count in self.COUNTS.items():
            infos = self.go("list", queue="default", state=state, group="digest")
            self.assertEqual(len(infos), count, state)
            for info in infos:
                self.assertEqual(info["state"], state)
                ours = self.quern("task", "inspect", info["id"])
                assert_same_task(self, ours, info)
                assert_same_task(self, ours, self.go("task", queue="default", id=info["id"]))
        self.assertEqual(self.go_ids("pending"), ["pending-0", "pending-1", "pending-2"])
        self.assertEqual(self.go_ids("scheduled", page=2, size=2), ["scheduled-2"])
        self.finish(self.worker)

    def test_one_task_is_run_archived_and_deleted(self):
        self.go("run", queue="default", id="scheduled-0")
        self.go("run", queue="default", id="retry-0")
        self.go("run", queue="default", id="archived-0")
        self.go("run", queue="default", id="aggregating-0")
        self.go("run", queue="default", id="completed-0")
        for task_id in ("scheduled-0", "retry-0", "archived-0", "aggregating-0", "completed-0"):
            self.assertEqual(self.state(task_id), "pending")
        self.go("archive", queue="default", id="scheduled-1")
        self.go("archive", queue="default", id="pending-2")
        self.go("archive", queue="default", id="retry-1")
        self.go("delete", queue="default", id="scheduled-2")
        self.go("delete", queue="default", id="archived-1")
        self.go("delete", queue="default", id="aggregating-1")
        for verb in ("run", "archive", "delete"):
            self.assertIn("error", self.go.request(verb, queue="default", id="active-0"))
        self.assertEqual([len(self.quern_ids(state)) for state in STATES],
                         [7, 1, 0, 0, 4, 1, 0])
        # quern can still reach every task that Go moved: it runs the pending ones.
        self.finish_what_was_moved()

    def test_all_of_a_state(self):
        self.assertEqual(self.go("archive_all", queue="default", state="scheduled"), 3)
        self.assertEqual(self.go("archive_all", queue="default", state="aggregating",
                                 group="digest"), 2)
        self.assertEqual(self.go("run_all", queue="default", state="retry"), 2)
        self.assertEqual(self.go("archive_all", queue="default", state="pending"), 5)
        self.assertEqual(len(self.quern_ids("archived")), 13)
        self.assertEqual(self.go("delete_all", queue="default", state="completed"), 2)
        self.assertEqual(self.go("run_all", queue="default", state="archived"), 13)
        self.assertEqual(self.go("delete_all", queue="default", state="pending"), 13)
        self.finish(self.worker)
        self.assertEqual(self.quern("queue", "inspect", "default")["size"], 0)

    def test_all_of_the_other_states(self):
        """Together with the test before: every form of the Inspector's methods for all tasks."""
        self.assertEqual(self.go("run_all", queue="default", state="scheduled"), 3)
        self.assertEqual(self.go("run_all", queue="default", state="aggregating",
                                 group="digest"), 2)
        self.assertEqual(self.go("groups", queue="default") or [], [])
        self.assertEqual(len(self.quern_ids("pending")), 8)
        self.assertEqual(self.go("archive_all", queue="default", state="retry"), 2)
        self.assertEqual(self.go("delete_all", queue="default", state="archived"), 5)
        self.release("active-0")
        self.until(lambda: self.counts()[0] == 16, "the pending ones are run")
        self.put("quern", "fails", "fail")
        self.put("quern", "waits", delay_s=3600)
        self.put("quern", "grouped", group="digest")
        self.until_state("retry", "fails")
        for state in ("retry", "scheduled", "aggregating"):
            self.assertEqual(self.go("delete_all", queue="default", state=state, group="digest"), 1)
        self.stop(self.worker)
        self.assertEqual(self.quern("queue", "inspect", "default")["size"], 2)  # the completed
        self.assert_clean()

    def test_deletes_free_locks(self):
        self.enqueue("u", b"x", "--unique", "1h", "--id", "u", "--in", "1h")
        self.assertEqual(self.quern_result("enqueue", "u", "x", "--unique", "1h").returncode, 1)
        self.go("delete", queue="default", id="u")
        self.enqueue("u", b"x", "--unique", "1h", "--id", "u2", "--in", "1h")
        self.go("delete_all", queue="default", state="scheduled")
        self.assertEqual(self.redis.do("KEYS", "*:unique:*"), [])
        self.finish(self.worker)

    def test_payload_of_a_scheduled_task_is_replaced(self):
        self.go("update", queue="default", id="scheduled-1", bytes=b64(b"new"))
        self.assertEqual(self.quern("task", "inspect", "scheduled-1")["payload"], "new")
        self.finish(self.worker)

    def test_pause_and_resume_hold_for_quern(self):
        self.go("pause", queue="default")
        self.assertTrue(self.quern("queue", "inspect", "default")["paused"])
        self.release("active-0")
        self.until_state("gone", "active-0")
        self.assertEqual(self.quern_result("queue", "pause", "default").returncode, 1)
        self.put("quern", "after")
        self.assertEqual(self.state("pending-0"), "pending")
        self.assertEqual([line["id"] for line in self.read_journal("start")][-1], "active-0")
        self.go("unpause", queue="default")
        self.until_state("gone", "after")
        self.stop(self.worker)
        self.assert_clean()

    def test_servers_show_querns_worker_and_its_runs(self):
        def seen():
            # A record may still be the one written while a task before this one ran.
            servers = self.go("servers") or []
            runs = servers and servers[0]["ActiveWorkers"] or []
            return [run["TaskID"] for run in runs] == ["active-0"] and servers[0]
        server = self.until(seen, "Go sees the run")
        self.assertEqual((server["Status"], server["Concurrency"], server["Queues"]),
                         ("active", 1, {"default": 1}))
        [run] = server["ActiveWorkers"]
        self.assertEqual((run["TaskID"], run["TaskType"], run["Queue"], run["TaskPayload"]),
                         ("active-0", "hold", "default", b64(b"body")))
        # `asynq server ls` shows the count of the record itself.
        [key] = self.redis.do("KEYS", "asynq:servers:*")
        shown = subprocess.run([os.environ["INTEROP_CODEC"]], check=True, capture_output=True,
                               text=True, input=f"server {self.redis.do('GET', key).hex()}\n")
        self.assertIn(f" run_count={b'1'.hex()}", shown.stdout)
        self.finish(self.worker)

    def test_doctor_finds_a_fleet_of_go_healthy(self):
        # What leaves a lock behind in asynq: an id that was taken, tasks deleted by their state.
        for task_id, payload in (("locked", b"1"), ("locked", b"2"), ("other", b"3")):
            self.go.request("enqueue", task={"type": "ok", "queue": "locks", "id": task_id,
                                         "payload": b64(payload), "unique_ms": 3600000})
        self.go("delete_all", queue="locks", state="pending")
        self.release("active-0")
        self.stop(self.worker)
        locks = self.redis.do("KEYS", "*:unique:*")
        self.assertEqual(len(locks), 3)
        for options in ((), ("--repair",)):
            result = self.quern_result("doctor", *options)
            self.assertEqual(result.returncode, 0, result.stdout.decode())
            self.assertIn("it ends in", result.stdout.decode())
        self.assertEqual(sorted(self.redis.do("KEYS", "*:unique:*")), sorted(locks))

    def test_a_run_is_cancelled(self):
        self.go("cancel", id="active-0")
        self.until_state("retry", "active-0")
        self.assertEqual(self.go("task", queue="default", id="active-0")["retried"], 1)
        self.stop(self.worker)
        self.assert_clean()

    def test_a_queue_is_removed(self):
        self.assertIn("error", self.go.request("remove", queue="default"))
        self.assertIn("error", self.go.request("remove", queue="default", force=True))
        self.release("active-0")
        self.until(lambda: self.go("queue", queue="default")["Pending"] == 0, "all are run")
        self.stop(self.worker)
        self.go("remove", queue="default", force=True)
        self.assertEqual(self.quern("queue", "list"), [])
        # Ours come back with their queue, also from a client that knew it; asynq's would not.
        self.put("quern", "again")
        self.assertEqual(self.go("queues"), ["default"])
        self.assertEqual(self.go_ids("pending"), ["again"])


class AsynqProgramTest(StageTest):
    """asynq's own program, which connects by TCP only."""

    @classmethod
    def setUpClass(cls):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            cls.port = probe.getsockname()[1]
        cls.server_options = ("--bind", "127.0.0.1", "--port", str(cls.port))
        super().setUpClass()

    def test_the_asynq_program_lists_queues_tasks_and_servers(self):
        program = (os.environ.get("QUERN_ASYNQ") or shutil.which("asynq") or
                   os.path.join(os.path.dirname(os.environ["INTEROP_PEER"]), "asynq"))
        if not os.path.exists(program):
            self.skipTest("the program `asynq` could not be fetched (it has no release that a "
                          "module proxy serves); QUERN_ASYNQ names one")
        worker = self.populate("quern")

        def asynq(*words):
            return subprocess.run([program, *words, "-u", f"127.0.0.1:{self.port}"], check=True,
                                  capture_output=True, text=True, env=self.env).stdout

        self.assertIn("default", asynq("queue", "ls"))
        shown = asynq("queue", "inspect", "default")
        self.assertRegex(shown, r"Size:?\s+16\b")
        self.assertRegex(shown, r"(?i)paused:?\s+false")
        for state in ("pending", "active", "scheduled", "retry", "archived", "completed"):
            listed = asynq("task", "ls", "-q", "default", "-s", state)
            for number in range(self.COUNTS[state]):
                self.assertIn(f"{state}-{number}", listed)
        listed = asynq("task", "ls", "-q", "default", "-s", "aggregating", "-g", "digest")
        self.assertIn("aggregating-1", listed)
        self.assertIn("digest", asynq("group", "ls", "-q", "default"))
        self.assertRegex(asynq("server", "ls"), r"active\s+1/1\s+default:1")
        self.assertIn("archived", asynq("task", "inspect", "-q", "default", "-i", "archived-0"))
        asynq("task", "run", "-q", "default", "-i", "scheduled-0")
        self.assertEqual(self.state("scheduled-0"), "pending")
        asynq("queue", "pause", "default")
        self.assertTrue(self.quern("queue", "inspect", "default")["paused"])
        asynq("queue", "resume", "default")
        asynq("task", "cancel", "active-0")
        self.until_state("retry", "active-0")
        self.stop(worker)
        self.assert_clean()


class QuernInspectsGoTest(StageTest):
    def setUp(self):
        super().setUp()
        self.worker = self.populate("go")

    def test_queues_and_their_figures(self):
        [info] = self.quern("queue", "list")
        self.assertEqual(info["counts"], self.COUNTS)
        self.assertEqual((info["size"], info["paused"], info["group_count"]),
                         (sum(self.COUNTS.values()), False, 1))
        for name, count in (("processed_today", 7), ("failed_today", 5), ("processed_total", 7),
                            ("failed_total", 5)):
            self.assertEqual(info[name], count, name)
        days = self.quern("queue", "history", "default", "--days", "2")
        self.assertEqual([(day["processed"], day["failed"]) for day in days], [(7, 5), (0, 0)])
        self.assertEqual(self.quern("stats")["totals"]["size"], 16)
        self.finish(self.worker)

    def test_lists_pages_and_tasks(self):
        for state, count in self.COUNTS.items():
            infos = self.quern("task", "list", "--queue", "default", "--state", state)
            self.assertEqual(len(infos), count, state)
            for ours in infos:
                assert_same_task(self, ours, self.go("task", queue="default", id=ours["id"]))
        self.assertEqual(self.quern_ids("pending"), ["pending-0", "pending-1", "pending-2"])
        self.assertEqual(self.quern_ids("scheduled", "--size", "2", "--page", "2"),
                         ["scheduled-2"])
        self.assertEqual(self.quern_ids("aggregating", "--group", "digest"),
                         self.go_ids("aggregating"))
        self.assertEqual(self.quern_ids("archived", "--text", "skip"), self.quern_ids("archived"))
        self.finish(self.worker)

    def test_one_task_is_run_archived_and_deleted(self):
        for task_id in ("scheduled-0", "retry-0", "archived-0", "aggregating-0", "completed-0"):
            self.quern("task", "run", task_id)
            self.assertEqual(self.go("task", queue="default", id=task_id)["state"], "pending")
        for task_id in ("scheduled-1", "pending-2", "retry-1"):
            self.quern("task", "archive", task_id)
            self.assertEqual(self.go("task", queue="default", id=task_id)["state"], "archived")
        for task_id in ("scheduled-2", "archived-1", "aggregating-1"):
            self.quern("task", "delete", task_id)
            self.assertIn("error", self.go.request("task", queue="default", id=task_id))
        for verb in ("run", "archive", "delete"):
            self.assertEqual(self.quern_result("task", verb, "active-0").returncode, 1)
        self.finish_what_was_moved()

    def test_all_of_a_state(self):
        def all_of(verb, state):
            return self.quern("task", verb, "--all", "--queue", "default", "--state", state,
                              "--yes")["count"]
        self.assertEqual(all_of("archive", "scheduled"), 3)
        self.assertEqual(all_of("archive", "aggregating"), 2)
        self.assertEqual(all_of("run", "retry"), 2)
        self.assertEqual(all_of("archive", "pending"), 5)
        self.assertEqual(len(self.go_ids("archived", size=100)), 13)
        self.assertEqual(all_of("delete", "completed"), 2)
        self.assertEqual(all_of("run", "archived"), 13)
        self.assertEqual(all_of("delete", "pending"), 13)
        self.finish(self.worker)
        self.assertEqual(self.go("queue", queue="default")["Size"], 0)

    def test_all_of_the_other_states(self):
        def all_of(verb, state):
            return self.quern("task", verb, "--all", "--queue", "default", "--state", state,
                              "--yes")["count"]
        self.assertEqual(all_of("run", "scheduled"), 3)
        self.assertEqual(all_of("run", "aggregating"), 2)
        self.assertEqual(self.go("groups", queue="default") or [], [])
        self.assertEqual(len(self.go_ids("pending")), 8)
        self.assertEqual(all_of("archive", "retry"), 2)
        self.assertEqual(all_of("delete", "archived"), 5)
        self.release("active-0")
        self.until(lambda: self.counts()[0] == 16, "the pending ones are run")
        self.put("go", "fails", "fail")
        self.put("go", "waits", delay_s=3600)
        self.put("go", "grouped", group="digest")
        self.until_state("retry", "fails")
        for state in ("retry", "scheduled", "aggregating"):
            self.assertEqual(all_of("delete", state), 1)
        self.stop(self.worker)
        self.assertEqual(self.go("queue", queue="default")["Size"], 2)  # the completed
        self.assert_clean()

    def test_tasks_go_to_another_queue(self):
        ids = ["pending-1", "scheduled-1", "retry-1", "archived-1", "aggregating-1"]
        before = {name: self.go("task", queue="default", id=name) for name in ids}
        self.quern("task", "move", *ids, "--to", "other")
        for name in ids:
            after = self.go("task", queue="other", id=name)
            passes = {"queue"} | ({"next_process_at_ns"} if name == "pending-1" else set())
            for field in set(after) - passes:
                self.assertEqual(after[field], before[name][field], f"{name}: {field}")
            self.assertIn("error", self.go.request("task", queue="default", id=name))
        self.assertEqual(self.quern_result("task", "move", "active-0", "--to", "other").returncode,
                         1)
        other = self.go_server(queues={"other": 1})
        self.until_state("gone", "pending-1", "other")
        self.stop(other)
        self.finish(self.worker)

    def test_pause_and_resume_hold_for_go(self):
        self.quern("queue", "pause", "default")
        self.assertTrue(self.go("queue", queue="default")["Paused"])
        self.assertIn("error", self.go.request("pause", queue="default"))
        self.release("active-0")
        self.until_state("gone", "active-0")
        self.assertEqual(self.state("pending-0"), "pending")
        self.quern("queue", "resume", "default")
        self.until_state("gone", "pending-0")
        self.stop(self.worker)
        self.assert_clean()

    def test_workers_show_gos_server_and_its_runs(self):
        def seen():
            # Go writes its record each 5 s: it may name a task before this one.
            workers = self.quern("worker", "list")
            runs = workers and workers[0]["runs"] or []
            return [run["id"] for run in runs] == ["active-0"] and workers[0]
        worker = self.until(seen, "quern sees the run")
        self.assertEqual((worker["status"], worker["concurrency"], worker["queues"]),
                         ("active", 1, "default=1"))
        self.assertEqual(worker["pid"], self.worker.pid)
        self.assertLess(abs(worker["started_at_ms"] / 1000 - time.time()), 60)
        [run] = worker["runs"]
        self.assertEqual((run["id"], run["type"], run["queue"]),
                         ("active-0", "hold", "default"))
        # Go counts 30 minutes from the start of the run.
        self.assertLess(abs(run["deadline_at_ms"] / 1000 - time.time() - 1800), 60)
        self.finish(self.worker)

    def test_a_run_is_cancelled(self):
        self.quern("task", "cancel", "active-0")
        self.until_state("retry", "active-0")
        self.assertEqual(self.quern("task", "inspect", "active-0")["retry_count"], 1)
        self.stop(self.worker)
        self.assert_clean()

    def test_a_queue_is_removed(self):
        self.assertEqual(self.quern_result("queue", "remove", "default", "--yes").returncode, 1)
        self.release("active-0")
        self.until(lambda: self.go("queue", queue="default")["Pending"] == 0, "all are run")
        self.stop(self.worker)
        self.quern("queue", "remove", "default", "--yes", "--force")
        self.assertEqual(self.go("queues"), [])
        self.assertEqual(self.redis.do("KEYS", "asynq:{default}:*"), [])


if __name__ == "__main__":
    lib_interop.main()
