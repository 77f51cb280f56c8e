# SPDX-License-Identifier: MIT
"""What the tests of the program share: a fresh home for each test, and running quern in it.

QUERN names the program. Each test works in a temporary directory that is removed at its end, with
its own broker; processes that a test started and left are killed. Waiting is for conditions, with
a deadline; nothing sleeps and hopes.

QUERN_TEST_BROKER says over which broker: "sqlite", the default, is a file in that directory;
"redis" is a server of this program, which each test finds empty."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import lib_redis

DEADLINE_S = 60
EXIT_FAILURE, EXIT_USAGE, EXIT_DATA, EXIT_BROKER, EXIT_TEMPORARY, EXIT_CONFIG = 1, 2, 65, 69, 75, 78
EXIT_DENIED = 77
BROKER = os.environ.get("QUERN_TEST_BROKER", "sqlite")
FULL = os.environ.get("QUERN_TEST_FULL") == "1"  # the larger counts
SERVERS = []  # the one of this program, once it runs


def only(broker):
    """Marks tests of what one broker alone has."""
    return unittest.skipUnless(BROKER == broker, f"of {broker} only")


def the_server():
    if not SERVERS:
        SERVERS.append(lib_redis.Redis("--appendonly", "yes"))
        atexit.register(SERVERS[0].stop)
    return SERVERS[0]


class CliTest(unittest.TestCase):
    def setUp(self):
        self.program = os.environ["QUERN"]
        self.home = tempfile.mkdtemp(prefix="quern-cli-")
        self.broker = os.path.join(self.home, "q.db")
        if BROKER == "redis":
            self.redis = the_server()
            self.redis.do("FLUSHALL")
            self.broker = self.redis.url()
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("QUERN", "XDG_"))}
        self.env.update(HOME=self.home, QUERN_BROKER=self.broker)
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        shutil.rmtree(self.home, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.home, name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def fifo(self, name):
        """A pipe that a handler can wait at: reading blocks until the test writes, or for ever."""
        os.mkfifo(self.path(name))

    # --- running ---------------------------------------------------------------------------

    def quern(self, *args, stdin="", env=None):
        """Runs the program to its end; text is decoded with surrogates for stray bytes."""
        return subprocess.run([self.program, *args], input=stdin, capture_output=True,
                              env={**self.env, **(env or {})}, cwd=self.home, timeout=DEADLINE_S,
                              encoding="utf-8", errors="surrogateescape", check=False)

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
            process = subprocess.Popen([self.program, *args], env=self.env, cwd=self.home,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=log, encoding="utf-8")
        process.log_name = name
        self.processes.append(process)
        return process

    def stop(self, process, number=signal.SIGTERM):
        """Sends the signal, waits for the end, gives the exit code."""
        process.send_signal(number)
        return self.end(process)

    def end(self, process):
        try:
            process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"still running: {self.read(process.log_name)}")
        return process.returncode

    def wait_until(self, condition, what):
        """Polls until the condition holds and gives its value."""
        ends = time.monotonic() + DEADLINE_S
        pause = threading.Event()
        while time.monotonic() < ends:
            value = condition()
            if value:
                return value
            pause.wait(0.02)
        logs = "".join(self.read(process.log_name) for process in self.processes)
        return self.fail(f"not within {DEADLINE_S} s: {what}\n{logs}")

    # --- shortcuts -------------------------------------------------------------------------

    def enqueue(self, *args, **kwargs):
        return self.ok("enqueue", *args, **kwargs)

    def task(self, task_id):
        return self.json("task", "inspect", task_id)

    def state(self, task_id):
        result = self.quern("--json", "task", "inspect", task_id)
        return json.loads(result.stdout)["state"] if result.returncode == 0 else "gone"

    def wait_state(self, task_id, state):
        self.wait_until(lambda: self.state(task_id) == state, f"{task_id} is {state}")
        return None if state == "gone" else self.task(task_id)

    def drain(self, *execs, options=()):
        """Runs a worker until the queues are empty."""
        args = [word for text in execs for word in ("--exec", text)]
        return self.ok("work", "--drain", *args, *options)

    def counts(self, queue="default"):
        for info in self.json("queue", "list"):
            if info["name"] == queue:
                return info["counts"]
        return {}


def main():
    unittest.main(verbosity=2)
