# SPDX-License-Identifier: MIT
"""lib_proxy.py - the proxy of the fault tests (tests/fault/proxy) for tests in Python.

    with Proxy("127.0.0.1:6379") as proxy:
        proxy.order("rule cut-after to=EVALSHA count=1")
        ... f"redis://{proxy.address}"
        proxy.order("state swallows")

The orders are those of tests/fault/proxy/proxy.c. Each deed is a line in proxy.log.
"""
import os
import subprocess
import threading


class Proxy:
    """Stands before the server, 127.0.0.1:PORT or the path of a Unix socket, until closed."""

    def __init__(self, server, *options):
        program = os.path.join(os.environ["QUERN_BUILD"], "tests", "fault_proxy")
        self.process = subprocess.Popen([program, "--server", server, *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.log = []
        self.answers = []
        self.change = threading.Condition()
        word, _, self.address = self.process.stdout.readline().strip().partition(" ")
        assert word == "ready", word
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.change:
                kept = self.answers if line.startswith("ok ") else self.log
                kept.append(line.strip())
                self.change.notify_all()

    def order(self, text):
        """Returns the number of its answer."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        with self.change:
            assert self.change.wait_for(lambda: self.answers, 30), text
            return int(self.answers.pop(0).split()[1])

    def close(self):
        self.process.stdin.close()
        self.reader.join()
        assert self.process.wait() == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
