#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looking at queues, tasks and workers, and steering them."""

import contextlib
import json
import os
import pty
import sqlite3
import subprocess

import lib_cli
from lib_cli import (BROKER, CliTest, EXIT_BROKER, EXIT_FAILURE, EXIT_TEMPORARY, EXIT_USAGE,
                     PATIENCE_S, only)


class QueueTest(CliTest):
    def test_list_counts_by_state(self):
        self.enqueue("t", "--queue", "a")
        self.enqueue("t", "--queue", "a", "--in", "1h")
        self.enqueue("t", "--queue", "b", "--group", "g")
        queues = {info["name"]: info for info in self.json("queue", "list")}
        self.assertEqual(sorted(queues), ["a", "b"])
        self.assertEqual((queues["a"]["size"], queues["a"]["counts"]["pending"],
                          queues["a"]["counts"]["scheduled"]), (2, 1, 1))
        self.assertEqual(queues["b"]["counts"]["aggregating"], 1)
        table = self.ok("queue", "list").splitlines()
        self.assertTrue(table[0].startswith("QUEUE"))
        self.assertEqual(len(table), 3)

    def test_inspect_shows_one_queue(self):
        self.enqueue("t", "--queue", "a")
        self.assertEqual(self.json("queue", "inspect", "a")["counts"]["pending"], 1)
        self.assertRegex(self.ok("queue", "inspect", "a"), r"(?m)^  pending: +1$")
        self.assertIn("no queue \"zz\"", self.fails(EXIT_FAILURE, "queue", "inspect", "zz"))

    @only("sqlite")
    def test_damaged_headers_do_not_prevent_json(self):
        name = "n" * 62 + "\u00e4"
        self.enqueue("t", "--id", "a", "--header", f"{name}=VALU", "--header", "NAME=v")
        with contextlib.closing(sqlite3.connect(self.broker)) as data, data:
            headers, = data.execute("SELECT headers FROM quern_task").fetchone()
            damaged = headers.replace(b"VALU", b"\xff\xfe\xfd\xfc").replace(b"NAME", b"\xffAME")
            data.execute("UPDATE quern_task SET headers = ?", (damaged,))
        shown = {name + "_base64": "//79/A==", "\\xffAME": "v"}
        self.assertEqual(self.task("a")["headers"], shown)
        self.assertEqual(self.json("task", "list")[0]["headers"], shown)

    def test_a_limit_is_set_shown_obeyed_and_removed(self):
        self.ok("queue", "set", "mail", "--max-pending", "2")
        self.assertEqual(self.json("queue", "inspect", "mail")["max_pending"], 2)
        self.assertRegex(self.ok("queue", "inspect", "mail"), r"(?m)^max pending: +2$")
        self.ok("enqueue", "t", "--queue", "mail")
        said = self.fails(EXIT_TEMPORARY, "enqueue", "--from", "-", "--queue", "mail",
                          stdin='{"type": "t"}\n' * 3)
        self.assertIn("line 2: queue mail is full", said)
        self.assertIn("(stored 1 task)", said)
        said = self.fails(EXIT_TEMPORARY, "enqueue", "t", "--queue", "mail", "--wait-room", "50ms")
        self.assertIn("queue mail is full", said)
        self.ok("queue", "set", "mail", "--max-pending", "none")
        self.assertIsNone(self.json("queue", "inspect", "mail")["max_pending"])
        self.assertNotIn("max pending", self.ok("queue", "inspect", "mail"))
        self.ok("enqueue", "t", "--queue", "mail")
        for value in ("0", "-1", "x", "1x", "9999999999", ""):
            self.fails(EXIT_USAGE, "queue", "set", "mail", "--max-pending", value)
        self.fails(EXIT_USAGE, "queue", "set", "mail")

    @only("sqlite")
    def test_inspect_shows_where_a_queue_is_braked(self):
        self.enqueue("t", "--queue", "a")
        self.assertNotIn("braked", self.ok("queue", "inspect", "a"))
        self.assertEqual(self.json("queue", "inspect", "a")["braked_hosts"], 0)
        db = sqlite3.connect(self.broker)
        with db:
            db.executemany("INSERT INTO quern_host SELECT no, ?, 0, ?, 3, 1700000000000, 0, 0"
                           " FROM quern_queue", [("x", 10), ("y", 12), ("z", 9)])
        db.close()
        self.assertRegex(self.ok("queue", "inspect", "a"),
                         r"(?m)^braked: +on 2 hosts, next probe now$")
        info = self.json("queue", "inspect", "a")
        self.assertEqual((info["braked_hosts"], info["probe_at_ms"]), (2, 1700000000000))

    def test_paused_queue_starts_nothing_until_it_is_resumed(self):
        task_id = self.enqueue("t")
        self.assertEqual(self.ok("queue", "pause", "default"), "default paused")
        self.assertTrue(self.json("queue", "inspect", "default")["paused"])
        self.fails(EXIT_FAILURE, "queue", "pause", "default")
        worker = self.start("work", "--exec", "t=true", "--exec", "u=true", "--queue", "default",
                            "--queue", "other")
        self.wait_state(self.enqueue("u", "--queue", "other"), "gone")
        self.assertEqual(self.state(task_id), "pending")
        self.ok("queue", "resume", "default")
        self.fails(EXIT_FAILURE, "queue", "resume", "default")
        self.wait_state(task_id, "gone")
        self.assertEqual(self.stop(worker), 0)

    def test_remove_wants_yes_and_for_tasks_force(self):
        self.enqueue("t", "--queue", "a")
        self.assertIn("not a terminal: use --yes", self.fails(EXIT_USAGE, "queue", "remove", "a"))
        self.fails(EXIT_FAILURE, "queue", "remove", "a", "--yes")
        self.ok("queue", "remove", "a", "--yes", "--force")
        self.assertEqual(self.json("queue", "list"), [])
        self.fails(EXIT_FAILURE, "queue", "remove", "a", "--yes")

    def test_history_counts_today(self):
        self.enqueue("t")
        self.enqueue("bad", "--retry", "never")
        self.drain("t=true", "bad=exit 1")
        days = self.json("queue", "history", "default", "--days", "3")
        self.assertEqual(len(days), 3)
        self.assertEqual((days[0]["processed"], days[0]["failed"]), (2, 1))
        self.assertIn("50.00", self.ok("queue", "history", "default"))

    def test_stats_sums_queues_and_names_the_broker(self):
        self.enqueue("t", "--queue", "a")
        self.enqueue("t", "--queue", "b")
        stats = self.json("stats")
        self.assertEqual((stats["totals"]["size"], stats["totals"]["counts"]["pending"]), (2, 2))
        self.assertIn("durability", stats["broker"])
        numbers = {"sqlite": ("size", "wal_size", "schema_version"),
                   "redis": ("db", "clients", "memory_used", "uptime_s", "cpu_s")}[BROKER]
        for name in numbers:
            self.assertIsInstance(stats["broker"][name], (int, float), name)
        self.assertIsInstance(stats["broker"][f"{BROKER}_version"], str)
        self.assertIn("durability:", self.ok("stats", "-v"))


