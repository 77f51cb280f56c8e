#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The recordings in golden/ are those of the committed recorder with the pinned asynq: it is run
once more, and the two differ in nothing but moments, random ids and names of processes."""

import json
import os
import re
import subprocess

import lib_interop
import test_golden
from lib_interop import InteropTest

# What is random or of the moment in the name of a key, a member or a text.
VOLATILE = [(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
            (r"\{[^{}]+:[0-9]+:UUID\}", "{PROCESS}"), (r":20\d\d-\d\d-\d\d$", ":DAY"),
            (r"\[/?[^ ]*server\.go:\d+\]", "[FILE]")]


def steady(text):
    text = text.decode(errors="surrogateescape")
    for pattern, name in VOLATILE:
        text = re.sub(pattern, name, text)
    return text


def shape(scenario):
    """A scenario without its variable parts."""
    found = {}
    for key, (kind, ttl_ms, value) in test_golden.keys_of(scenario).items():
        if kind == "hash" and b"msg" in value:
            fields = dict(value)
            [(_, read)] = test_golden.codec([("task", fields.pop(b"msg"))])
            for name in ("last_failed_at_ms", "completed_at_ms"):
                read[name] = read[name] != [b"0"]
            read["deadline_ms"] = int(read["deadline_ms"][0]) > 4 * 10**12
            for pair in ("header_name", "header_value"):
                read[pair] = sorted(read.get(pair, []))
            read = {name: [steady(text) for text in texts] if isinstance(texts, list) else texts
                    for name, texts in read.items()}
            shown = (read, sorted(field for field in fields if field != b"pending_since"),
                     b"pending_since" in fields, fields[b"state"])
        elif kind in ("list", "set", "zset") and not key.startswith(b"asynq:scheduler"):
            shown = sorted(steady(item) for item in value)
        elif kind == "string" and key.endswith((b"processed", b"failed")):
            shown = value
        else:
            shown = len(value) if kind != "string" else None
        found[steady(key)] = (kind, ttl_ms > 0, shown)
    return found


class RecordingTest(InteropTest):
    def test_the_recorder_makes_the_same_recordings(self):
        self.redis.do("FLUSHALL")
        result = subprocess.run(
            [os.environ["INTEROP_PEER"], "record", self.redis.path, self.home],
            capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        for path in sorted(test_golden.GOLDEN.glob("*.json")):
            with open(path, encoding="utf-8") as file:
                golden = json.load(file)
            with open(self.path(path.name), encoding="utf-8") as file:
                new = json.load(file)
            self.assertEqual(new["asynq"], golden["asynq"])
            # Loops of a server that the recorder does not wait for may or may not have had a turn.
            if path.name in ("enqueue.json", "inspector.json"):
                self.assertEqual(new["scripts"], golden["scripts"])
            for theirs, ours in zip(golden["scenarios"], new["scenarios"], strict=True):
                with self.subTest(path.name + " " + theirs["name"]):
                    self.assertEqual(ours["name"], theirs["name"])
                    self.assertEqual(ours.get("commands"), theirs.get("commands"))
                    self.assertEqual(shape(ours), shape(theirs))


if __name__ == "__main__":
    lib_interop.main()
