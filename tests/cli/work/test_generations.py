#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Older and newer zygotes of one worker: what a reload changes, and what is lost when one of them
is killed."""

import os
import pathlib
import signal

import lib_cli
from lib_cli import EXIT_FAILURE
from lib_hold import HANDLERS, HoldTest

BROKEN = """
#include <quern/handlers.h>
#include <stdlib.h>
void missing(void);
QUERN_HANDLERS(mux, err)
{
    (void)mux;
    (void)err;
    %s;
    return QUERN_OK;
}
"""


def children(task):
    return [int(pid) for pid in pathlib.Path(task, "children").read_text().split()]


class GenerationsTest(HoldTest):
    def zygotes(self, worker):
        """Each is a child of the thread that started it: the warden above the zygote itself."""
        tasks = pathlib.Path(f"/proc/{worker.pid}/task").iterdir()
        return {pid for task in tasks for pid in children(task)}

    def story_has(self, text, count=1):
        self.until(lambda: self.story().count(text) >= count, text)

    def hup(self, worker, text="handlers reloaded"):
        before = self.story().count(text)
        worker.send_signal(signal.SIGHUP)
        self.story_has(text, before + 1)

    def await_gone(self, zygotes):
        for pid in zygotes:
            self.until(lambda: not os.path.exists(f"/proc/{pid}"), "an old zygote is gone")

    def kill_old_one_of(self, worker, replace):
        """Runs of an older zygote go back when it is killed; all others, and the worker, go on."""
        old = self.zygotes(worker)
        self.assertEqual(len(old), 1)
        replace(worker)
        self.run_quick("q")
        self.hold("new")
        os.kill(*old, signal.SIGKILL)
        self.until(lambda: len(self.notes("started")) == 5, "those of the old one start again")
        self.await_gone(old)
        self.run_quick("r")
        self.assertIsNone(worker.poll())
        self.write("go", "")
        for task_id in ("a", "b", "new"):
            task = self.wait_state(task_id, "completed")
            self.assertEqual(task["retry_count"] + task["crash_count"], 0, task)
        self.assertEqual(sorted(self.notes("started")), ["a", "a", "b", "b", "new"])
        self.assertEqual(sorted(self.notes("ended")), ["a", "b", "new"])
        self.assertIn("an older zygote ended", self.story())
        self.assertNotIn("nothing can run any more", self.story())
        self.assertEqual(self.stop(worker), 0)

    def test_old_zygote_that_is_killed_after_a_reload_costs_its_runs_only(self):
        worker = self.work()
        self.hold("a", "b")
        self.kill_old_one_of(worker, self.hup)

    def test_old_zygote_that_is_killed_after_a_restart_costs_its_runs_only(self):
        worker = self.work()
        self.hold("a", "b")
        self.kill_old_one_of(worker, self.restart)

    def test_runs_of_a_killed_old_zygote_that_may_not_run_twice_do_not(self):
        worker = self.work("--on-crash", "few=archive")
        old = self.zygotes(worker)
        self.hold("policy", kind="few")
        self.enqueue("hold", "go", "--id", "last", "--retry-max", "never")
        self.enqueue("early", "go", "--id", "early")
        self.until(lambda: len(self.notes("started")) == 3, "they run")
        self.hup(worker)
        self.run_quick("q")
        os.kill(*old, signal.SIGKILL)
        for task_id in ("policy", "last"):
            self.assertIn("its zygote ended", self.wait_state(task_id, "archived")["error"])
        self.await_gone(old)
        self.run_quick("r")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(sorted(self.notes("started")), ["early", "last", "policy"])

    def test_cancellation_counts_where_its_zygote_is_killed(self):
        worker = self.work()
        [warden] = self.zygotes(worker)
        old = children(f"/proc/{warden}/task/{warden}")
        self.hold("a", file="never")
        self.hup(worker)
        self.run_quick("q")
        os.kill(*old, signal.SIGSTOP)  # it reports no end
        self.ok("task", "cancel", "a", "--then", "archive")
        os.kill(*old, signal.SIGKILL)
        self.assertIn("cancel", self.wait_state("a", "archived")["error"])
        self.assertEqual(self.stop(worker), 0)

    def test_end_of_the_newest_zygote_is_the_end_of_the_worker(self):
        worker = self.work()
        old = self.zygotes(worker)
        self.hold("a")
        self.hup(worker)
        self.run_quick("q")
        self.hold("b", "c")
        newest = self.zygotes(worker) - old
        os.kill(*newest, signal.SIGKILL)
        self.assertEqual(self.end(worker), EXIT_FAILURE)
        self.assertIn(f"the zygote (process {newest.pop()}) has ended; restart the process",
                      self.story())
        self.write("go", "")
        other = self.work()
        for task_id in ("a", "b", "c"):
            task = self.wait_state(task_id, "completed")
            self.assertEqual(task["retry_count"], 0, task)
        self.assertEqual(sorted(self.notes("started")), ["a", "a", "b", "b", "c", "c"])
        self.assertEqual(sorted(self.notes("ended")), ["a", "b", "c"])
        self.assertEqual(self.stop(other), 0)

    def test_both_zygotes_at_once(self):
        worker = self.work()
        self.hold("a")
        self.hup(worker)
        self.run_quick("q")
        self.hold("b")
        for pid in self.zygotes(worker):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.end(worker), EXIT_FAILURE)
        self.write("go", "")
        other = self.work()
        for task_id in ("a", "b"):
            self.wait_state(task_id, "completed")
        self.assertEqual(sorted(self.notes("ended")), ["a", "b"])
        self.assertEqual(self.stop(other), 0)

    def test_other_patterns_are_served_after_a_restart(self):
        worker = self.work()
        self.hold("a")
        self.enqueue("extra", "--id", "x")
        self.compile("-DWITH_EXTRA", "-DWITHOUT_HOLD")
        self.hup(worker, "worker continues")
        self.until(lambda: "x" in self.notes("ran"), "the new pattern is served")
        self.enqueue("hold", "go", "--id", "late", "--retention", "1h")
        self.write("go", "")
        self.check_ended_once(["a"])  # its pattern is served no more, but it runs
        self.compile()
        self.hup(worker, "worker continues")
        self.wait_state("late", "completed")
        self.hup(worker)
        self.assertEqual(self.stop(worker), 0)

    def test_other_patterns_change_nothing_where_a_restart_is_impossible(self):
        self.link()
        worker = self.work()
        self.compile("-DWITH_EXTRA")
        os.unlink(self.path("quern"))
        self.hup(worker, "not restarted, the worker goes on")
        self.assertIn("have other patterns", self.story())
        self.program = os.environ["QUERN"]
        self.run_quick("q")
        self.assertEqual(self.stop(worker), 0)

    def test_broken_objects_change_nothing(self):
        worker = self.work()
        self.hold("a")
        for text, why in ((None, "not a shared object"),
                          ("int nothing;\n", "no function quern_handlers"),
                          (BROKEN % "missing()", "undefined symbol: missing"),
                          (BROKEN % "abort()", "ended before it served"),
                          (BROKEN % "exit(0)", "ended before it served"),
                          (BROKEN % 'return quern_mux_handle(mux, "", NULL, NULL, NULL, err)',
                           "must not be NULL")):
            with self.subTest(text=text):
                before = len(self.story())
                if text is None:
                    self.write("handlers.so.new", "no library\n")
                    os.rename(self.path("handlers.so.new"), self.path("handlers.so"))
                else:
                    self.compile(text=text)
                self.hup(worker, "handlers not reloaded, the old ones stay")
                self.assertIn(why, self.story()[before:])
        self.run_quick("q")
        self.compile(text=HANDLERS)
        self.hup(worker)
        self.write("go", "")
        self.check_ended_once(["a"])
        self.assertEqual(self.stop(worker), 0)

    def test_reloads_warn_of_nothing_and_leave_nothing(self):
        worker = self.work()
        self.hold("a")
        for number in range(2):
            self.hup(worker)
            self.run_quick(f"q{number}")
        for _ in range(3):
            worker.send_signal(signal.SIGHUP)  # one takes the place of another
        self.until(lambda: len(self.zygotes(worker)) == 2, "that of the run, and the newest one")
        self.write("go", "")
        self.check_ended_once(["a"])
        self.until(lambda: len(self.zygotes(worker)) == 1, "only the newest one is left")
        self.assertEqual(self.stop(worker), 0)
        self.assertNotIn("a child ended", self.story())


if __name__ == "__main__":
    lib_cli.main()
