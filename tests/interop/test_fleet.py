#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A mixed fleet: one Go server and two workers of quern on the same queues, Go and quern clients,
and kill -9 again and again. No task is lost, none is stuck, and every run that repeats another one
follows a failure or a kill.

Every kill is replaced by a new process. What a killed worker of quern held is free at once, since
its process is known to be gone. What a killed Go server held would be free after its lease of 30 s
and asynq's grace of 30 s; the test turns back the leases of that server (those without a token of
ours) instead of waiting, after the server is dead, so what quern finds is what it would find then.
Whether quern or the new Go server's recoverer is first, is left to them.

That recoverer first lists the expired leases, and then sends each task to `retry` without looking
whether it is still the same lease. So a task that quern has recovered in between, and that runs
again, may be taken from its new owner: one more run, with one retry more. asynq does that among
its own servers, too. Only a task whose lease the test has turned back can meet with this.

QUERN_TEST_FULL=1: 20 000 tasks instead of 2 000. QUERN_TEST_SEED=n: the same dice again."""

import json
import os
import random
import threading
import time

import lib_interop
from lib_interop import InteropTest, b64
from lib_changes import Changes
from lib_quern import FULL

TASKS = 20000 if FULL else 2000
ENDS_PER_KILL = 220
QUEUES = {"mail": 3, "default": 1}
PATIENCE_S = 900 if FULL else 100


class FleetTest(InteropTest):
    def start_worker(self, name):
        if name == "go":
            process = self.go_server(name=name, queues=QUEUES, concurrency=5)
        else:
            process = self.quern_worker(name=name, concurrency=4,
                                        queues=[f"{q}={w}" for q, w in QUEUES.items()])
        self.fleet[name] = process

    def kill(self, name):
        process = self.fleet[name]
        self.killed[process.pid] = time.time_ns()
        process.kill()
        process.wait()
        if name == "go":
            # What it had sent is still carried out, before our second PING is answered.
            self.redis.do("PING")
            self.redis.do("PING")
            for queue in QUEUES:
                self.turn_back(queue)

    def turn_back(self, queue):
        """Lets the leases of Go be over since 60 s."""
        prefix = f"asynq:{{{queue}}}:"
        for task_id in self.redis.do("ZRANGE", prefix + "lease", 0, -1):
            key = (prefix + "t:").encode() + task_id
            if self.redis.do("HEXISTS", key, "pending_since") == 0:
                self.redis.do("ZADD", prefix + "lease", "XX", int(time.time()) - 60, task_id)
                self.turned_back.add(task_id.decode())

    def make_tasks(self, dice):
        tasks = []
        for number in range(TASKS):
            task = {"id": f"t{number}", "queue": dice.choice(list(QUEUES)),
                    "type": dice.choice(["ok"] + [f"rest:{ms}" for ms in (5, 10, 20, 30)]),
                    "payload": f"body {number}"}
            kind = dice.random()
            if kind < 0.05:
                task["type"] = "fail:1"
            elif kind < 0.07:
                task["type"] = "skip"
            elif kind < 0.12:
                task.update(type="result", retention=3600)
            elif kind < 0.20:
                task["delay"] = dice.randint(1, 3)
            elif kind < 0.25:
                task["unique"] = 3600
            tasks.append(task)
        return tasks

    def enqueue_all(self, tasks, dice):
        """Half by Go, one by one; half by quern, in lines of JSON; mixed."""
        at = 0
        while at < len(tasks):
            some = tasks[at:at + dice.randint(1, 100)]
            at += len(some)
            if dice.random() < 0.5:
                result = self.quern_result("enqueue", "--from", "-", stdin="".join(
                    json.dumps(task) + "\n" for task in some).encode())
                self.assertEqual(result.returncode, 0, result.stderr.decode())
                continue
            for task in some:
                spec = {"id": task["id"], "queue": task["queue"], "type": task["type"],
                        "payload": b64(task["payload"].encode())}
                for ours, theirs in (("retention", "retention_ms"), ("delay", "process_in_ms"),
                                     ("unique", "unique_ms")):
                    if ours in task:
                        spec[theirs] = task[ours] * 1000
                self.go("enqueue", task=spec)

    def tail(self):
        """New lines of the journal since the last call."""
        if not os.path.exists(self.journal):
            return []
        with open(self.journal, "rb") as file:
            file.seek(self.journal_at)
            data = file.read()
        data = data[:data.rfind(b"\n") + 1]
        self.journal_at += len(data)
        return [json.loads(line) for line in data.splitlines()]

    def busy(self):
        commands = []
        for queue in QUEUES:
            prefix = f"asynq:{{{queue}}}:"
            commands += [("LLEN", prefix + "pending"), ("LLEN", prefix + "active"),
                         ("ZCARD", prefix + "scheduled"), ("ZCARD", prefix + "retry")]
        return sum(self.redis.pipeline(commands))

    def run_fleet(self, tasks, dice):
        client = threading.Thread(target=self.enqueue_all, args=(tasks, dice))
        for name in ("go", "quern-1", "quern-2"):
            self.start_worker(name)
        client.start()
        deadline = time.monotonic() + PATIENCE_S
        ends, next_kill, victims = 0, ENDS_PER_KILL, []
        changes = Changes(os.path.dirname(self.journal))
        while client.is_alive() or self.busy():
            changes.forget()
            lines = self.tail()
            self.lines += lines
            ends += sum(line["what"] == "end" for line in lines)
            if ends >= next_kill:
                next_kill += ENDS_PER_KILL
                # At random, but no worker twice before all had a turn.
                victims = victims or dice.sample(sorted(self.fleet), len(self.fleet))
                name = victims.pop()
                self.kill(name)
                self.start_worker(name)
            if time.monotonic() > deadline:
                self.fail(f"tasks are stuck after {ends} runs: {self.story():.20000}")
            if not lines:
                changes.wait(self.fleet.values())
        changes.close()
        client.join()
        for process in self.fleet.values():
            self.stop(process)
        self.lines += self.tail()

    def judge(self, tasks):
        """Reads the journal: every task was run, and every repetition is explained."""
        runs = {}
        for line in sorted(self.lines, key=lambda line: line["at_ns"]):
            if line["what"] == "start":
                runs.setdefault(line["id"], []).append({**line, "failed": False})
            elif line["what"] == "end" and line["error"]:
                for run in runs[line["id"]]:
                    if run["pid"] == line["pid"]:
                        run["failed"] = True
        repeated = 0
        for task in tasks:
            mine = runs.get(task["id"])
            self.assertIsNotNone(mine, f"{task} was never run")
            for before, after in zip(mine, mine[1:]):
                killed_ns = self.killed.get(before["pid"])
                repeated += not before["failed"]
                # Go's recoverer, see above.
                overtaken = (task["id"] in self.turned_back and
                             after["retried"] == before["retried"] + 1)
                self.assertTrue(before["failed"] or overtaken or
                                (killed_ns and killed_ns <= after["at_ns"]),
                                f"{task} was run again without a reason: {mine}")
        return repeated

    def test_nothing_is_lost_or_stuck_or_repeated_without_a_reason(self):
        seed = int(os.environ.get("QUERN_TEST_SEED") or random.SystemRandom().randrange(2**32))
        print(f"seed {seed}", flush=True)
        dice = random.Random(seed)
        self.fleet, self.killed, self.turned_back = {}, {}, set()
        self.lines, self.journal_at = [], 0
        tasks = self.make_tasks(dice)
        self.run_fleet(tasks, random.Random(seed + 1))
        repeated = self.judge(tasks)
        workers = {line["worker"] for line in self.lines}
        print(f"{len(self.killed)} kills, {repeated} runs repeated by them, by {sorted(workers)}")
        self.assertEqual(workers, {"go", "quern-1", "quern-2"})
        self.assertGreaterEqual(len(self.killed), TASKS // ENDS_PER_KILL - 1)
        for queue in QUEUES:
            mine = [task for task in tasks if task["queue"] == queue]
            archived = {task["id"] for task in mine if task["type"] == "skip"}
            completed = {task["id"] for task in mine if "retention" in task}
            info = self.go("queue", queue=queue)
            self.assertEqual((info["Archived"], info["Completed"], info["Size"]),
                             (len(archived), len(completed), len(archived) + len(completed)))
            # Every task but the archived ones succeeded once and only once.
            self.assertEqual(info["ProcessedTotal"] - info["FailedTotal"],
                             len(mine) - len(archived))
            self.assertEqual(self.redis.do("EXISTS", f"asynq:{{{queue}}}:lease"), 0)
            self.assertEqual(self.redis.do("KEYS", f"asynq:{{{queue}}}:unique:*"), [])
        self.assert_clean()


if __name__ == "__main__":
    lib_interop.main()
