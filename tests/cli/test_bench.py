#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern bench: every figure can be measured, on a file of its own or on a given broker, and nothing
is left behind. How large the figures are is not tested: that is make bench."""

import os
import shutil

import lib_cli
from lib_cli import CliTest, EXIT_CONFIG, EXIT_USAGE

LOADS = (["enqueue"], ["enqueue", "--batch", "1"],
         ["enqueue", "--batch", "1", "--concurrency", "3"], ["drain"],
         ["e2e"], ["e2e", "--batch", "1"], ["e2e", "--payload", "0"], ["e2e", "--workers", "3"],
         ["drain", "--active", "150", "--queues", "3", "--workers", "2"],
         ["enqueue", "--queues", "2"], ["drain", "--pool", "prefork"],
         ["e2e", "--pool", "prefork", "--workers", "2"], ["drain", "--pool", "exec"])
LATENCIES = ([], ["--delayed"], ["--concurrency", "3"], ["--rate", "500"],
             ["--pool", "prefork"], ["--pool", "prefork", "--delayed"])


class BenchTest(CliTest):
    def setUp(self):
        super().setUp()
        self.scratch = self.path("scratch")
        os.mkdir(self.scratch)
        self.env["TMPDIR"] = self.scratch

    def test_loads_say_how_many_tasks_a_second(self):
        for args in LOADS:
            with self.subTest(args=args):
                figure = self.json("bench", *args, "--tasks", "200")
                self.assertEqual(figure["bench"], args[0])
                self.assertEqual(figure["tasks"], 200)
                self.assertGreater(figure["tasks_per_second"], 0)
                self.assertAlmostEqual(figure["tasks_per_second"] * figure["seconds"], 200,
                                       places=0)

    def test_latencies_are_sorted_and_no_task_starts_early(self):
        for args in LATENCIES:
            with self.subTest(args=args):
                figure = self.json("bench", "latency", "--tasks", "20", *args)
                self.assertEqual(figure["samples"], 20)
                names = ["min_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"]
                values = [figure[name] for name in names]
                self.assertEqual(values, sorted(values))
                self.assertGreaterEqual(values[0], 0)

    def test_deaths_say_when_their_task_is_pending_again(self):
        for signal in ("9", "11"):
            with self.subTest(signal=signal):
                figure = self.json("bench", "deaths", "--tasks", "10", "--signal", signal)
                self.assertEqual(figure["samples"], 10)
                self.assertGreater(figure["p50_ms"], 0)
                self.assertLessEqual(figure["p50_ms"], figure["max_ms"])
                self.assertGreater(figure["again_p50_ms"], 0)
        self.assertRegex(self.ok("bench", "deaths", "--tasks", "1"), r"^deaths: pending after p50")

    def test_an_unknown_pool_is_a_usage_error(self):
        self.fails(EXIT_USAGE, "bench", "drain", "--pool", "fibers")
        self.fails(EXIT_USAGE, "bench", "latency", "--pool", "exec")

    def test_children_tell_what_they_use(self):
        figure = self.json("bench", "drain", "--tasks", "200", "--pool", "prefork")
        for name in ("child_cpu_us", "child_rss_bytes", "zygote_rss_bytes"):
            self.assertGreater(figure[name], 0)

    def test_figures_are_readable_lines_without_json(self):
        self.assertRegex(self.ok("bench", "enqueue", "--tasks", "10"), r"^enqueue: \d+ tasks/s")
        self.assertRegex(self.ok("bench", "latency", "--tasks", "3"), r"^latency: p50 \d+\.\d+ ms")

    def test_nouns_follow_their_number(self):
        for count, noun in ((1, "task"), (2, "tasks")):
            shown = self.ok("bench", "enqueue", "--tasks", str(count))
            self.assertRegex(shown, rf"\({count} {noun} of \d+ bytes in ")
        self.assertRegex(self.ok("bench", "latency", "--tasks", "1"), r"\(1 sample, min ")
        self.assertRegex(self.ok("bench", "latency", "--tasks", "2"), r"\(2 samples, min ")

    def test_the_users_broker_is_left_alone(self):
        self.enqueue("mine")
        before = self.json("stats")["totals"]
        self.ok("bench", "drain", "--tasks", "50")
        self.assertEqual(self.json("stats")["totals"], before)
        self.assertEqual(os.listdir(self.scratch), [])

    def test_a_given_broker_keeps_its_tasks_and_loses_the_benchs(self):
        self.enqueue("mine", "--queue", "quern-bench")  # of a bench that was killed
        task_id = self.enqueue("mine")
        self.ok("bench", "enqueue", "--tasks", "50", "--broker", self.broker)
        self.assertEqual([queue["name"] for queue in self.json("queue", "list")], ["default"])
        self.assertEqual(self.state(task_id), "pending")

    def test_a_load_reports_what_the_workers_used(self):
        figure = self.json("bench", "drain", "--tasks", "200")
        self.assertGreater(figure["worker_cpu_us"], 0)
        self.assertGreater(figure["worker_rss_bytes"], 100000)

    def test_several_queues_are_removed_again(self):
        self.enqueue("mine")
        self.ok("bench", "drain", "--tasks", "50", "--queues", "3", "--active", "20",
                "--broker", self.broker)
        self.assertEqual([queue["name"] for queue in self.json("queue", "list")], ["default"])

    def test_standing_tasks_are_used_and_stay(self):
        standing = ("--broker", self.broker, "--standing", "--tasks")
        self.ok("bench", "enqueue", *standing, "2000")
        self.ok("bench", "drain", *standing, "100")
        self.ok("bench", "e2e", *standing, "100")
        # A worker may have run some more when it sees that it has had its tasks.
        left = self.json("stats")["totals"]["counts"]["pending"]
        self.assertGreater(left, 1000)
        self.assertLessEqual(left, 1900)
        self.assertIn(f"only {left} tasks", self.fails(1, "bench", "drain", *standing, "2000"))

    def test_standing_tasks_need_a_broker(self):
        self.fails(EXIT_USAGE, "bench", "drain", "--standing")

    def test_memory_is_refused_where_processes_must_share_it(self):
        for verb in ("enqueue", "drain", "e2e", "latency"):
            self.assertIn("name a file",
                          self.fails(EXIT_CONFIG, "--broker", "memory:", "bench", verb))

    def test_delayed_at_a_rate_is_refused(self):
        self.fails(EXIT_USAGE, "bench", "latency", "--delayed", "--rate", "10")

    def test_wrong_numbers_are_refused(self):
        for args in (["--tasks", "0"], ["--batch", "0"], ["--tasks", "many"], ["--payload", "-1"]):
            with self.subTest(args=args):
                self.fails(EXIT_USAGE, "bench", "enqueue", *args)

    def test_a_folder_that_cannot_be_created_is_reported(self):
        shutil.rmtree(self.scratch)
        self.assertIn("scratch", self.fails(1, "bench", "enqueue", "--tasks", "1"))


if __name__ == "__main__":
    lib_cli.main()
