#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The last runs of a task, as they are kept with it."""

import signal

import lib_cli
from lib_cli import BROKER, CliTest, only


class PastRunsTest(CliTest):
    def runs(self, task_id):
        return self.task(task_id)["runs"]

    def test_a_task_that_is_done_at_once_keeps_nothing(self):
        task_id = self.enqueue("t", "--retention", "1h", "--queue", "kept")
        other = self.enqueue("t")
        self.drain("t=true", options=("--queue", "kept", "--queue", "default"))
        self.assertEqual(self.state(other), "gone")
        task = self.wait_state(task_id, "completed")
        self.assertEqual(task["runs"], [])
        self.assertGreater(task["completed_at_ms"], 0)
        if BROKER == "redis":
            key = f"asynq:{{kept}}:t:{task_id}"
            self.assertFalse(self.redis.do("HEXISTS", key, "quern_runs"))

    def test_failures_are_kept_with_all_that_is_known_of_them(self):
        task_id = self.enqueue("t", "--retry-max", "1", "--backoff", "fixed:1ms")
        self.drain("t=echo no route >&2; exit 3")
        task = self.wait_state(task_id, "archived")
        last, first = task["runs"]
        self.assertEqual([run["end"] for run in (first, last)], ["failed", "failed"])
        self.assertEqual([run["cause"] for run in (first, last)], [None, "retry"])
        for run in (first, last):
            self.assertEqual((run["exit_code"], run["signal"]), (3, None))
            self.assertIn("no route", run["error"])
            self.assertGreater(run["memory_bytes"], 0)
            self.assertGreaterEqual(run["cpu_ms"], 0)
            self.assertRegex(run["worker"], r"^[^:]+:\d+:[0-9a-f-]{36}$")
            self.assertLessEqual(run["started_at_ms"], run["ended_at_ms"])
            self.assertEqual(run["took_ms"], run["ended_at_ms"] - run["started_at_ms"])
        self.assertLessEqual(first["ended_at_ms"], last["started_at_ms"] + 5)
        self.assertLess(abs(task["archived_at_ms"] - last["ended_at_ms"]), 5000)
        shown = self.ok("task", "inspect", task_id)
        self.assertIn("past runs, the latest first:", shown)
        self.assertRegex(shown, r"(?m)^STARTED +TOOK +CAUSE +END +EXIT +CPU +MEMORY +WORKER +ERROR")

    def test_ten_runs_are_kept(self):
        task_id = self.enqueue("t", "--retry-max", "12", "--backoff", "fixed:1ms")
        self.drain(r"t=printf 'run \036 %s \037\n' \"$QUERN_RETRY_COUNT\" >&2; "
                   "head -c 3000 /dev/zero | tr '\\\\0' x >&2; exit 1")
        self.wait_state(task_id, "archived")
        runs = self.runs(task_id)
        self.assertEqual(len(runs), 10)
        self.assertTrue(all(len(run["error"].encode()) <= 200 for run in runs), runs)
        self.assertEqual([run["cause"] for run in runs], ["retry"] * 10)

    def test_a_signal_is_kept(self):
        task_id = self.enqueue("t", "--retry-max", "never")
        self.drain("t=kill -SEGV $$")
        run, = self.wait_state(task_id, "archived")["runs"]
        self.assertEqual((run["end"], run["signal"], run["exit_code"]),
                         ("child died", signal.SIGSEGV, None))

    def test_a_run_that_is_given_back_at_a_stop_is_kept(self):
        self.fifo("begun")
        task_id = self.enqueue("t", "--retention", "1h")
        worker = self.start("work", "--exec", f"t=echo > {self.path('begun')}; sleep 60",
                            "--shutdown-timeout", "50ms")
        self.read(self.path("begun"))
        self.stop(worker)
        run, = self.wait_state(task_id, "pending")["runs"]
        self.assertEqual((run["end"], run["cause"]), ("given back", None))
        self.drain("t=true")
        runs = self.runs(task_id)
        self.assertEqual([run["end"] for run in runs], ["done", "given back"])
        self.assertEqual(runs[0]["cause"], "given back")

    def test_the_death_of_a_worker_is_kept(self):
        self.fifo("begun")
        task_id = self.enqueue("t", "--retention", "1h")
        worker = self.start("work", "--exec", f"t=echo > {self.path('begun')}; sleep 60")
        self.read(self.path("begun"))
        self.until(lambda: self.task(task_id)["started_at_ms"], "its start is known")
        pid = worker.pid
        self.stop(worker, signal.SIGKILL)
        self.drain("t=true")
        last, first = self.wait_state(task_id, "completed")["runs"]
        self.assertEqual((first["end"], last["end"]), ("worker died", "done"))
        self.assertEqual(last["cause"], "worker died")
        self.assertIn(f":{pid}:", first["worker"])

    def test_snoozes_and_verdicts_are_kept(self):
        task_id = self.enqueue("t")
        self.drain("t=exit 65")
        run, = self.wait_state(task_id, "archived")["runs"]
        self.assertEqual(run["end"], "archived")

    @only("redis")
    def test_they_vanish_with_the_task(self):
        task_id = self.enqueue("t", "--retry-max", "never")
        self.drain("t=false")
        key = f"asynq:{{default}}:t:{task_id}"
        self.assertTrue(self.redis.do("HGET", key, "quern_runs"))
        self.ok("task", "delete", task_id)
        self.assertFalse(self.redis.do("EXISTS", key))


if __name__ == "__main__":
    lib_cli.main()