class TaskTest(CliTest):
    def test_run_archive_and_delete_one(self):
        task_id = self.enqueue("t", "--in", "1h")
        self.assertEqual(self.ok("task", "run", task_id), "1 task made pending")
        self.assertEqual(self.state(task_id), "pending")
        self.fails(EXIT_FAILURE, "task", "run", task_id)
        self.assertEqual(self.json("task", "archive", task_id), {"done": "archived", "count": 1})
        self.assertEqual(self.state(task_id), "archived")
        self.ok("task", "delete", task_id, "--queue", "default")
        self.assertEqual(self.state(task_id), "gone")
        self.fails(EXIT_FAILURE, "task", "delete", task_id)
        self.fails(EXIT_FAILURE, "task", "inspect", task_id)

    def test_several_ids_are_each_tried_and_the_worst_counts(self):
        for name in "a", "b":
            self.enqueue("t", "--id", name)
        self.assertEqual(self.ok("task", "archive", "a", "b").splitlines(),
                         ["a archived", "b archived"])
        result = self.quern("task", "run", "a", "missing", "b")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        self.assertEqual(result.stdout.splitlines(), ["a made pending", "b made pending"])
        self.assertIn("missing", result.stderr)
        result = self.quern("task", "delete", "missing", "a", "--json")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["done"], answer["count"]), ("deleted", 1))
        self.assertEqual([(task["id"], task["ok"]) for task in answer["tasks"]],
                         [("missing", False), ("a", True)])
        self.assertIn("missing", answer["tasks"][0]["error"])
        self.assertEqual(self.state("b"), "pending")

    def test_several_tasks_are_inspected_at_once(self):
        for name in "a", "b":
            self.enqueue("t", f"payload {name}", "--id", name)
        page = self.ok("task", "inspect", "a", "b")
        self.assertEqual((page.count("payload a"), page.count("\n\nid:               b\n")), (1, 1))
        result = self.quern("task", "inspect", "a", "missing", "b", "--json")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        a, missing, b = json.loads(result.stdout)
        self.assertEqual((a["payload"], b["payload"]), ("payload a", "payload b"))
        self.assertEqual(missing["id"], "missing")
        self.assertIn("missing", missing["error"])
        self.assertIn("missing", result.stderr)
        self.fails(EXIT_USAGE, "task", "inspect", "a", "b", "--payload")
        self.assertEqual(self.quern("task", "inspect", "b", "--payload").stdout, "payload b")

    def test_refused_queues_are_documents(self):
        self.enqueue("t", "--queue", "a")
        self.ok("queue", "pause", "a")
        for args, queue in ((["pause", "a"], "a"), (["resume", "zz"], "zz"),
                            (["remove", "zz", "--yes"], "zz"), (["remove", "zz"], "zz"),
                            (["remove", "a", "--yes"], "a")):
            result = self.quern("queue", *args, "--json")
            self.assertEqual(result.returncode, EXIT_FAILURE, args)
            answer = json.loads(result.stdout)
            self.assertEqual(answer["queue"], queue)
            self.assertIn(answer["error"], result.stderr)
        result = self.quern("queue", "resume", "zz", "a", "--json")
        self.assertEqual([entry.get("done") for entry in json.loads(result.stdout)],
                         [None, "resumed"])

    def test_several_queues_at_once(self):
        for name in "a", "b":
            self.enqueue("t", "--queue", name)
        self.assertEqual(self.ok("queue", "pause", "a", "b").splitlines(), ["a paused", "b paused"])
        result = self.quern("queue", "resume", "zz", "b")
        self.assertEqual((result.returncode, result.stdout), (EXIT_FAILURE, "b resumed\n"))
        self.assertEqual([(info["name"], info["paused"])
                          for info in self.json("queue", "inspect", "a", "b")],
                         [("a", True), ("b", False)])
        self.assertEqual(self.ok("queue", "inspect", "a", "b").count("pending:"), 2)
        self.assertEqual([entry["queue"] for entry in self.json("queue", "history", "a", "b")],
                         ["a", "b"])
        self.assertEqual(self.json("queue", "remove", "a", "b", "--yes", "--force"),
                         [{"queue": "a", "done": "removed"}, {"queue": "b", "done": "removed"}])
        self.assertEqual(self.json("queue", "list"), [])

    def test_all_of_a_state_over_all_queues(self):
        for queue in ("a", "b"):
            for n in range(3):
                self.enqueue("t", str(n), "--queue", queue, "--in", "1h")
        self.enqueue("u", "--queue", "a", "--in", "1h")
        self.assertEqual(self.ok("task", "archive", "--all", "--state", "scheduled", "--type", "t",
                                 "--yes"), "6 tasks archived")
        self.assertEqual(self.ok("task", "run", "--all", "--state", "archived", "--queue", "b",
                                 "--text", "2", "--yes"), "1 task made pending")
        self.assertEqual(self.json("task", "delete", "--all", "--state", "archived", "--yes"),
                         {"done": "deleted", "count": 5})
        self.assertEqual(self.json("stats")["totals"]["size"], 2)

    def test_nouns_follow_their_number(self):
        self.ok("db", "init")
        for count, noun in ((0, "tasks"), (1, "task"), (2, "tasks")):
            self.assertIn(f"{count} {noun}\n", self.quern("task", "list").stderr)
            if count > 0:
                self.assertIn(f"holds {count} {noun}: not removed without force",
                              self.fails(EXIT_FAILURE, "queue", "remove", "default", "--yes"))
            self.enqueue("t")

    def test_all_without_yes_is_refused_off_a_terminal_with_the_count(self):
        for n in range(3):
            self.enqueue("t", str(n))
        error = self.fails(EXIT_USAGE, "task", "delete", "--all", "--state", "pending")
        self.assertIn("Delete 3 pending tasks of all queues?", error)
        self.assertIn("--yes", error)
        self.assertEqual(self.counts()["pending"], 3)

    def test_all_prompts_on_a_terminal(self):
        self.enqueue("t")
        self.assertEqual(self.answer("n\n"), EXIT_FAILURE)
        self.assertEqual(self.counts()["pending"], 1)
        self.assertEqual(self.answer("y\n"), 0)
        self.assertEqual(self.counts()["pending"], 0)

    def answer(self, text):
        """Deletes all pending tasks with a terminal on stdin and stderr."""
        ours, theirs = pty.openpty()
        try:
            process = subprocess.Popen(
                [self.program, "task", "delete", "--all", "--state", "pending"], stdin=theirs,
                stdout=subprocess.DEVNULL, stderr=theirs, env=self.env)
            self.processes.append(process)
            process.log_name = "none"
            os.write(ours, text.encode())
            process.wait(timeout=PATIENCE_S)
            return process.returncode
        finally:
            os.close(ours)
            os.close(theirs)

    def cancel(self, then):
        self.fifo("never")
        task_id = self.enqueue("t")
        worker = self.start("work", "--exec", "t=echo on > started; exec cat never")
        self.until(lambda: self.read("started"), "the task has started")
        self.assertEqual(self.state(task_id), "active")
        self.ok("task", "cancel", task_id, "--then", then)
        task = self.wait_state(task_id, {"retry": "retry", "archive": "archived"}[then])
        self.assertEqual(self.stop(worker), 0)
        return task

    def test_cancel_with_retry(self):
        self.assertEqual(self.cancel("retry")["worker"], "")

    def test_cancel_with_archive(self):
        self.assertEqual(self.cancel("archive")["worker"], "")

    def test_cancel_all_active(self):
        self.fifo("never")
        task_id = self.enqueue("t")
        worker = self.start("work", "--exec", "t=echo on > started; exec cat never")
        self.until(lambda: self.read("started"), "the task has started")
        self.assertEqual(self.ok("task", "cancel", "--all", "--then", "archive", "--yes"),
                         "1 task asked to stop")
        self.wait_state(task_id, "archived")
        self.assertEqual(self.stop(worker), 0)

    def test_cancel_of_a_task_that_does_not_run_is_refused(self):
        task_id = self.enqueue("t")
        self.assertIn(f"cannot cancel task {task_id}: it is not running (state: pending)",
                      self.fails(EXIT_FAILURE, "task", "cancel", task_id))

    def test_stored_text_cannot_steer_the_terminal(self):
        hostile = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
        task_id = self.enqueue("t", hostile, "--header", f"h={hostile}", "--retry", "never")
        self.drain("t=printf '\\033[31mred\\033[0m\\n' >&2; exit 1")
        for page in (self.ok("task", "inspect", task_id), self.ok("task", "list")):
            for bad in ("\x1b", "\x07", "\x9b", "\u202e"):
                self.assertNotIn(bad, page)
        self.assertEqual(self.task(task_id)["payload"], hostile)

    def test_error_with_line_ends_has_lines_that_are_no_fields(self):
        self.enqueue("t", "--id", "a", "--retry-max", "never")
        self.quern("work", "--drain", "--exec",
                   "t=printf 'one\\nstate:            done\\n\\033[2J\\n' >&2; exit 1")
        lines = self.ok("task", "inspect", "a").splitlines()
        first = [line.startswith("error: ") for line in lines].index(True)
        self.assertRegex(lines[first], "^error: +exit status 1: one$")
        self.assertEqual(lines[first + 1:first + 3],
                         [18 * " " + "state:            done", 18 * " " + "\\x1b[2J"])

    def test_payload_with_line_ends_stays_on_one_line(self):
        task_id = self.enqueue("t", "a\nb\tc")
        self.assertIn("a\\nb\\tc", self.ok("task", "inspect", task_id))


