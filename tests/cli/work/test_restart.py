#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SIGUSR2: the program of a worker is replaced in the same process, and running children stay.

QUERN_TEST_FULL=1: 20 restarts in a row instead of 5, and 6 kills instead of 2."""

import os
import signal

import lib_cli
from lib_hold import HoldTest
from lib_quern import FULL

IN_A_ROW = 20 if FULL else 5
KILLS = 6 if FULL else 2


class RestartTest(HoldTest):
    def test_running_children_stay_and_new_ones_run_meanwhile(self):
        worker = self.work("--lease", "6s")
        ids = [f"h{number}" for number in range(4)]
        self.hold(*ids)
        parents = {line.split()[1] for line in self.read("started").splitlines()}
        before = self.json("worker", "list")
        self.restart(worker)
        self.run_quick("q")
        self.assertEqual(sorted(self.notes("started")), ids, "no second run")
        after = self.json("worker", "list")
        self.assertEqual([one["id"] for one in after], [one["id"] for one in before])
        self.restart(worker)
        self.run_quick("r")
        self.assertIn("runs=4", self.story())
        self.assertEqual(len(parents), 4)
        self.write("go", "")
        self.check_ended_once(ids)
        self.assertNotIn("lease lost", self.story())
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.json("worker", "list"), [])

    def test_leases_outlive_it(self):
        """The new program extends them, with the tokens of the old one."""
        worker = self.work("--lease", "4s")
        other = self.start("work", "--exec", "other=true", "--lease", "4s", "--concurrency", "1")
        self.hold("a", "b")
        self.restart(worker)
        self.enqueue("quick", "--id", "late", "--in", "5s")
        self.until(lambda: "late" in self.notes("ran"), "more than a lease has passed")
        self.write("go", "")
        self.check_ended_once(["a", "b"])
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.stop(other), 0)

    def test_many_in_a_row_under_load(self):
        worker = self.work()
        count = 25 * IN_A_ROW
        self.hold("h0", "h1")
        lines = "\n".join(f'{{"type": "quick", "id": "t{number}"}}' for number in range(count))
        self.ok("enqueue", "--from", "-", stdin=lines + "\n")
        for _ in range(IN_A_ROW):
            self.restart(worker)
        self.until(lambda: len(self.notes("ran")) >= count, "all have run")
        self.write("go", "")
        self.check_ended_once(["h0", "h1"])
        self.until(lambda: self.counts().get("active", 0) == 0, "all are done")
        self.assertEqual(sorted(self.notes("ran")), sorted(f"t{n}" for n in range(count)))
        self.assertEqual(self.stop(worker), 0)

    def test_cancellation_timeout_and_death_reach_it_afterwards(self):
        worker = self.work()
        self.hold("cancelled")
        self.enqueue("hold", "never", "--id", "slow", "--timeout", "4s", "--retention", "1h")
        self.enqueue("die", "go", "--id", "dies", "--retry-max", "never")
        self.until(lambda: len(self.notes("started")) == 3, "they run")
        self.restart(worker)
        self.ok("task", "cancel", "cancelled", "--then", "archive")
        self.assertIn("cancel", self.wait_state("cancelled", "archived")["error"])
        self.wait_state("slow", "archived")
        self.write("go", "")
        self.until(lambda: self.task("dies")["crash_count"] > 0, "it has died")
        self.assertIn("SIG", self.task("dies")["error"])
        self.assertIn("held dies", self.task("dies")["error"])
        self.assertEqual(self.stop(worker), 0)

    def test_places_of_a_pattern_and_early_acks_go_over(self):
        worker = self.work()
        self.hold("f0", "f1", kind="few")
        self.enqueue("few", "go", "--id", "f2", "--retention", "1h")
        self.enqueue("early", "go", "--id", "e", "--retention", "1h")
        self.until(lambda: "e" in self.notes("started"), "it runs")
        self.restart(worker)
        self.run_quick("q")
        self.assertNotIn("f2", self.notes("started"))
        self.write("go", "")
        self.wait_state("f2", "completed")
        self.until(lambda: len(self.notes("ended")) == 4, "all have ended")
        self.assertEqual(sorted(self.notes("started")), ["e", "f0", "f1", "f2"])
        self.assertEqual(self.stop(worker), 0)

    def test_program_that_cannot_continue_changes_nothing(self):
        program = self.link()
        worker = self.work()
        self.hold("a")
        os.unlink(self.path("quern"))
        self.refuse(worker, "No such file")
        self.replace("#!/bin/sh\nexit 3\n")
        self.refuse(worker, "the new program refuses, exit status 3")
        self.replace("#!/bin/sh\necho state 999999\n")
        self.refuse(worker, "cannot read the state")
        self.replace(f'#!/bin/sh\n[ "$1" != internal ] || exec {program} "$@"\nexit 5\n')
        self.refuse(worker, "the new program refuses, exit status 5")
        os.rename(self.path("handlers.so"), self.path("kept.so"))
        os.unlink(self.path("quern"))
        os.symlink(program, self.path("quern"))
        self.refuse(worker, "exit status 78")
        os.rename(self.path("kept.so"), self.path("handlers.so"))
        self.program = program
        self.run_quick("q")
        self.restart(worker)
        self.write("go", "")
        self.check_ended_once(["a"])
        self.assertEqual(self.stop(worker), 0)

    def test_program_that_goes_after_the_check_is_continued_by_itself(self):
        """The check has passed; the worker then waits for its command, and has no program left."""
        program = self.link()
        self.fifo("end")
        worker = self.work("--exec", "command=echo x > begun; read x < end")
        self.program = program
        self.hold("a")
        self.enqueue("command", "--id", "c")
        self.until(lambda: self.read("begun") != "", "the command runs")
        worker.send_signal(signal.SIGUSR2)
        self.until(lambda: self.json("worker", "list")[0]["status"] == "draining", "it waits")
        os.unlink(self.path("quern"))
        self.write("end", "x\n")
        self.until(lambda: self.continued() == 1, "it continues")
        self.assertIn("No such file", self.story())
        self.run_quick("q")
        self.write("go", "")
        self.check_ended_once(["a"])
        self.assertEqual(self.stop(worker), 0)

    def test_command_that_does_not_end_calls_it_off(self):
        self.fifo("end")
        worker = self.work("--exec", "command=echo x > begun; read x < end", "--shutdown-timeout",
                           "300ms")
        self.enqueue("command", "--id", "c")
        self.until(lambda: self.read("begun") != "", "the command runs")
        self.refuse(worker, "a command or an aggregation still runs")
        self.run_quick("q")
        self.write("end", "x\n")
        self.wait_state("c", "gone")
        self.restart(worker)
        self.assertEqual(self.stop(worker), 0)

    def test_signals_that_come_together(self):
        worker = self.work()
        self.hold("a")
        for _ in range(5):
            worker.send_signal(signal.SIGUSR2)
        self.until(lambda: self.continued() >= 1, "it continues")
        self.run_quick("q")
        worker.send_signal(signal.SIGUSR2)
        worker.send_signal(signal.SIGTSTP)
        self.until(lambda: self.json("worker", "list")[0]["status"] == "quiet", "it is quiet")
        self.write("go", "")
        self.check_ended_once(["a"])
        worker.send_signal(signal.SIGUSR2)
        self.assertEqual(self.stop(worker), 0)

    def test_worker_that_drains_is_not_restarted(self):
        self.enqueue("hold", "go", "--id", "a")  # before: else it may find nothing to do, and end
        worker = self.start("work", "--handlers", "./handlers.so", "--until-idle")
        self.until(lambda: "a" in self.notes("started"), "it runs")
        self.refuse(worker, "it ends when its work is done")
        self.write("go", "")
        self.assertEqual(self.end(worker), 0)

    def test_kill_behind_it_is_the_death_of_a_worker(self):
        worker = self.work()
        self.hold("a", "b")
        self.restart(worker)
        children = [int(line.split()[1]) for line in self.read("started").splitlines()]
        worker.kill()
        worker.wait()
        self.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children),
                   "its children are gone")
        self.write("go", "")
        other = self.start("work", "--handlers", "./handlers.so")
        for task_id in ("a", "b"):
            task = self.wait_state(task_id, "completed")
            self.assertEqual(task["crash_count"], 1, task)
        self.assertEqual(self.stop(other), 0)

    def test_kill_at_any_moment_of_it(self):
        for number in range(KILLS):
            with self.subTest(number=number):
                worker = self.start("work", "--handlers", "./handlers.so", "--concurrency", "2")
                task_id = f"k{number}"
                self.hold(task_id, file=f"go{number}")
                before = self.continued()
                worker.send_signal(signal.SIGUSR2)
                signal_text = ("worker restarts", "worker continues")[number % 2]
                count = self.story().count(signal_text)
                self.until(lambda: self.story().count(signal_text) > count or
                           self.continued() > before, "it is under way")
                worker.kill()
                worker.wait()
                self.write(f"go{number}", "")
                other = self.start("work", "--handlers", "./handlers.so")
                self.wait_state(task_id, "completed")
                self.assertEqual(self.stop(other), 0)

    @lib_cli.only("redis")
    def test_password_of_the_command_line_goes_over(self):
        url = self.redis.url("default", "secret")
        self.redis.do("CONFIG", "SET", "requirepass", "secret")
        try:
            worker = self.work("--broker", url)
            self.restart(worker)
            with open(f"/proc/{worker.pid}/cmdline", encoding="utf-8") as file:
                self.assertNotIn("secret", file.read())
            self.assertEqual(self.stop(worker), 0)
        finally:
            self.redis.do("CONFIG", "SET", "requirepass", "")

    @lib_cli.only("redis")
    def test_broker_that_is_away_calls_it_off(self):
        worker = self.work("--lease", "20s")
        self.hold("a")
        os.kill(self.redis.process.pid, signal.SIGSTOP)
        try:
            self.refuse(worker, "the broker does not answer")
        finally:
            os.kill(self.redis.process.pid, signal.SIGCONT)
        self.run_quick("q")
        self.restart(worker)
        self.write("go", "")
        self.check_ended_once(["a"])
        self.assertEqual(self.stop(worker), 0)


if __name__ == "__main__":
    lib_cli.main()
