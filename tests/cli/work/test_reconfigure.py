#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SIGHUP and a configuration file: a worker reads it again, applies what it can, says what it
cannot, and loses nothing meanwhile.

QUERN_TEST_FULL=1: 200 signals under load instead of 20."""

import os
import signal

import lib_cli
from lib_cli import EXIT_CONFIG
from lib_hold import HoldTest
from lib_quern import FULL

SIGNALS = 200 if FULL else 20
EACH = 15  # tasks for each signal
AGAIN = "configuration read again"
RESTARTS = "configuration has other values, the worker restarts"
NOT_USED = "configuration not used, the old values stay"
WAIT = "values of the configuration wait for a stop and a start"


class ReconfigureTest(HoldTest):
    def configure(self, text, general=""):
        """In one step, as an editor does it."""
        self.write("new.conf", f"{general}[work]\nlog-format = logfmt\n{text}")
        os.rename(self.path("new.conf"), self.path("quern.conf"))

    def work(self, *args):
        worker = self.start("work", "--config", "quern.conf", *args)
        self.until(lambda: "worker starts" in self.story(), "it runs")
        return worker

    def hup(self, worker, text=AGAIN):
        before = self.story().count(text)
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: self.story().count(text) > before, text)
        self.assertIsNone(worker.poll())

    def put_many(self, count):
        lines = "\n".join(f'{{"type": "quick", "id": "t{number}", "queue": "{queue}"}}'
                          for number, queue in enumerate(["left", "right"] * (count // 2)))
        self.ok("enqueue", "--from", "-", stdin=lines + "\n")

    def check_ran_once(self, count, worker):
        """Each task once, and nothing is left of them."""
        self.until(lambda: len(self.notes("ran")) >= count, "all have run")
        for queue in ("left", "right"):
            self.until(lambda q=queue: not any(self.counts(q).values()), "all are done")
        self.assertEqual(sorted(self.notes("ran")), sorted(f"t{n}" for n in range(count)))
        self.assertEqual(self.stop(worker), 0)
        for text in ("lease lost", "outcome refused", "task recovered", "run failed"):
            self.assertNotIn(text, self.story())

    def test_weights_and_concurrency_change_in_a_loop_under_load(self):
        values = "handlers = ./handlers.so\nconcurrency = {}\nqueue = left={}\nqueue = right={}\n"
        count = EACH * SIGNALS
        self.configure(values.format(4, 1, 1))
        worker = self.work()
        self.put_many(count)
        for number in range(1, SIGNALS + 1):
            self.configure(values.format(number % 5 + 1, number, SIGNALS - number + 1))
            self.hup(worker)
        self.until(lambda: f'queues="left={SIGNALS} right=1"' in self.story(), "the last ones")
        self.assertNotIn("worker restarts", self.story())
        self.assertIn('options="queue concurrency"', self.story())
        self.until(lambda: self.json("worker", "list")[0]["concurrency"] == SIGNALS % 5 + 1,
                   "the last number")
        self.check_ran_once(count, worker)

    def test_commands_lose_nothing_either(self):
        values = ("exec = quick=echo $QUERN_TASK_ID >>ran\nprefetch = {}\nconcurrency = 3\n"
                  "queue = left={}\nqueue = right\n")
        count = EACH * 8
        self.configure(values.format(3, 1))
        worker = self.work()
        self.put_many(count)
        for number in range(1, 9):
            restarts = number % 4 == 0
            self.configure(values.format(3 + number // 4, number + 1))
            self.hup(worker, "worker continues" if restarts else AGAIN)
        self.check_ran_once(count, worker)

    def test_other_values_come_with_a_restart_and_runs_go_on(self):
        values = "handlers = ./handlers.so\nprefetch = {}\nqueue = default\n{}"
        self.configure(values.format(1, "concurrency = 6\n"))
        worker = self.work("--lease", "6s")
        ids = [f"h{number}" for number in range(5)]
        self.hold(*ids)
        self.configure(values.format(2, "concurrency = 6\nqueue = more\n"))
        self.hup(worker, "worker continues")
        self.assertRegex(self.story(), f'{RESTARTS}" file=quern.conf options="queue prefetch"')
        self.configure(values.format(3, "concurrency = 8\nqueue = more\n"))
        self.hup(worker, "worker continues")
        self.enqueue("quick", "--queue", "more", "--id", "q")
        self.until(lambda: "q" in self.notes("ran"), "the new queue is served")
        self.write("go", "")
        self.check_ended_once(ids)
        self.assertNotIn("lease lost", self.story())
        self.assertEqual(self.stop(worker), 0)

    def test_broken_file_changes_nothing(self):
        good = "handlers = ./handlers.so\nqueue = default=3\n"
        broken = [("concurency = 3\n", "quern.conf:5: unknown name 'concurency'"),
                  ("concurrency = 0\n", "quern.conf:5: --concurrency: 0 is not between"),
                  ("queue = a=x\n", "quern.conf:5: --queue: the weight in 'a=x'"),
                  ("exec = x\n", "quern.conf:5: --exec: 'x' is not PATTERN=COMMAND"),
                  ("quiet = true\nverbose = true\n", "exclude each other"),
                  ("[work\n", "quern.conf:5: the head of a section has no ]")]
        self.configure(good)
        worker = self.work()
        for text, why in broken:
            self.configure(good + text)
            self.hup(worker, NOT_USED)
            self.assertIn(why, self.story())
        os.unlink(self.path("quern.conf"))
        self.hup(worker, NOT_USED)
        self.assertIn("No such file", self.story())
        self.configure(good)
        os.chmod(self.path("quern.conf"), 0o666)
        self.hup(worker, NOT_USED)
        self.assertIn("others may write to it", self.story())
        self.run_quick("q")
        self.configure(good)
        self.hup(worker)
        self.assertNotIn("worker restarts", self.story())
        self.assertEqual(self.stop(worker), 0)

    def test_other_broker_waits_for_a_start(self):
        self.env["QUERN_BROKER"] = ""
        values = "handlers = ./handlers.so\nprefetch = {}\n"
        self.configure(values.format(2), f"broker = {self.broker}\n")
        worker = self.work()
        self.configure(values.format(3), "broker = other.db\n")
        self.hup(worker, WAIT)
        self.assertRegex(self.story(), f'{WAIT}" file=quern.conf options="broker prefetch"')
        self.refuse(worker, "the broker, or another of these values, has changed")
        self.configure(values.format(3), f"broker = {self.broker}\n")
        self.hup(worker, "worker continues")
        self.env["QUERN_BROKER"] = self.broker
        self.run_quick("q")
        self.assertEqual(self.stop(worker), 0)

    def test_log_changes_at_once(self):
        self.configure("handlers = ./handlers.so\n")
        worker = self.work()
        self.run_quick("before")
        self.assertNotIn("run ended", self.story())
        self.configure("handlers = ./handlers.so\nverbose = yes\n")
        self.hup(worker)
        self.assertRegex(self.story(), f'{AGAIN}" file=quern.conf options=log')
        self.run_quick("after")
        self.until(lambda: 'msg="run ended"' in self.story(), "runs are logged")
        self.assertEqual(self.stop(worker), 0)

    def test_on_hup_drain_is_stronger(self):
        self.configure("handlers = ./handlers.so\non-hup = drain\n")
        worker = self.work()
        self.assertEqual(self.stop(worker, signal.SIGHUP), 0)
        self.assertNotIn(AGAIN, self.story())

    def test_file_that_cannot_be_used_ends_the_start(self):
        self.configure("handlers = ./handlers.so\nlease = 1ms\n")
        self.assertIn("quern: work: quern.conf:4: --lease: '1ms' is less than 1s",
                      self.fails(EXIT_CONFIG, "work", "--config", "quern.conf"))


if __name__ == "__main__":
    lib_cli.main()
