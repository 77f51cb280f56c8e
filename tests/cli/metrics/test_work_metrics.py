#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""/metrics at the health port of a worker: what its runs, its exchanges and its broker did."""

import re
import signal

import lib_cli
import lib_redis
from lib_metrics import Metrics, scrape

OPEN = "application/openmetrics-text"
LOOP = """import json, sys
print('{"ready":true}', flush=True)
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "outcome": "done"}), flush=True)
"""


class WorkMetricsTest(lib_cli.CliTest):
    def work(self, *args):
        worker = self.start("work", "--health-port", "0", *args)
        at = self.until(lambda: re.search(r"health is served at=\S+:(\d+)",
                                          self.read(worker.log_name)), "it listens").group(1)
        worker.port = int(at)
        return worker

    def scrape(self, worker, accept=""):
        return Metrics(scrape(worker.port, accept), is_open=bool(accept))

    def until_outcomes(self, worker, count):
        self.until(lambda: self.scrape(worker).sum("quern_task_outcomes_total") >= count,
                   f"{count} runs ended")
        return self.scrape(worker)

    def test_runs_by_queue_type_and_outcome(self):
        for number in range(5):
            self.enqueue("good", str(number))
        self.enqueue("bad", "--retry", "5")
        self.enqueue("last", "--retry", "never", "--queue", "low")
        self.enqueue("dies", "--retry", "never", "--queue", "low")
        worker = self.work("--exec", "good=true", "--exec", "bad=exit 3", "--exec", "last=exit 4",
                           "--exec", "dies=kill -SEGV $$", "--queue", "default=2", "--queue",
                           "low=1")
        # The one that dies gets another run, alone, unless its attempts are used up.
        metrics = self.until_outcomes(worker, 8)
        outcomes = {tuple(sorted(dict(labels).values())): value
                    for (name, labels), value in metrics.samples.items()
                    if name == "quern_task_outcomes_total"}
        self.assertEqual(outcomes, {("default", "done"): 5, ("default", "retried"): 1,
                                    ("archived", "low"): 1, ("crashed", "low"): 1})
        run = "quern_task_run_seconds_count"
        self.assertEqual(metrics.get(run, queue="default", type="good", outcome="done"), 5)
        self.assertEqual(metrics.get(run, queue="low", type="last", outcome="archived"), 1)
        self.assertEqual(metrics.get("quern_task_wait_seconds_count", queue="default", type="good"),
                         5)
        self.assertEqual(metrics.get("quern_task_retries_total", queue="default", type="bad"), 1)
        self.assertEqual(metrics.get("quern_task_retries_total", queue="low", type="last"), None)
        self.assertEqual(metrics.get("quern_worker_child_crashes_total", signal="SIGSEGV"), 1)
        self.assertEqual(metrics.get("quern_leases_lost_total"), 0)
        self.assertEqual(metrics.get("quern_exchange_runs_sum"), 8)
        self.assertGreaterEqual(metrics.get("quern_broker_roundtrip_seconds_count"), 1)
        self.assertEqual(metrics.get("quern_worker_ready"), 1)
        self.assertEqual(metrics.get("quern_worker_live"), 1)
        self.assertGreater(metrics.get("quern_worker_last_fetch_timestamp_seconds"), 1.6e9)
        self.assertGreater(metrics.check_histograms(), 6)
        again = self.scrape(worker, OPEN)
        again.check_histograms()
        plain = {key for key in again.samples if not key[0].endswith("_created")}
        self.assertEqual(plain, set(metrics.samples))
        self.assertIn("quern_task_outcomes_created", again.names())
        self.assertEqual(again.heads["quern_build"]["TYPE"], "info")
        worker.send_signal(signal.SIGTSTP)
        self.until(lambda: self.scrape(worker).get("quern_worker_ready") == 0, "it is quiet")
        self.assertEqual(self.stop(worker), 0)

    @lib_cli.only("sqlite")
    def test_many_types_end_in_other(self):
        lines = "".join(f'{{"type":"type-{number}"}}\n' for number in range(320))
        self.ok("enqueue", "--from", "-", stdin=lines)
        self.write("loop.py", LOOP)
        worker = self.work("--exec-loop", "*=exec python3 loop.py", "--concurrency", "1")
        metrics = self.until_outcomes(worker, 320)
        waits = {dict(labels)["type"]: value for (name, labels), value in metrics.samples.items()
                 if name == "quern_task_wait_seconds_count"}
        self.assertEqual((len(waits), waits["other"]), (301, 20))
        self.assertEqual(metrics.get("quern_metrics_lost_total"), 0)
        self.assertEqual(self.stop(worker), 0)

    @lib_cli.only("redis")
    def test_without_a_broker_and_after_an_outage(self):
        path = self.path("r.sock")
        self.env["QUERN_BROKER"] = f"redis-socket://{path}"
        worker = self.work("--exec", "*=true")
        metrics = self.scrape(worker)
        self.assertEqual(metrics.get("quern_task_outcomes_total"), None)
        self.assertGreater(metrics.get("process_open_fds"), 3)
        self.processes.append(lib_redis.start_server(path))
        self.until(lambda: self.scrape(worker).get("quern_worker_ready") == 1, "it works")
        self.processes[-1].kill()
        self.processes[-1].wait()
        self.until(lambda: self.scrape(worker).get("quern_broker_failures_total") > 0, "it is away")
        before = self.scrape(worker).get("quern_broker_reconnects_total")
        self.processes.append(lib_redis.start_server(path))
        self.until(lambda: self.scrape(worker).get("quern_broker_reconnects_total") == before + 1,
                   "it is back")
        self.stop(worker)


if __name__ == "__main__":
    lib_cli.main()