class WorkerTest(CliTest):
    def test_list_shows_workers_and_their_runs(self):
        self.fifo("go")
        task_id = self.enqueue("t", "--queue", "q")
        worker = self.start("work", "--queue", "q=3", "--concurrency", "2", "--exec",
                            "t=echo on > started; read x < go")
        self.until(lambda: self.read("started"), "the task has started")
        listed = self.until(
            lambda: [each for each in self.json("worker", "list") if each["runs"]], "it shows")
        self.assertEqual((listed[0]["pid"], listed[0]["concurrency"]), (worker.pid, 2))
        self.assertIn("q", listed[0]["queues"])
        self.assertEqual(listed[0]["runs"][0]["id"], task_id)
        workers = self.ok("worker", "list")
        self.assertIn(task_id, workers)
        page = self.on_terminal("worker", "list")
        self.assertIn(f"\n{task_id[:18]}  ", page)
        self.assertNotIn(task_id, page)
        self.assertIn("1 worker, 1 run\n", page)
        self.assertRegex(workers, r"(now|s ago)")
        self.assertRegex(workers, r"in (30m|29m[0-9.]+s)")
        self.assertNotIn(" ago", self.ok("worker", "list", "--utc"))
        self.write("go", "go\n")
        self.wait_state(task_id, "gone")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.json("worker", "list"), [])


