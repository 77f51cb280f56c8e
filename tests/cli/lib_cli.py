# SPDX-License-Identifier: MIT
"""What the tests of the program share: a broker for each test, and running quern over it.

QUERN_TEST_BROKER says over which broker: "sqlite", the default, is a file in the home of the test;
"redis" is a server of this program, which each test finds empty."""

import atexit
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios

import lib_redis
from lib_quern import PATIENCE_S, QuernTest, is_alive, main  # pylint: disable=unused-import

EXIT_FAILURE, EXIT_USAGE, EXIT_DATA, EXIT_BROKER, EXIT_TEMPORARY, EXIT_CONFIG = 1, 2, 65, 69, 75, 78
EXIT_TASKS_FAILED, EXIT_DENIED = 3, 77
BROKER = os.environ.get("QUERN_TEST_BROKER", "sqlite")
SERVERS = []  # the one of this program, once it runs


def only(broker):
    """Marks tests of a feature of one broker: over another there is no such test."""
    return lambda test: test if BROKER == broker else None


def the_server():
    if not SERVERS:
        SERVERS.append(lib_redis.Redis("--appendonly", "yes"))
        atexit.register(SERVERS[0].stop)
    return SERVERS[0]


class CliTest(QuernTest):
    def setUp(self):
        super().setUp()
        self.broker = self.path("q.db")
        if BROKER == "redis":
            self.redis = the_server()
            self.redis.do("FLUSHALL")
            self.broker = self.redis.url()
        self.env["QUERN_BROKER"] = self.broker

    def story(self):
        return "".join(self.read(process.log_name) for process in self.processes
                       if hasattr(process, "log_name"))

    def fifo(self, name):
        """A pipe that a handler can wait at: reading blocks until the test writes, or for ever."""
        os.mkfifo(self.path(name))

    # --- running ---------------------------------------------------------------------------

    def quern(self, *args, stdin="", env=None):
        """Runs the program to its end; text is decoded with surrogates for stray bytes."""
        return self.run_quern(*args, env=env, input=stdin, encoding="utf-8",
                              errors="surrogateescape")

    def ok(self, *args, **kwargs):
        """Runs it, expects exit code 0, gives stdout without its last line end."""
        result = self.quern(*args, **kwargs)
        self.assertEqual(result.returncode, 0, f"{args}: {result.stderr}")
        return result.stdout.rstrip("\n")

    def json(self, *args, **kwargs):
        return json.loads(self.ok("--json", *args, **kwargs))

    def fails(self, code, *args, **kwargs):
        """Runs it, expects that exit code and a word on stderr, gives stderr."""
        result = self.quern(*args, **kwargs)
        self.assertEqual(result.returncode, code, f"{args}: {result.stdout}{result.stderr}")
        self.assertIn("quern", result.stderr)
        return result.stderr

    def start(self, *args):
        """Starts the program and leaves it running; its stderr goes to a file."""
        name = self.path(f"stderr-{len(self.processes)}")
        with open(name, "w", encoding="utf-8") as log:
            process = self.spawn(self.program, *args, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=log, encoding="utf-8")
        process.log_name = name
        return process

    def on_terminal(self, *args, columns=80, env=None):
        """Runs the program with a terminal as stdout and stderr; returns its output."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([self.program, *args], stdin=subprocess.DEVNULL, stdout=theirs,
                                   stderr=theirs, env={**self.env, "TERM": "xterm", **(env or {})})
        os.close(theirs)
        text = b""
        try:
            while block := os.read(ours, 65536):
                text += block
        except OSError:
            pass  # the other end is closed: it has ended
        finally:
            os.close(ours)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 0, text)
        return text.decode().replace("\r\n", "\n")

    def stop(self, process, number=signal.SIGTERM):
        """Sends the signal, waits for the end, gives the exit code."""
        process.send_signal(number)
        return self.end(process)

    def end(self, process):
        try:
            process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"still running: {self.read(process.log_name)}")
        return process.returncode

    # --- shortcuts -------------------------------------------------------------------------

    def enqueue(self, *args, **kwargs):
        return self.ok("enqueue", *args, **kwargs)

    def task(self, task_id):
        return self.json("task", "inspect", task_id)

    def state(self, task_id):
        result = self.quern("--json", "task", "inspect", task_id)
        return json.loads(result.stdout)["state"] if result.returncode == 0 else "gone"

    def wait_state(self, task_id, state):
        self.until(lambda: self.state(task_id) == state, f"{task_id} is {state}")
        return None if state == "gone" else self.task(task_id)

    def drain(self, *execs, options=()):
        """Runs a worker until the queues are empty; tasks may fail."""
        args = [word for text in execs for word in ("--exec", text)]
        result = self.quern("work", "--drain", *args, *options)
        self.assertIn(result.returncode, (0, EXIT_TASKS_FAILED), result.stderr)
        return result.stdout.rstrip("\n")

    def assert_ran_once(self, task):
        """By its cause: what a busy machine did not start in time was given back before."""
        self.assertIn(task["cause"], (None, "given back"), task)

    def counts(self, queue="default"):
        for info in self.json("queue", "list"):
            if info["name"] == queue:
                return info["counts"]
        return {}

