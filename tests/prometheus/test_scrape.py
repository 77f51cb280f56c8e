#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A real Prometheus scrapes an exporter and a worker, stores their series, and evaluates the alert
rules: with QUERN_TEST_FULL, as it takes some seconds. The configuration on the page is checked
always."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

import lib_cli
from lib_quern import FULL

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
RULES = str(SOURCE / "contrib/prometheus/quern.rules.yml")
PROMETHEUS = shutil.which("prometheus")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def only_full(test):
    return test if FULL else None


@unittest.skipUnless(PROMETHEUS, "no prometheus (scripts/bootstrap --all)")
class ScrapeTest(lib_cli.CliTest):
    def listens(self, word, *args):
        process = self.start(*args)
        return self.until(lambda: re.search(rf"{word} are served at (\S+)|{word} is served at="
                                            r"(\S+)", self.read(process.log_name)), "it listens")

    def api(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=lib_cli.PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def value(self, expr):
        """Of the only series of it; None: there is none."""
        data = self.api("query", query=expr)
        rows = data["result"] if data else []
        return float(rows[0]["value"][1]) if len(rows) == 1 else None

    def until_value(self, expr, value):
        self.until(lambda: self.value(expr) == value, f"{expr} is {value}")

    def test_configuration_of_the_page_is_right(self):
        page = (SOURCE / "docs/guide/metrics.md").read_text(encoding="utf-8")
        text = re.search(r"```yaml\n(scrape_configs:.*?)```", page, re.S).group(1)
        text = re.sub(r"(?m)^rule_files: .*", f"rule_files: [{RULES}]", text)
        result = subprocess.run(["promtool", "check", "config", self.write("p.yml", text)],
                                capture_output=True, check=False, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        alerts = pathlib.Path(RULES).read_text(encoding="utf-8").count("- alert:")
        self.assertIn(f"{alerts} rules found", result.stdout + result.stderr)

    @only_full
    def test_series_reach_a_real_prometheus(self):
        self.enqueue("sleeps")
        worker = self.listens("health", "work", "--exec", "sleeps=true", "--exec",
                              "dies=kill -9 $$", "--health-port", "0").group(2)
        exporter = self.listens("metrics", "metrics", "--port", "0").group(1)
        self.port = free_port()
        self.write("prometheus.yml", json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [RULES],
            "scrape_configs": [
                {"job_name": "worker", "static_configs": [{"targets": [worker]}]},
                {"job_name": "broker", "static_configs": [{"targets": [exporter]}]}]}))
        with open(self.path("log"), "w", encoding="utf-8") as log:
            self.spawn(PROMETHEUS, "--config.file", self.path("prometheus.yml"),
                       "--storage.tsdb.path", self.path("data"),
                       f"--web.listen-address=127.0.0.1:{self.port}", stdout=log, stderr=log)
        self.until_value('up{job="worker"}', 1)
        self.until_value('up{job="broker"}', 1)
        self.until_value("quern_broker_up", 1)
        self.until_value('quern_task_run_seconds_count{type="sleeps",outcome="done"}', 1)
        self.until_value('quern_task_wait_seconds_bucket{type="sleeps",le="+Inf"}', 1)
        self.until_value('asynq_tasks_processed_total{queue="default"}', 1)
        self.until_value('quern_workers{status="active"}', 1)
        # The format that it asks for is OpenMetrics, in which a time of creation is a series.
        self.until(lambda: self.value('quern_task_run_seconds_created{type="sleeps"}'),
                   "a time of creation")
        kinds = self.api("metadata", metric="quern_task_run_seconds")
        self.assertEqual(kinds["quern_task_run_seconds"][0]["unit"], "seconds")
        self.enqueue("dies", "--retry", "never")
        self.until_value('quern_worker_child_crashes_total{signal="SIGKILL"}', 1)
        groups = self.api("rules")["groups"]
        self.assertEqual({rule["health"] for group in groups for rule in group["rules"]}, {"ok"})
        for target in self.api("targets")["activeTargets"]:
            self.assertEqual((target["health"], target["lastError"]), ("up", ""))


if __name__ == "__main__":
    lib_cli.main()
