# SPDX-License-Identifier: MIT
"""What the tests of --exec-loop share: a process that does what its tasks say."""

from lib_cli import CliTest

# A process that does what the payload of each task says, in Python.
SCRIPT = """
import json, os, signal, sys, time
def say(**line):
    print(json.dumps(line), flush=True)
def answer(outcome="done", **line):
    say(id=task["id"], outcome=outcome, **line)
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
say(ready=True)
for text in sys.stdin:
    task = json.loads(text)
    exec(task.get("payload", "answer()"))
with open("ends", "a") as file:
    file.write("end of input\\n")
"""


class LoopTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("loop.py", SCRIPT)

    def do(self, *lines, options=()):
        """Enqueues a task that the process shall do."""
        return self.enqueue("t", "\n".join(lines), "--retention", "1h", *options)

    def do_once(self, *lines, options=()):
        """The same; it is archived when it fails, so that no retry disturbs the counts."""
        return self.do(*lines, options=("--retry", "never", *options))

    def failed(self, *lines, options=()):
        return self.wait_state(self.do_once(*lines, options=options), "archived")["error"]
