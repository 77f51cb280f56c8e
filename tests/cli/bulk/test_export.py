#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern task export, whose lines are enqueued again."""

import base64
import json

import lib_cli
from lib_cli import CliTest, EXIT_USAGE


class ExportTest(CliTest):
    def test_exported_tasks_come_back_byte_for_byte(self):
        binary = bytes(range(256))
        lines = [{"type": "t", "id": "b", "payload_base64": base64.b64encode(binary).decode()},
                 {"type": "t", "id": "c", "payload": "ü\u0000\n", "headers": {"user": "ann"},
                  "retry_max": 3, "timeout": 1.5, "retention": 60},
                 {"type": "mail:x", "id": "d", "payload": {"n": 1.1}, "queue": "other",
                  "process_at": 4_000_000_000.25, "group": "g"},
                 {"type": "u", "id": "e", "payload": "", "timeout": -1}]
        self.ok("enqueue", "--from", "-", stdin="".join(json.dumps(x) + "\n" for x in lines))
        first = self.quern("task", "export")
        self.assertEqual(first.stderr, "quern: task export: 4 tasks\n")
        self.assertEqual(len(first.stdout.splitlines()), 4)
        payload = self.run_quern("task", "inspect", "b", "--payload").stdout
        self.ok("task", "delete", "--match", "", "--yes")
        self.ok("enqueue", "--from", "-", stdin=first.stdout)
        second = self.quern("task", "export")
        self.assertEqual(self.without_times(second.stdout), self.without_times(first.stdout))
        self.assertEqual(self.run_quern("task", "inspect", "b", "--payload").stdout, payload)
        some = self.ok("task", "export", "--match", "type = mail:*", "--queue", "other")
        self.assertEqual([json.loads(line)["id"] for line in some.splitlines()], ["d"])
        self.fails(EXIT_USAGE, "task", "export", "--match", "typ = x")

    def without_times(self, text):
        found = []
        for line in text.splitlines():
            task = json.loads(line)
            del task["saved"]["enqueued_at_ms"]
            found.append(json.dumps(task))
        return found


if __name__ == "__main__":
    lib_cli.main()
