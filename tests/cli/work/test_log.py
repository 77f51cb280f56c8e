#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The log of quern work: its formats, and that nothing stored can forge a line or a field."""

import json
import os
import re
import signal
import socket
import subprocess

import lib_cli
from lib_cli import CliTest, PATIENCE_S, EXIT_TASKS_FAILED, EXIT_USAGE

HOSTILE = 'x" level=error id=forged'


class LogTest(CliTest):
    def failing_run(self, *options):
        """The log of a worker whose only run fails with two lines of errors."""
        self.enqueue(HOSTILE, "--retry", "never", "--id", "real")
        return self.quern("work", "--drain", "--exec", "x=echo one >&2; echo two=2 >&2; exit 1",
                          *options).stderr.splitlines()

    def test_text_is_the_default_and_escapes_what_is_stored(self):
        line = [line for line in self.failing_run() if "attempts are used up" in line][0]
        self.assertRegex(line, r"^20\d\d-[0-9T:.-]+Z warn task archived, its attempts are used up "
                               r'queue=default type="x\\" level=error id=forged" id=real error=')
        self.assertIn(r"one\ntwo=2", line)

    def test_death_of_a_task_without_attempts_is_no_poison(self):
        self.enqueue("t", "--retry", "never", "--id", "a")
        text = self.quern("work", "--drain", "--exec", "t=kill -9 $$").stderr
        self.assertIn("task archived, its attempts are used up", text)
        self.assertNotIn("poison", text)

    def test_logfmt_has_a_pair_for_everything_on_every_line(self):
        lines = self.failing_run("--log-format", "logfmt")
        value = r'(?:[^\s"=\\]+|"(?:[^"\\]|\\.)*")'
        for line in lines:
            self.assertRegex(line, rf"^ts=\S+ level=(?:info|warn|error) msg={value}"
                                   rf"(?: [a-z_]+={value})*$")
        self.assertIn('msg="broker ', lines[0])
        line = [line for line in lines if "attempts are used up" in line][0]
        self.assertEqual(re.findall(r" id=(\S+)", re.sub(r'"(?:[^"\\]|\\.)*"', "", line)), ["real"])

    def test_json_lines_have_types(self):
        lines = [json.loads(line) for line in self.failing_run("--log-format", "json")]
        start = [line for line in lines if line["msg"] == "worker starts"][0]
        self.assertEqual(start["level"], "info")
        self.assertIsInstance(start["concurrency"], int)
        line = [line for line in lines if "attempts are used up" in line["msg"]][0]
        self.assertEqual((line["type"], line["id"], line["level"]), (HOSTILE, "real", "warn"))
        self.assertIn("one\ntwo=2", line["error"])

    def test_nothing_stored_breaks_or_turns_a_line_in_any_format(self):
        self.enqueue("t\u2028level=error", "--retry", "never")
        for name in ("json", "logfmt", "text"):
            self.enqueue("t", "--retry", "never", "--id", f"of-{name}")
            command = "*=printf 'a\\342\\200\\256b\\302\\233c\\342\\200\\251d\\177' >&2; exit 1"
            text = self.quern("work", "--drain", "--exec", command, "--log-format", name).stderr
            self.assertNotRegex(text, "[\x7f-\x9f\u2028-\u202e]", name)
            self.assertEqual(text.splitlines(), text.rstrip("\n").split("\n"), name)
            self.assertIn("of-" + name, text)
            if name == "json":
                lines = [json.loads(line) for line in text.splitlines()]
                self.assertIn("t\u2028level=error", [line.get("type") for line in lines])
                self.assertTrue([line for line in lines
                                 if line.get("error", "").endswith("a\u202eb\x9bc\u2029d\x7f")])

    def test_messages_of_the_program_itself_are_lines_of_the_format_too(self):
        self.ok("db", "init") if lib_cli.BROKER == "sqlite" else None
        worker = self.start("work", "--exec", "t=true", "--on-hup", "reload", "--log-format",
                            "json")
        self.until(lambda: "worker starts" in self.read(worker.log_name), "it runs")
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: "nothing to reload" in self.read(worker.log_name), "it says so")
        self.assertEqual(self.stop(worker), 0)
        wrong = self.fails(EXIT_USAGE, "work", "--exec", "t=true", "--log-format", "json",
                           "--on-hup", "no")
        for line in (self.read(worker.log_name) + wrong).splitlines():
            self.assertIn("msg", json.loads(line))

    def test_full_stdout_is_reported_once_and_the_worker_goes_on(self):
        self.enqueue("t")
        self.enqueue("t")
        with open("/dev/full", "w", encoding="utf-8") as full:
            words = [self.program, "work", "--exec", "t=true", "--drain", "--json"]
            result = subprocess.run(words, env=self.env, cwd=self.home, stdout=full, check=False,
                                    stderr=subprocess.PIPE, encoding="utf-8",
                                    timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("runs are no longer printed"), 1, result.stderr)
        self.assertIn("No space left", result.stderr)
        self.assertIn("done 2", result.stderr)

    def test_unknown_format_is_a_usage_error(self):
        self.assertIn("logfmt", self.fails(EXIT_USAGE, "work", "--exec", "t=true", "--log-format",
                                           "xml"))

    def test_journal_gets_a_priority_and_no_time(self):
        self.enqueue("t", "--retry", "never")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            info = os.fstat(theirs.fileno())
            env = {**self.env, "JOURNAL_STREAM": f"{info.st_dev}:{info.st_ino}"}
            result = subprocess.run([self.program, "work", "--drain", "--exec", "t=exit 1"],
                                    env=env, cwd=self.home, stdin=subprocess.DEVNULL,
                                    stderr=theirs, timeout=PATIENCE_S, check=False)
            self.assertEqual(result.returncode, EXIT_TASKS_FAILED)
            theirs.close()
            lines = ours.makefile(encoding="utf-8").read().splitlines()
        self.assertTrue(all(re.match(r"<[3467]>[^<]", line) for line in lines), lines)
        self.assertTrue([line for line in lines if line.startswith("<4>task archived")], lines)
        self.assertTrue([line for line in lines if line.startswith("<6>worker starts")], lines)


if __name__ == "__main__":
    lib_cli.main()
