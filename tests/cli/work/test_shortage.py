#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A machine that has no descriptor, no process or no room on its disk left: a worker says so,
tries again, loses nothing and charges no task, and goes on when there is some again.

Limits of a running process are changed from outside (prlimit). That of processes does not bind
root: so those workers run as a user of their own. The disk is a small tmpfs in a namespace."""

import errno
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

import lib_cli
from lib_hold import HoldTest

IN_NAMESPACE = "TEST_HAS_OWN_MOUNTS"
UID = 54327
DISK_SIZE = 40 << 20
CANNOT, CAN = "children cannot be started", "children can be started again"


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text(encoding="ascii").split()]
    return found


def descendants(pid):
    """By name; what ends meanwhile is left out."""
    found = {}
    for child in children(pid):
        try:
            name = pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip()
            found.setdefault(name, []).append(child)
            for below, pids in descendants(child).items():
                found.setdefault(below, []).extend(pids)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


class ShortageTest(HoldTest):
    def start_worker(self, *options):
        worker = self.start("work", "--handlers", "./handlers.so", "--concurrency", "2",
                            "--verbose", *options)
        self.until(lambda: len(descendants(worker.pid).get("quern-child", [])) == 2, "children")
        return worker

    def gate(self):
        """A pipe at which commands wait for a line."""
        self.fifo("gate")
        gate = os.open(self.path("gate"), os.O_RDWR)
        self.addCleanup(os.close, gate)
        return gate

    def kill_children(self, worker):
        for pid in descendants(worker.pid).get("quern-child", []):
            os.kill(pid, signal.SIGKILL)

    def attack(self, worker, cut, mend, task_id):
        """Takes away what is needed for new children, while those that there are die; a task waits
        meanwhile. Returns whether it was noticed before it was over."""
        before = self.story().count(CANNOT)
        cut()
        self.kill_children(worker)
        self.enqueue("quick", "--id", task_id, "--retention", "1h")
        self.until(lambda: task_id in self.notes("ran") or self.story().count(CANNOT) > before,
                   "it runs, or the worker says why not")
        noticed = self.story().count(CANNOT) > before
        mend()
        self.until(lambda: task_id in self.notes("ran"), "it has run")
        if noticed:
            self.until(lambda: self.story().count(CAN) == self.story().count(CANNOT), "all is well")
        self.until(lambda: len(descendants(worker.pid).get("quern-child", [])) == 2, "children")
        return noticed

    def check_all(self, worker, ids):
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(sorted(self.notes("ran")), sorted(ids))
        for task in self.json("task", "list"):
            self.assertEqual((task["state"], task["retry_count"], task["crash_count"]),
                             ("completed", 0, 0), task)
            self.assert_ran_once(task)


class DescriptorTest(ShortageTest):
    def sweep(self, worker, pid, first, last):
        """One number of open files after the other."""
        kept = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        ids, noticed = [], 0
        for count in range(first, last):
            ids.append(f"t{count}")
            noticed += self.attack(
                worker,
                lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, kept[1])),
                lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, kept), ids[-1])
        self.assertGreater(noticed, 0)
        self.check_all(worker, ids)

    def test_worker_without_descriptors(self):
        """The limit is below what is open: it counts for what is opened anew."""
        worker = self.start_worker()
        top = max(int(name) for name in os.listdir(f"/proc/{worker.pid}/fd"))
        self.sweep(worker, worker.pid, top - 9, top + 2)
        self.assertIn("Too many open files", self.story())

    def test_zygote_without_descriptors(self):
        worker = self.start_worker()
        [zygote] = descendants(worker.pid)["quern-zygote"]
        self.sweep(worker, zygote, 7, 20)


def as_other_user(program):
    return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", program]


@lib_cli.only("sqlite")  # that user may not reach the server
class ProcessTest(ShortageTest):
    def setUp(self):
        super().setUp()
        if os.getuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root can become another user, by setpriv")
        if subprocess.run([*as_other_user(self.program), "--version"], check=False,
                          capture_output=True, timeout=60).returncode != 0:
            self.skipTest("another user may not execute the program")
        self.write("as-other", "#!/bin/sh\nexec " + " ".join(as_other_user(self.program)) +
                   ' "$@"\n')
        os.chmod(self.path("as-other"), 0o755)
        self.program = self.path("as-other")
        for name in (self.home, *map(self.path, os.listdir(self.home))):
            os.chown(name, UID, UID)

    @staticmethod
    def count():
        """The processes and threads of that user."""
        found = subprocess.run(["ps", "-L", "-U", str(UID), "--no-headers"], check=False,
                               capture_output=True)
        return found.stdout.count(b"\n")

    @staticmethod
    def limit(pid, count):
        """By that user, who needs no right for it."""
        subprocess.run([*as_other_user("prlimit"), f"--nproc={count}:", "--pid", str(pid)],
                       check=True, capture_output=True)

    def test_zygote_without_processes(self):
        """As many as there are, but for some: one that is missing may be the guard or the child."""
        worker = self.start_worker()
        [zygote] = descendants(worker.pid)["quern-zygote"]
        total, ids, noticed = self.count(), [], 0
        for missing in range(-1, 5):
            ids.append(f"t{missing}")
            noticed += self.attack(worker, lambda: self.limit(zygote, total - missing),
                                   lambda: self.limit(zygote, 10000), ids[-1])
        self.assertGreater(noticed, 2)
        self.assertIn("Resource temporarily unavailable", self.story())
        self.check_all(worker, ids)

    def test_reload_without_processes_leaves_the_old_handlers(self):
        worker = self.start_worker()
        self.limit(worker.pid, 1)
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: "handlers not reloaded" in self.story(), "it says so")
        self.assertIn("no process for the zygote: Resource temporarily unavailable", self.story())
        self.run_quick("a")
        self.limit(worker.pid, 10000)
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: "handlers reloaded" in self.story(), "it is reloaded")
        self.run_quick("b")
        self.assertEqual(self.stop(worker), 0)

    def test_commands_without_processes_are_given_back(self):
        worker = self.start("work", "--exec", "t=echo $QUERN_TASK_ID >> ran", "--concurrency", "2")
        self.enqueue("t", "--id", "first", "--retention", "1h")
        self.until(lambda: self.notes("ran") == ["first"], "it runs")
        [zygote] = descendants(worker.pid)["quern-zygote"]
        self.limit(zygote, 1)
        ids = [f"t{number}" for number in range(5)]
        for task_id in ids:
            self.enqueue("t", "--id", task_id, "--retry", "never", "--retention", "1h")
        self.until(lambda: "commands cannot be started" in self.story(), "it says so")
        self.assertIn("Resource temporarily unavailable", self.story())
        self.limit(zygote, 10000)
        self.until(lambda: len(self.notes("ran")) == 6, "all have run")
        self.check_all(worker, ["first", *ids])

    def test_worker_without_threads(self):
        """Commands run side by side on threads, which are made when they are needed."""
        gate = self.gate()
        os.chown(self.path("gate"), UID, UID)
        worker = self.start("work", "--exec", "t=echo $QUERN_TASK_ID >> ran; read -r line < gate",
                            "--concurrency", "4")
        self.until(lambda: "worker starts" in self.story(), "it runs")
        self.limit(worker.pid, 1)
        ids = [f"t{number}" for number in range(4)]
        for task_id in ids:
            self.enqueue("t", "--id", task_id, "--retention", "1h")
        self.until(lambda: len(self.notes("ran")) == 1, "one runs, on the thread that there is")
        self.until(lambda: "threads cannot be started" in self.story(), "it says so")
        self.limit(worker.pid, 10000)
        self.until(lambda: len(self.notes("ran")) == 4, "the others run beside it")
        os.write(gate, b"\n" * 4)
        self.until(lambda: self.counts().get("completed") == 4, "all have ended")
        self.check_all(worker, ids)


class DiskTest(ShortageTest):
    def setUp(self):
        super().setUp()
        if IN_NAMESPACE not in os.environ:
            self.skipTest("no mount namespace of its own (unshare) may be had")
        os.mkdir(self.path("disk"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "none",
                        self.path("disk")], check=True, capture_output=True)

    def tearDown(self):
        super().tearDown()
        subprocess.run(["umount", "-l", self.path("disk")], check=False, capture_output=True)

    def fill(self):
        """To the last byte."""
        fd = os.open(self.path("disk/filler"), os.O_WRONLY | os.O_CREAT, 0o600)
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    os.write(fd, b"x" * size)
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
        os.close(fd)

    @lib_cli.only("sqlite")
    def test_file_of_tasks_on_a_full_disk(self):
        """What ends meanwhile is written when there is room, and is no second run."""
        self.broker = self.path("disk/q.db")
        self.env["QUERN_BROKER"] = self.broker
        gate = self.gate()
        worker = self.start_worker("--exec", "t=echo $QUERN_TASK_ID >> ran; read -r line < gate")
        for task_id in ("a", "b"):
            self.enqueue("t", "--id", task_id, "--retention", "1h")
        self.until(lambda: len(self.notes("ran")) == 2, "they run")
        self.enqueue("quick", "--id", "later", "--retention", "1h")
        self.fill()
        text = self.fails(lib_cli.EXIT_TEMPORARY, "enqueue", "quick", "x" * 100000)
        self.assertIn("full", text)
        os.write(gate, b"\n" * 2)
        self.until(lambda: "database or disk is full" in self.story(), "the worker says so")
        self.assertIsNone(worker.poll())
        os.unlink(self.path("disk/filler"))
        self.until(lambda: self.counts().get("completed") == 3, "all are written, and it goes on")
        self.check_all(worker, ["a", "b", "later"])

    @lib_cli.only("sqlite")
    def test_worker_that_starts_on_a_full_disk(self):
        self.broker = self.path("disk/q.db")
        self.env["QUERN_BROKER"] = self.broker
        self.enqueue("quick", "--id", "a", "--retention", "1h")
        self.fill()
        worker = self.start("work", "--handlers", "./handlers.so")
        self.until(lambda: "No space left on device" in self.story(), "it says so")
        self.assertIsNone(worker.poll())
        os.unlink(self.path("disk/filler"))
        self.until(lambda: "a" in self.notes("ran"), "it runs")
        self.check_all(worker, ["a"])

    def test_log_and_core_files_on_a_full_disk(self):
        """The error of a crash is complete, though the worker can write nothing about it."""
        self.fill()
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
        with open(self.path("disk/log"), "w", encoding="utf-8") as log:
            worker = subprocess.Popen(
                [self.program, "work", "--handlers", self.path("handlers.so"), "--concurrency", "2",
                 "--on-crash", "archive"], env=self.env, cwd=self.path("disk"), stderr=log,
                stdin=subprocess.DEVNULL)
        self.processes.append(worker)
        self.write("go", "")
        self.enqueue("die", self.path("go"), "--id", "dies", "--retention", "1h")
        error = self.wait_state("dies", "archived")["error"]
        self.assertIn("held dies", error)
        self.assertRegex(error, "SIG(ILL|TRAP)")
        self.assertEqual(os.path.getsize(self.path("disk/log")), 0)
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(60), 0)


def with_own_mounts():
    """Executes this program again in a mount namespace, if that may be had."""
    for options in (["-m"], ["-U", "-r", "-m"]):
        words = ["unshare", *options]
        if shutil.which("unshare") and subprocess.run([*words, "true"], check=False,
                                                      capture_output=True).returncode == 0:
            os.execvpe("unshare", [*words, sys.executable, *sys.argv],
                       {**os.environ, IN_NAMESPACE: "1"})


if __name__ == "__main__":
    if IN_NAMESPACE not in os.environ:
        with_own_mounts()
    lib_cli.main()