class DoctorTest(CliTest):
    def test_healthy_data_passes(self):
        self.enqueue("t")
        self.enqueue("t", "--in", "1h")
        self.enqueue("bad", "--retry", "never", "--unique", "1h")
        report = self.json("doctor")
        self.assertTrue(report["healthy"])
        self.assertEqual(report["violated"], 0)
        self.assertIn("durability D1", self.ok("doctor"))
        self.assertIn("no violations", self.ok("doctor"))
        self.ok("doctor", "--repair")

    @only("redis")
    def test_server_with_a_known_hole_gets_a_note(self):
        self.enqueue("t")
        report = self.json("doctor")
        notes = [each["severity"] for each in report["findings"] if "CVE-" in each["text"]]
        name = report["broker"]["redis_version"].split()
        version = tuple(int(part) for part in name[-1].split("."))
        mended = {(7, 2): 11, (8, 0): 6, (8, 1): 4} if len(name) > 1 else {
            (6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
        is_mended = version[:2] > max(mended) or version[2] >= mended.get(version[:2], 1000)
        self.assertEqual(notes, [] if is_mended else ["note"])
        self.assertTrue(report["healthy"])

    @only("sqlite")
    def test_damage_is_found_and_mended_without_losing_a_task(self):
        task_id = self.enqueue("t")
        db = sqlite3.connect(self.broker)
        with db:
            db.execute("DELETE FROM quern_queue")
            db.execute("UPDATE quern_meta SET counter = 0")
        db.close()
        self.assertIn("violated", self.quern("doctor").stdout)
        result = self.quern("--json", "doctor")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        report = json.loads(result.stdout)
        self.assertFalse(report["healthy"])
        self.assertEqual(report["violated"], len(
            [each for each in report["findings"] if each["severity"] == "violated"]))
        self.assertGreaterEqual(report["violated"], 2)
        self.assertGreaterEqual(self.json("doctor", "--repair")["repaired"], 2)
        self.assertTrue(self.json("doctor")["healthy"])
        self.assertEqual(self.state(task_id), "pending")

    @only("redis")
    def test_damage_in_redis_is_found_and_mended_without_losing_a_task(self):
        task_id = self.enqueue("t")
        self.redis.do("DEL", "asynq:{default}:pending")
        self.redis.do("LPUSH", "asynq:{default}:pending", "ghost")
        result = self.quern("--json", "doctor")
        self.assertEqual(result.returncode, EXIT_FAILURE)
        self.assertGreaterEqual(json.loads(result.stdout)["violated"], 2)
        self.assertGreaterEqual(self.json("doctor", "--repair")["repaired"], 2)
        self.assertTrue(self.json("doctor")["healthy"])
        self.drain("t=true")
        self.assertEqual(self.state(task_id), "gone")
        self.assertEqual(self.redis.do("KEYS", "asynq:{default}:t:*"), [])


class DbTest(CliTest):
    def test_init_makes_a_file_and_info_shows_it(self):
        name = self.path("new.db")
        self.ok("db", "init", name)
        self.ok("db", "init", name)
        self.assertIn("durability", self.json("db", "info", name))
        self.assertIn("new.db", self.ok("db", "info", name))

    def test_init_adds_tables_beside_those_of_somebody_else(self):
        name = self.path("app.db")
        with sqlite3.connect(name) as db:
            db.execute("CREATE TABLE person (name TEXT)")
            db.execute("INSERT INTO person VALUES ('ann')")
        db.close()
        self.assertIn("quern db init", self.quern("--broker", name, "enqueue", "t").stderr)
        self.ok("db", "init", name)
        self.ok("--broker", name, "enqueue", "t")
        db = sqlite3.connect(name)
        self.assertEqual(db.execute("SELECT name FROM person").fetchall(), [("ann",)])
        db.close()

    @only("sqlite")
    def test_backup_is_a_copy_of_one_moment_with_its_tasks(self):
        self.enqueue("t", "x" * 100000, "--id", "a")
        copy = self.path("copy.db")
        self.ok("db", "backup", copy)
        self.enqueue("t", "--id", "b")
        self.assertEqual([task["id"] for task in self.json("task", "list", "--broker", copy)],
                         ["a"])
        self.assertEqual(os.stat(copy).st_mode & 0o777, 0o600)
        self.ok("doctor", "--broker", copy)
        self.assertIn("exists", self.fails(EXIT_FAILURE, "db", "backup", copy))
        self.fails(EXIT_BROKER, "db", "backup", self.path("missing/copy.db"))
        self.assertEqual(os.path.realpath(self.json("db", "path")["path"]), self.ok("db", "path"))
        self.assertEqual(self.ok("db", "path", "--broker", copy), os.path.realpath(copy))

    @only("redis")
    def test_redis_has_no_path_and_backs_itself_up(self):
        self.enqueue("t")
        self.assertIn("not a file", self.fails(EXIT_FAILURE, "db", "path"))
        self.assertIn("the server's own tools",
                      self.fails(EXIT_FAILURE, "db", "backup", self.path("copy.db")))


if __name__ == "__main__":
    lib_cli.main()
