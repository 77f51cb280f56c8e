#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traces of tasks that Go enqueues: without headers, and with that of a Go program; and what Go
sees of the trace of a task of ours."""

import sys

import lib_interop
from lib_interop import PATIENCE_S, InteropTest, b64

try:
    from lib_collector import Collector
except ImportError as fault:  # scripts/bootstrap could not fetch it
    print(f"skipped: {fault}")
    sys.exit(lib_interop.EXIT_SKIPPED)

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class TraceTest(InteropTest):
    def setUp(self):
        super().setUp()
        self.collector = Collector()
        self.addCleanup(self.collector.stop)

    def runs(self, count):
        """Runs what Go has enqueued; its spans."""
        result = self.quern_result("work", "--drain", "--otlp", self.collector.url,
                                   "--exec", "ok=true")
        self.assertEqual(result.returncode, 0, result.stderr)
        spans = self.collector.wait_for(lambda spans: len(spans) >= count, PATIENCE_S)
        self.assertEqual(len(spans), count, spans)
        return spans

    def go_enqueue(self, **task):
        return self.go("enqueue", task={"type": "ok", "payload": b64(b""), **task})

    def test_task_without_headers_begins_a_trace(self):
        info = self.go_enqueue()
        wait, run = self.runs(2)
        self.assertEqual((wait.name, run.name), ("wait default", "run default"))
        self.assertEqual({wait.trace, run.trace}, {info["id"].replace("-", "")})
        self.assertEqual((wait.parent, run.parent), ("", wait.id))
        self.assertLess(wait.start, wait.end + 1)

    def test_task_with_an_id_that_is_no_uuid_begins_one_too(self):
        self.go_enqueue(id="invoice-17")
        wait, run = self.runs(2)
        self.assertEqual(wait.trace, run.trace)
        self.assertEqual((wait.parent, run.parent), ("", wait.id))

    def test_trace_of_a_go_program_goes_on(self):
        self.go_enqueue(headers={"traceparent": PARENT, "tracestate": "a=b"})
        wait, run = self.runs(2)
        self.assertEqual({wait.trace, run.trace}, {TRACE})
        self.assertEqual((wait.parent, run.parent), (PARENT[36:52], wait.id))
        self.assertEqual((wait.state, run.state), ("a=b", "a=b"))

    def test_go_sees_the_trace_of_our_task(self):
        info = self.enqueue("ok", b"", "--otlp", self.collector.url)
        span = self.collector.wait_for(bool, PATIENCE_S)[0]
        theirs = self.go("task", queue="default", id=info["id"])
        self.assertEqual(theirs["headers"], {"traceparent": f"00-{span.trace}-{span.id}-01"})


if __name__ == "__main__":
    lib_interop.main()
