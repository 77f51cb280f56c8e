#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is in contrib for Prometheus and Grafana, by promtool: the alert rules and their tests, the
queries of the dashboard, and the lint of our own output."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import lib_cli
from lib_metrics import SUFFIXES, Metrics, scrape

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
RULES = SOURCE / "contrib/prometheus/quern.rules.yml"
BOARD = SOURCE / "contrib/grafana/quern.json"
PROMTOOL = shutil.which("promtool")
NAMES = re.compile(r"\b(?:asynq|quern|process)_\w+")
# Names of asynq that promtool would not choose.
ODD = {f'{name} non-counter metrics should not have "_total" suffix'
       for name in ("asynq_tasks_enqueued_total", "asynq_queue_paused_total")}


def exprs_of_board():
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]


class ContribTest(lib_cli.CliTest):
    def exported(self):
        """The names of all samples that the exporter and a worker have."""
        self.enqueue("bad", "--retry", "3")
        self.enqueue("dies", "--retry", "never")
        worker = self.start("work", "--exec", "bad=exit 3", "--exec", "dies=kill -KILL $$",
                            "--health-port", "0")
        self.until(lambda: "its attempts are used up" in self.read(worker.log_name) and
                   "run failed" in self.read(worker.log_name), "both ran")
        port = re.search(r"is served at=\S+:(\d+)", self.read(worker.log_name)).group(1)
        texts = [scrape(int(port)), self.ok("metrics") + "\n"]
        self.stop(worker)
        return texts

    def test_rules_and_dashboard_name_what_there_is(self):
        texts = self.exported()
        known = {"quern_broker_up", *(name for text in texts for name in Metrics(text).names())}
        if lib_cli.BROKER != "redis":
            known.add("asynq_queue_memory_usage_approx_bytes")
        used = set(NAMES.findall(" ".join(exprs_of_board())))
        rules = RULES.read_text(encoding="utf-8")
        used |= set(NAMES.findall("\n".join(line for line in rules.splitlines()
                                            if not line.startswith("#"))))
        self.assertGreater(len(used), 20)
        self.assertEqual(used - known, set())
        seen = {name for text in texts for name in Metrics(text).heads}
        shown = {name.removesuffix(suffix) for name in used for suffix in ("", *SUFFIXES)} | used
        # What neither a rule nor a panel shows is here on purpose.
        self.assertEqual(
            {name for name in seen - shown if not name.startswith("process_")},
            {"asynq_queue_size", "quern_build_info", "quern_metrics_lost_total",
             "quern_queue_aggregating_tasks", "quern_queue_trimmed_total",
             "quern_worker_quarantined_handlers"})
        page = set(NAMES.findall((SOURCE / "docs/guide/metrics.md").read_text(encoding="utf-8")))
        families = {*seen, "quern_broker_up", "asynq_queue_memory_usage_approx_bytes"}
        self.assertEqual(families - page, set(), "the page lacks them")
        self.assertEqual({name for name in page - families
                          if not name.startswith(("quern_metrics_", "quern_worker_get"))}, set(),
                         "only the page has them")
        if PROMTOOL:
            self.lint(texts)

    def lint(self, texts):
        for text in texts:
            result = subprocess.run([PROMTOOL, "check", "metrics"], input=text,
                                    capture_output=True, check=False, encoding="utf-8")
            self.assertLessEqual(set((result.stdout + result.stderr).splitlines()), ODD)

    @unittest.skipUnless(PROMTOOL, "no promtool (Debian: prometheus; scripts/bootstrap --all)")
    def test_rules_fire_and_stay_silent(self):
        template = (SOURCE / "tests/prometheus/rules.test.yml").read_text(encoding="utf-8")
        place = self.write("rules.test.yml", template.replace("[RULES]", json.dumps([str(RULES)])))
        for words in ("check", "rules", str(RULES)), ("test", "rules", place):
            result = subprocess.run([PROMTOOL, *words], capture_output=True, check=False,
                                    encoding="utf-8")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        alerts = re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8"))
        for alert in alerts:
            self.assertIn(f"alertname: {alert}\n", template, "no test of it")

    @unittest.skipUnless(PROMTOOL, "no promtool (Debian: prometheus; scripts/bootstrap --all)")
    def test_queries_of_the_dashboard_are_understood(self):
        rules = [{"record": f"r:{number}",
                  "expr": expr.replace("$__rate_interval", "1m")}
                 for number, expr in enumerate(exprs_of_board())]
        place = self.write("board.yml", json.dumps({"groups": [{"name": "b", "rules": rules}]}))
        result = subprocess.run([PROMTOOL, "check", "rules", place], capture_output=True,
                                check=False, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(f"{len(rules)} rules found", result.stdout + result.stderr)


if __name__ == "__main__":
    lib_cli.main()
