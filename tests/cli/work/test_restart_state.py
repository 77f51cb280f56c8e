#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The state that a restarted worker leaves is damaged or of another version, or the broker is away
when the next program reads it."""

import os
import signal
import sqlite3

import lib_cli
from lib_hold import HoldTest

# In the place of the program. It answers the check as the real one, and changes the state before
# it executes that one. `data` is the state, a bytearray.
BETWEEN = """#!/usr/bin/env python3
import os, sys, time
given = os.environ.get("QUERN_TAKE_OVER", "check")
if given != "check":
    fd = int(given)
    data = bytearray(os.pread(fd, 1 << 24, 0))
    {change}
    changed = os.memfd_create("changed", 0)
    os.write(changed, data)
    os.dup2(changed, fd)
    os.close(changed)
os.execv({program!r}, sys.argv)
"""
WAIT = """open("asked", "w").close()
    while not os.path.exists("answered"):
        time.sleep(0.002)"""


class RestartStateTest(HoldTest):
    def change(self, code):
        self.program = os.environ["QUERN"]
        self.replace(BETWEEN.format(change=code, program=self.program))

    def start_changed(self, code, *args):
        """A worker whose next program finds a changed state."""
        if not os.path.lexists(self.path("quern")):
            self.link()
        self.program = self.path("quern")
        self.change("pass")
        self.program = self.path("quern")
        worker = self.work(*args)
        self.change(code)
        return worker

    def check_refused(self, queue, code, why):
        worker = self.start_changed(code, "--queue", queue)
        self.hold(queue, options=("--queue", queue))
        worker.send_signal(signal.SIGUSR2)
        self.assertGreater(self.end(worker), 0)
        self.assertIn(why, self.read(worker.log_name))
        self.assertNotIn("Sanitizer", self.read(worker.log_name))

    def test_states_that_cannot_be_read_are_said_and_lose_nothing(self):
        unreadable = "the state of a worker cannot be read"
        cases = (("data[8] += 1", "the state of the worker has version"),
                 ("data[:] = os.urandom(len(data))", unreadable),
                 ("del data[:]", "there is no state of a worker"),
                 ("del data[10:]", unreadable),
                 ("del data[len(data) // 2:]", "cannot be read"),
                 ("del data[-1]", "cannot be read"),
                 ("data += bytes(8)", "cannot be read"),
                 ("data[12] = 255; data[13] = 255", unreadable),
                 ("os.close(int.from_bytes(data[16:20], 'little'))",
                  "a descriptor of the state is not open"))
        queues = [f"q{number}" for number in range(len(cases))]  # the next worker leaves its tasks
        for queue, (code, why) in zip(queues, cases):
            with self.subTest(code=code):
                self.check_refused(queue, code, why)
        self.write("go", "")
        served = [word for queue in queues for word in ("--queue", queue)]
        worker = self.start("work", "--handlers", "./handlers.so", *served)
        for task_id in queues:
            self.assertEqual(self.wait_state(task_id, "completed")["retry_count"], 0)
            self.assertEqual(self.notes("ended").count(task_id), 1)
        self.assertEqual(self.stop(worker), 0)

    @lib_cli.only("sqlite")
    def test_file_that_is_locked_when_the_next_program_starts(self):
        worker = self.start_changed(WAIT)
        self.hold("a", "b")
        worker.send_signal(signal.SIGUSR2)
        self.until(lambda: os.path.exists(self.path("asked")), "it is replaced")
        other = sqlite3.connect(self.broker, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        self.write("answered", "")
        self.until(lambda: "broker does not answer" in self.story(), "it waits")
        self.write("go", "")
        other.execute("ROLLBACK")
        other.close()
        self.until(lambda: self.continued() == 1, "it continues")
        self.program = os.environ["QUERN"]
        self.check_ended_once(["a", "b"])
        self.assertEqual(self.stop(worker), 0)


if __name__ == "__main__":
    lib_cli.main()
