#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Spans of the program: sent to a collector that parses them with OpenTelemetry's definitions, and
what a collector that is dead, slow or broken costs."""

import json
import re
import socket
import sys
import time

import lib_cli
from lib_cli import EXIT_USAGE, PATIENCE_S, CliTest, only

try:
    from lib_collector import Collector
except ImportError as fault:  # scripts/bootstrap could not fetch it
    print(f"skipped: {fault}")
    sys.exit(77)
from lib_tls import make_ca, make_cert

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-1] + "0"
PRODUCER, CONSUMER, ERROR = 4, 5, 2


class OtlpTest(CliTest):
    def setUp(self):
        super().setUp()
        self.collector = self.new_collector()

    def new_collector(self, **options):
        collector = Collector(**options)
        self.addCleanup(collector.stop)
        return collector

    def traced(self, **more):
        return {**self.env, "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url, **more}

    def spans(self, count, collector=None):
        spans = (collector or self.collector).wait_for(lambda spans: len(spans) >= count,
                                                       PATIENCE_S)
        self.assertEqual(len(spans), count, spans)
        return spans

    def work(self, *options, env=None, code=0):
        result = self.quern("work", "--drain", *options, env=env or self.traced())
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    # --- What is sent ------------------------------------------------------------------------

    def test_spans_of_one_task_are_one_trace(self):
        task = self.enqueue("mail:send", "hello", "--queue", "mail",
                            env=self.traced(TRACEPARENT=PARENT, TRACESTATE="a=b"))
        self.work("--queue", "mail", "--exec",
                  "mail:=echo \"$TRACEPARENT $TRACESTATE\" > seen")
        spans = {span.name: span for span in self.spans(3)}
        enqueue, wait, run = (spans[f"{name} mail"] for name in ("enqueue", "wait", "run"))
        self.assertEqual({span.trace for span in (enqueue, wait, run)}, {TRACE})
        self.assertEqual([enqueue.parent, wait.parent, run.parent],
                         [PARENT[36:52], enqueue.id, wait.id])
        self.assertEqual([enqueue.kind, wait.kind, run.kind], [PRODUCER, CONSUMER, CONSUMER])
        self.assertEqual({span.state for span in (enqueue, wait, run)}, {"a=b"})
        self.assertLessEqual(wait.start, wait.end)
        self.assertEqual(wait.end, run.start)
        self.assertEqual(self.read("seen").split(), [f"00-{TRACE}-{run.id}-01", "a=b"])
        common = {"messaging.system": "quern", "messaging.destination.name": "mail",
                  "messaging.message.id": task, "quern.task.type": "mail:send"}
        for span, operation, kind in ((enqueue, "enqueue", "send"), (wait, "wait", "receive"),
                                      (run, "run", "process")):
            expected = {**common, "messaging.operation.name": operation,
                        "messaging.operation.type": kind}
            self.assertEqual({name: span.attributes.get(name) for name in expected}, expected)
            self.assertEqual(span.status, 0)
        self.assertEqual(run.attributes["quern.outcome"], "done")
        self.assertEqual(run.attributes["quern.retry.count"], 0)
        self.assertEqual(run.attributes["messaging.message.body.size"], 5)
        self.assertRegex(run.attributes["quern.worker"], r"^.+:\d+:.+$")
        self.assertEqual(run.resource["service.name"], "quern")
        self.assertEqual(run.resource["telemetry.sdk.name"], "quern")
        for path, headers in self.collector.requests:
            self.assertEqual((path, headers["Content-Type"]), ("/v1/traces", "application/json"))

    def test_task_without_a_trace_begins_one_and_keeps_it_over_retries(self):
        task = self.enqueue("fails", "--retry", "1", "--backoff", "fixed:1ms")
        self.work("--exec", "fails=echo broken >&2; exit 7", code=3)
        spans = self.spans(4)
        self.assertEqual({span.trace for span in spans}, {task.replace("-", "")})
        waits = [span for span in spans if span.name == "wait default"]
        runs = [span for span in spans if span.name == "run default"]
        self.assertEqual({span.parent for span in waits}, {""})
        self.assertEqual([span.parent for span in runs], [span.id for span in waits])
        self.assertEqual([(run.attributes["quern.outcome"], run.attributes["quern.retry.count"],
                           run.attributes.get("quern.cause")) for run in runs],
                         [("retried", 0, None), ("archived", 1, "retry")])
        for run in runs:
            self.assertEqual((run.status, run.attributes["error.type"]), (ERROR, "exit/7"))
            self.assertIn("broken", run.message)

    def test_enqueue_begins_a_trace(self):
        task = self.task(self.enqueue("t", env=self.traced(OTEL_SERVICE_NAME="shop")))
        span = self.spans(1)[0]
        self.assertEqual(task["headers"], {"traceparent": f"00-{span.trace}-{span.id}-01"})
        self.assertEqual((span.parent, span.resource["service.name"]), ("", "shop"))

    def test_each_task_of_a_file_has_its_span_and_refused_ones_fail(self):
        lines = "".join(f'{{"type":"t","id":"{number % 300}"}}\n' for number in range(301))
        self.quern("enqueue", "--from", "-", "--otlp", self.collector.url, stdin=lines)
        spans = self.spans(301)
        self.assertEqual(len({span.trace for span in spans}), 301)
        failed = [span for span in spans if span.status == ERROR]
        self.assertEqual([span.attributes["messaging.message.id"] for span in failed], ["0"])
        self.assertIn("error.type", failed[0].attributes)

    def test_strange_names_are_valid_json(self):
        name = "a\"\\\u00e9\u2028:\U0001f600"
        self.enqueue(name, "--queue", "q\"\\", env=self.traced())
        span = self.spans(1)[0]
        self.assertEqual((span.attributes["quern.task.type"], span.name), (name, "enqueue q\"\\"))

    # --- Sampling ----------------------------------------------------------------------------

    def test_flag_of_the_caller_decides(self):
        task = self.enqueue("t", env=self.traced(TRACEPARENT=UNSAMPLED))
        self.assertEqual(self.task(task)["headers"], {"traceparent": UNSAMPLED})
        self.enqueue("u", env=self.traced())
        self.work("--exec", "*=echo $TRACEPARENT > $QUERN_TASK_TYPE")
        self.assertEqual(self.read("t").strip(), UNSAMPLED)
        self.assertEqual({span.attributes["quern.task.type"] for span in self.spans(3)}, {"u"})

    def test_ratio_chooses_among_new_traces(self):
        lines = '{"type":"t"}\n' * 1000
        self.ok("enqueue", "--from", "-", "--otlp", self.collector.url, "--trace-ratio", "0.5",
                stdin=lines)
        flags = [task["headers"]["traceparent"][-2:]
                 for task in self.json("task", "list", "--limit", "1000")]
        self.assertTrue(350 < flags.count("01") < 650, flags.count("01"))
        self.spans(flags.count("01"))

    def test_ratio_0_still_makes_traces_for_the_log(self):
        result = self.quern("enqueue", "t", env=self.traced(
            OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0"))
        self.assertEqual(self.task(result.stdout.strip())["headers"]["traceparent"][-2:], "00")
        self.assertEqual(self.collector.requests, [])

    # --- Where it is sent --------------------------------------------------------------------

    def test_environment_is_that_of_opentelemetry(self):
        self.enqueue("t", env=self.traced(
            OTEL_EXPORTER_OTLP_ENDPOINT=self.collector.url + "/base/",
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Basic%20YTpi, x-tenant = one",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test%2C1,service.name=shop"))
        span = self.spans(1)[0]
        path, headers = self.collector.requests[0]
        self.assertEqual(path, "/base/v1/traces")
        self.assertEqual((headers["authorization"], headers["x-tenant"]), ("Basic YTpi", "one"))
        self.assertEqual(span.resource["deployment.environment.name"], "test,1")
        self.assertEqual(span.resource["service.name"], "shop")

    def test_it_can_be_turned_off(self):
        other = self.new_collector()
        for more in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"},
                     {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}):
            self.enqueue("t", env=self.traced(**more))
        self.enqueue("t", "--otlp", "none", env=self.traced())
        self.enqueue("t", "--otlp", other.url + "/v1/traces", env=self.traced())
        self.spans(1, other)
        self.assertEqual(self.collector.requests, [])
        self.assertEqual(other.requests[0][0], "/v1/traces")

    def test_wrong_option_is_an_error_and_a_wrong_variable_a_warning(self):
        for url in ("localhost:4318", "ftp://x", "http://", "http://a:b@localhost", "http://a b"):
            self.assertIn("--otlp", self.fails(EXIT_USAGE, "enqueue", "t", "--otlp", url))
        self.assertIn("--trace-ratio", self.fails(EXIT_USAGE, "enqueue", "t", "--trace-ratio", "2",
                                                  "--otlp", self.collector.url))
        for more in ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4317"},
                     {"OTEL_EXPORTER_OTLP_HEADERS": "a%0Db=c"},
                     {"OTEL_EXPORTER_OTLP_HEADERS": "a=b%0Ac"},
                     {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}):
            result = self.quern("enqueue", "t", env=self.traced(**more))
            self.assertEqual(result.returncode, 0)
            self.assertIn("spans are not sent: ", result.stderr)
        self.assertEqual(self.collector.requests, [])

    def test_certificate_is_verified(self):
        for name in ("ours", "theirs"):
            make_ca(self.home, name)
        make_cert(self.home, "server", "ours")
        secure = self.new_collector(tls=(self.path("server.pem"), self.path("server.key")))
        for authority, words in ((None, "certificate"), ("theirs.pem", "certificate")):
            env = dict(self.env)
            if authority:
                env["OTEL_EXPORTER_OTLP_CERTIFICATE"] = self.path(authority)
            result = self.quern("enqueue", "t", "--otlp", secure.url, env=env)
            self.assertEqual(result.returncode, 0)
            self.assertIn("spans cannot be sent", result.stderr)
            self.assertIn(words, result.stderr)
        self.assertEqual(secure.requests, [])
        self.enqueue("t", "--otlp", secure.url,
                     env={**self.env, "OTEL_EXPORTER_OTLP_CERTIFICATE": self.path("ours.pem")})
        self.spans(1, secure)

    # --- Collectors that do not work ---------------------------------------------------------

    def drained_in(self, url, count=200):
        """Runs tasks with this collector; returns the log and the seconds."""
        self.ok("enqueue", "--from", "-", stdin='{"type":"t"}\n' * count)
        began = time.monotonic()
        result = self.work("--otlp", url, "--exec", "t=true", env=self.env)
        self.assertEqual(self.counts().get("pending", 0), 0)
        return result.stderr, time.monotonic() - began

    def test_dead_collector_costs_spans_only(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            log, _ = self.drained_in(f"http://127.0.0.1:{closed.getsockname()[1]}")
        self.assertEqual(len(re.findall("spans cannot be sent", log)), 1, log)
        self.assertEqual(sum(map(int, re.findall(r"spans dropped count=(\d+)", log))), 400, log)

    def test_silent_collector_holds_the_end_up_for_2_s_at_most(self):
        self.collector.held.clear()
        _, plain_s = self.drained_in("none")
        log, spent_s = self.drained_in(self.collector.url)
        self.assertLess(spent_s, plain_s + 2 + 20, log)  # a busy machine; without a bound: for ever
        self.assertIn("spans dropped", log)

    def test_answer_500_drops_a_document_and_503_sends_it_again(self):
        self.collector.status = 500
        self.enqueue("t", env=self.traced())
        worker = self.start("work", "--exec", "t=true", "--otlp", self.collector.url)
        self.until(lambda: "HTTP 500" in self.read(worker.log_name), "it is refused")
        self.collector.status = 503
        second = self.enqueue("t")
        with self.collector.changed:
            before = len(self.collector.requests)
            self.assertTrue(self.collector.changed.wait_for(
                lambda: len(self.collector.requests) > before, PATIENCE_S))
        self.collector.status = 200
        self.collector.wait_for(
            lambda spans: {"wait default", "run default"} <=
            {span.name for span in spans if span.attributes["messaging.message.id"] == second},
            PATIENCE_S)
        self.until(lambda: "spans are sent again" in self.read(worker.log_name), "it is logged")
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(len(re.findall("spans cannot be sent", self.read(worker.log_name))), 1)

    def test_rejected_spans_are_logged(self):
        self.collector.answer = json.dumps({"partialSuccess": {"rejectedSpans": "1"}}).encode()
        result = self.quern("enqueue", "t", env=self.traced())
        self.assertEqual(result.returncode, 0)
        self.assertIn("the collector rejects spans", result.stderr)

    @only("sqlite")
    def test_worker_that_is_stopped_sends_what_waits(self):
        worker = self.spawn(self.program, "work", "--exec", "t=true", "--otlp", self.collector.url)
        task = self.enqueue("t")
        self.wait_state(task, "gone")
        worker.terminate()
        self.assertEqual(worker.wait(PATIENCE_S), 0)
        self.spans(2)


if __name__ == "__main__":
    lib_cli.main()
