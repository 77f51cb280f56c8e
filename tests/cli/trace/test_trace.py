#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trace of a task: from the environment of `quern enqueue` into its headers, from there to its
command and to tasks that this enqueues, and into every log line about it."""

import json
import re

import lib_cli
from lib_cli import CliTest

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
OTHER = "00-00000000000000000000000000000abc-00000000000000ff-00"
CALLER = {"TRACEPARENT": PARENT, "TRACESTATE": "a=b,c=d"}


class TraceTest(CliTest):
    def headers(self, *args, env=None):
        return self.task(self.enqueue("t", *args, env=env and {**self.env, **env}))["headers"]

    def test_trace_of_the_caller_becomes_headers(self):
        self.assertEqual(self.headers(env=CALLER),
                         {"traceparent": PARENT, "tracestate": "a=b,c=d"})
        self.assertEqual(self.headers("--header", "x=y", env={"TRACEPARENT": PARENT}),
                         {"x": "y", "traceparent": PARENT})

    def test_header_that_is_given_wins(self):
        self.assertEqual(self.headers("--header", "Traceparent=" + OTHER, env=CALLER),
                         {"Traceparent": OTHER})

    def test_what_is_not_valid_is_dropped(self):
        broken = "00-" + "0" * 32 + PARENT[35:]
        for text in ("", "garbage", PARENT.upper(), PARENT + "-more", broken):
            self.assertEqual(self.headers(env={"TRACEPARENT": text, "TRACESTATE": "a=b"}), {}, text)
        self.assertEqual(self.headers(env={"TRACEPARENT": PARENT, "TRACESTATE": "NO"}),
                         {"traceparent": PARENT})

    def test_each_line_of_a_file_gets_it_unless_it_has_its_own(self):
        lines = [{"type": "t", "id": "a"}, {"type": "t", "id": "b", "headers": {"x": "y"}},
                 {"type": "t", "id": "c", "headers": {"traceparent": OTHER}}]
        self.ok("enqueue", "--from", "-", stdin="\n".join(map(json.dumps, lines)),
                env={**self.env, **CALLER})
        self.assertEqual([self.task(name)["headers"].get("traceparent") for name in "abc"],
                         [PARENT, PARENT, OTHER])

    def test_command_continues_the_trace_of_its_task(self):
        self.env["PARENT_PROGRAM"] = self.program
        first = self.enqueue("t", env={**self.env, **CALLER})
        self.enqueue("plain")
        self.drain("t=echo \"$TRACEPARENT $TRACESTATE\" > seen; "
                   "\"$PARENT_PROGRAM\" enqueue child --queue other > child",
                   "plain=echo \"[$TRACEPARENT]\" > plain")
        self.assertEqual(self.read("seen").split(), [PARENT, "a=b,c=d"])
        self.assertEqual(self.read("plain").strip(), "[]")
        self.assertEqual(self.state(first), "gone")
        child = self.task(self.read("child").strip())
        self.assertEqual(child["headers"], {"traceparent": PARENT, "tracestate": "a=b,c=d"})

    def test_every_log_line_of_a_task_has_its_trace(self):
        self.enqueue("fails", "--retry", "never", env={**self.env, **CALLER})
        self.enqueue("noisy", env={**self.env, **CALLER})
        self.enqueue("ends", env={**self.env, **CALLER})
        self.enqueue("untraced")
        result = self.quern("work", "--drain", "--verbose", "--log-format", "logfmt",
                            "--log-stderr", "--exec", "fails=exit 1", "--exec",
                            "noisy=echo hm >&2; echo no-order=1 >&3; echo retry-in >&3",
                            "--exec", "ends=true", "--exec", "untraced=true")
        lines = [line for line in result.stderr.splitlines() if re.search(r"\bid=", line)]
        traced = [line for line in lines if f"trace_id={TRACE}" in line]
        self.assertEqual([line for line in lines if line not in traced],
                         [line for line in lines if "type=untraced" in line], result.stderr)
        for word in ("task archived", "stderr of a command", "run ended"):
            self.assertTrue([line for line in traced if word in line], f"{word}: {result.stderr}")

    def test_run_report_has_the_trace(self):
        self.enqueue("t", env={**self.env, **CALLER})
        self.enqueue("u")
        out = self.ok("--json", "work", "--drain", "--exec", "*=true")
        runs = {run["type"]: run for run in map(json.loads, out.splitlines())}
        self.assertEqual(runs["t"]["trace_id"], TRACE)
        self.assertNotIn("trace_id", runs["u"])


if __name__ == "__main__":
    lib_cli.main()
