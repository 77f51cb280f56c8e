#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`quern metrics`: printed once, served to many, and over a broker that comes and goes."""

import contextlib
import http.client
import os
import re
import signal
import socket

import lib_cli
import lib_redis
from lib_metrics import Metrics

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
# As Prometheus 2.42 asks.
ACCEPT = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
          "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")


class MetricsTest(lib_cli.CliTest):
    def serve(self, *args):
        exporter = self.start("metrics", *(args or ("--port", "0")))
        at = self.until(lambda: re.search(r"metrics are served at (\S+)",
                                          self.read(exporter.log_name)), "it listens").group(1)
        exporter.at = at
        return exporter

    def ask(self, exporter, path="/metrics", method="GET", accept=None):
        host, _, port = exporter.at.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), lib_cli.PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, headers={"Accept": accept} if accept else {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    def scrape(self, exporter):
        status, kind, text = self.ask(exporter, accept=ACCEPT)
        self.assertEqual((status, kind), (200, OPEN))
        return Metrics(text, is_open=True)

    def test_printed_once(self):
        for number in range(3):
            self.ok("enqueue", "mail", str(number))
        self.ok("enqueue", "mail", "x", "--in", "1h", "--queue", 'o"d\\d')
        metrics = Metrics(self.ok("metrics") + "\n")
        name = "asynq_tasks_enqueued_total"
        self.assertEqual(metrics.heads[name]["TYPE"], "gauge")
        self.assertEqual(metrics.get(name, queue="default", state="pending"), 3)
        self.assertEqual(metrics.get(name, queue='o"d\\d', state="scheduled"), 1)
        self.assertEqual(metrics.get("asynq_queue_size", queue="default"), 3)
        self.assertEqual(metrics.get("quern_workers", status="active"), 0)
        self.assertEqual("asynq_queue_memory_usage_approx_bytes" in metrics.heads,
                         lib_cli.BROKER == "redis")
        again = Metrics(self.ok("metrics", "--format", "openmetrics") + "\n", is_open=True)
        self.assertEqual({key for key in metrics.samples}, {key for key in again.samples})
        self.assertEqual(again.heads["asynq_tasks_processed"]["TYPE"], "counter")
        document = self.json("metrics")
        self.assertEqual(document["content_type"], TEXT)
        self.assertEqual(Metrics(document["text"]).samples.keys(), metrics.samples.keys())

    def test_served(self):
        self.ok("enqueue", "mail")
        exporter = self.serve()
        metrics = self.scrape(exporter)
        self.assertEqual(metrics.get("asynq_queue_size", queue="default"), 1)
        self.assertEqual(metrics.get("quern_broker_up"), 1)
        self.assertGreater(metrics.get("process_start_time_seconds"), 1.6e9)
        self.assertGreater(metrics.get("process_resident_memory_bytes"), 1e6)
        self.assertGreater(metrics.get("process_open_fds"), 3)
        self.assertEqual(metrics.get("quern_build_info",
                                     version=self.ok("--version").split()[-1]), 1)
        self.ok("enqueue", "mail")
        status, kind, text = self.ask(exporter)
        self.assertEqual((status, kind), (200, TEXT))
        self.assertEqual(Metrics(text).get("asynq_queue_size", queue="default"), 2)
        self.assertEqual(self.ask(exporter, method="HEAD")[2], "")
        self.assertEqual(self.ask(exporter, "/")[0], 404)
        self.assertEqual(self.ask(exporter, method="POST")[0], 405)
        port = exporter.at.rpartition(":")[2]
        self.assertIn("cannot listen", self.fails(lib_cli.EXIT_TEMPORARY, "metrics", "--port",
                                                  port))
        exporter.send_signal(signal.SIGTERM)
        self.assertEqual(exporter.wait(lib_cli.PATIENCE_S), 0)

    def test_at_a_socket(self):
        self.ok("enqueue", "mail")
        place = self.path("m.sock")
        exporter = self.serve("--listen", place)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(place)
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            with client.makefile("rb") as answer:
                self.assertIn(b"quern_broker_up 1", answer.read())
        exporter.send_signal(signal.SIGINT)
        self.assertEqual(exporter.wait(lib_cli.PATIENCE_S), 0)
        self.assertFalse(os.path.exists(place))

    def test_words_that_exclude_each_other_or_are_wrong(self):
        for words in (("--port", "1", "--listen", "2"), ("--format", "text", "--port", "0"),
                      ("--format", "json"), ("--listen", "x:y"), ("--port", "65536")):
            self.fails(lib_cli.EXIT_USAGE, "metrics", *words)
        self.fails(lib_cli.EXIT_BROKER, "--broker", self.path("none.db"), "metrics")

    @lib_cli.only("redis")
    def test_the_server_goes_and_comes(self):
        path = self.path("r.sock")
        self.env["QUERN_BROKER"] = f"redis-socket://{path}"
        exporter = self.serve()
        self.assertEqual(self.scrape(exporter).get("quern_broker_up"), 0)
        server = lib_redis.start_server(path)
        self.processes.append(server)
        self.until(lambda: self.scrape(exporter).get("quern_broker_up") == 1, "it is there")
        self.ok("enqueue", "mail")
        self.assertEqual(self.scrape(exporter).get("asynq_queue_size", queue="default"), 1)
        server.kill()
        server.wait()
        metrics = self.scrape(exporter)
        self.assertEqual(metrics.get("quern_broker_up"), 0)
        self.assertFalse([name for name in metrics.heads if name.startswith("asynq_")])
        log = self.read(exporter.log_name)
        self.assertEqual((log.count("does not answer"), log.count("answers again")), (2, 1), log)

    def test_a_damaged_answer_is_no_end(self):
        """Clients that send garbage, or nothing, do not disturb the next scrape."""
        self.ok("enqueue", "mail")
        exporter = self.serve()
        host, _, port = exporter.at.rpartition(":")
        with contextlib.ExitStack() as stack:
            for garbage in b"", b"\0" * 100, b"GET /metrics", b"GET / HTTP/9.9\r\n\r\n":
                client = stack.enter_context(socket.create_connection((host, int(port))))
                client.sendall(garbage)
            self.assertEqual(self.scrape(exporter).get("quern_broker_up"), 1)
        status, _, text = self.ask(exporter, accept="x" * 5000)
        self.assertEqual(status, 200)
        self.assertEqual(Metrics(text).get("quern_broker_up"), 1)


if __name__ == "__main__":
    lib_cli.main()
