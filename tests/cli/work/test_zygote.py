#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The zygote that forks the commands of quern work: nothing outlives it or its worker, and its end
is a death of the worker."""

import os
import pathlib
import signal

import lib_cli
from lib_cli import CliTest, is_alive

# Says which processes it has, and stays; a second run ends well.
COMMAND = ("t=if [ -e seen.$QUERN_TASK_ID ]; then exit 0; fi; touch seen.$QUERN_TASK_ID;"
           " sleep 1000 & echo $$ $! >> pids; wait")
LOOP = "t=echo '{\"ready\":true}'; read line; echo $$ 0 >> pids; exec sleep 1000"


def children(pid):
    return [int(text) for text in
            pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class ZygoteTest(CliTest):
    def begin(self, option="--exec", command=COMMAND):
        """A worker with two commands that run; gives it, its zygote, and all their processes."""
        ids = [self.enqueue("t"), self.enqueue("t")]
        worker = self.start("work", "--concurrency", "2", option, command)
        self.until(lambda: len(self.pids()) == 4, "both commands run")
        zygotes = [pid for pid in children(worker.pid)
                   if pathlib.Path(f"/proc/{pid}/comm").read_text() == "quern-zygote\n"]
        self.assertEqual(len(zygotes), 1)
        return ids, worker, zygotes[0]

    def pids(self):
        text = self.read("pids") if os.path.exists(self.path("pids")) else ""
        return [int(word) for word in text.split()]

    def all_end(self, *others):
        for pid in [*self.pids(), *others]:
            if pid != 0:
                self.until(lambda: not is_alive(pid), f"process {pid} has ended")

    def test_commands_are_no_children_of_the_worker(self):
        _, worker, zygote = self.begin()
        self.assertEqual(children(worker.pid), [zygote])
        self.assertEqual(os.getsid(self.pids()[0]), zygote)  # the terminal reaches none of them
        self.assertEqual(self.stop(worker, signal.SIGKILL), -signal.SIGKILL)
        self.all_end(zygote)

    def test_the_end_of_the_zygote_is_a_death_of_the_worker(self):
        for option, command in (("--exec", COMMAND), ("--exec-loop", LOOP)):
            ids, worker, zygote = self.begin(option, command)
            os.kill(zygote, signal.SIGKILL)
            self.assertEqual(self.end(worker), 1)
            self.assertIn(f"the zygote of commands (process {zygote}) has ended",
                          self.read(worker.log_name))
            self.all_end()
            for task_id in ids:
                self.assertEqual(self.state(task_id), "active")  # given up by none
            self.drain("t=printf %s $QUERN_CAUSE > cause.$QUERN_TASK_ID")
            for task_id in ids:
                self.assertEqual(self.read(f"cause.{task_id}"), "workerdied")
            os.remove(self.path("pids"))

    def test_nothing_is_left_of_a_worker_that_is_killed_with_its_zygote(self):
        ids, worker, zygote = self.begin()
        os.kill(zygote, signal.SIGSTOP)  # it cannot even notice
        os.kill(worker.pid, signal.SIGKILL)
        os.kill(zygote, signal.SIGKILL)
        self.end(worker)
        self.all_end(zygote)
        self.drain(COMMAND)
        self.assertEqual([self.state(task_id) for task_id in ids], ["gone", "gone"])

    def test_limits_of_a_task_are_those_of_a_process_that_stays(self):
        self.write("busy.py", "import json, sys\n"
                   "print('{\"ready\":true}', flush=True)\n"
                   "for text in sys.stdin:\n"
                   "    task = json.loads(text)\n"
                   "    exec(task['payload'])\n"
                   "    print(json.dumps({'id': task['id'], 'outcome': 'done'}), flush=True)\n")
        worker = self.start("work", "--concurrency", "1", "--exec-loop", "t=python3 busy.py; exit",
                            "--kill-after", "t=30s")
        busy = "while True: pass"
        task_id = self.enqueue("t", busy, "--cpu", "1s", "--retry", "never")
        self.assertIn("its CPU limit was reached", self.wait_state(task_id, "archived")["error"])
        task_id = self.enqueue("t", "x = bytearray(1 << 30)", "--memory", "512MiB",
                               "--retry", "never")
        self.assertIn("MemoryError", self.wait_state(task_id, "archived")["error"])
        self.wait_state(self.enqueue("t", "x = bytearray(1 << 28)"), "gone")
        self.assertEqual(self.stop(worker), 0)


if __name__ == "__main__":
    lib_cli.main()
