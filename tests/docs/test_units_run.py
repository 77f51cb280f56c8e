#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The unit of a worker under a systemd of its own: it is ready when the worker says so, its worker
comes back when it was killed or hangs, and stops cleanly; all that inside its sandbox.

That systemd is PID 1 of namespaces of the test, with a cgroup below ours. It needs root and a
cgroup of version 2."""

import os
import shutil
import subprocess

from lib_quern import FULL, QuernTest, main
from lib_redis import die_with_parent

UNITS = os.path.join(os.environ["QUERN_SOURCE"], "contrib", "systemd")
SYSTEMD = "/lib/systemd/systemd"
UNIT = "quern-work@mail.service"
TOOLS = (SYSTEMD, "systemctl", "unshare", "nsenter")
PATIENCE_S = 90
STATES = ("running", "starting", "degraded")  # of the manager, once it answers
WATCHDOG_S = 2
# ProtectHome= would hide the program if it is in a home directory; a sanitizer's own check for
# leaks would trace the process, which the sandbox forbids.
DROP_IN = f"""[Service]
ExecStart=
ExecStart=/run/test/quern work --queue %i --health-port health.sock --exec *=true
Environment=ASAN_OPTIONS=detect_leaks=0
WatchdogSec={WATCHDOG_S}
TimeoutAbortSec=1
"""
TARGET = "[Unit]\nDefaultDependencies=no\n"
# PID 1 starts what it knows, such as the removal of all files in /tmp. So it knows the units of the
# test only, and everything but its own folders in memory is read-only before it is there.
BEGIN = """set -eu
program=$1 units=$2
cat /proc/self/mounts | while read -r _ place type _; do
    case $type in
    proc | devpts | devtmpfs | mqueue | binfmt_misc | autofs) ;;
    *) mount -o remount,bind,ro "$place" ;;
    esac
done
if touch "$units/test" /usr/quern-test 2>/dev/null; then
    echo "the file system is not read-only"
    exit 1
fi
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/etc /run/test
cp -a /etc/. /run/etc
mount --bind /run/etc /etc
mount -t tmpfs -o mode=755 tmpfs /etc/systemd/system
cp "$program" /run/test/quern
cp -r "$units"/. /etc/systemd/system
for place in /tmp /var /dev/shm; do
    mount -t tmpfs -o mode=1777 tmpfs "$place"
done
mkdir /var/lib /var/tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
export container=test SYSTEMD_UNIT_PATH=/etc/systemd/system
exec {systemd} --system --unit=test.target --log-target=null --show-status=no
""".format(systemd=SYSTEMD)


def cgroup_here():
    """Where our cgroup of version 2 is, or None."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        paths = [line.strip()[3:] for line in file if line.startswith("0::")]
    return mounts[0] + paths[0].rstrip("/") if mounts and paths else None


def why_not():
    """Why no systemd can run here; "": it can."""
    if not FULL:
        return "only with QUERN_TEST_FULL=1"
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"needs {', '.join(missing)}"
    namespaces = ["unshare", "--pid", "--fork", "--mount", "--cgroup", "true"]
    if subprocess.run(namespaces, capture_output=True, check=False).returncode != 0:
        return "may make no namespaces"
    here = cgroup_here()
    return "" if here and os.access(here, os.W_OK) else "needs a cgroup of version 2"


class UnitsRun(QuernTest):
    def setUp(self):
        super().setUp()
        self.cgroup = None
        reason = why_not()
        if reason:
            self.skipTest(reason)
        units = self.path("units")
        os.makedirs(os.path.join(units, UNIT + ".d"))
        shutil.copy(os.path.join(UNITS, "quern-work@.service"), units)
        self.write(os.path.join("units", UNIT + ".d", "test.conf"), DROP_IN)
        for target in "sysinit", "basic", "shutdown", "network":
            self.write(f"units/{target}.target", TARGET)
        # What another unit names is remembered when it has ended.
        self.write("units/test.target", f"{TARGET}After={UNIT}\n")
        self.cgroup = f"{cgroup_here()}/quern-test-{os.getpid()}"
        os.mkdir(self.cgroup)
        self.start_manager(units)

    def start_manager(self, units):
        def join_cgroup():
            die_with_parent()
            with open(f"{self.cgroup}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")
        self.manager_log = open(self.path("manager"), "wb")
        self.addCleanup(self.manager_log.close)
        self.manager = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup",
             "--mount-proc", "sh", "-c", BEGIN, "sh", self.program, units],
            stdin=subprocess.DEVNULL, stdout=self.manager_log, stderr=subprocess.STDOUT,
            preexec_fn=join_cgroup)
        self.processes.append(self.manager)
        self.until(lambda: self.systemctl("is-system-running", check=False) in STATES,
                   "systemd answers", PATIENCE_S)

    def tearDown(self):
        if self.cgroup:
            self.manager.kill()
            self.until(self.remove_cgroup, "all processes have ended with their PID 1")
        super().tearDown()

    def remove_cgroup(self):
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                return False
        return True

    def inside(self, *command, check=True):
        """Runs a command beside that systemd; what it prints."""
        with open(f"/proc/{self.manager.pid}/task/{self.manager.pid}/children",
                  encoding="ascii") as file:
            pid = file.read().split()
        if not pid:
            return ""
        result = subprocess.run(["nsenter", "--target", pid[0], "--mount", "--pid", "--cgroup",
                                 *command], capture_output=True, encoding="utf-8",
                                timeout=PATIENCE_S, check=False)
        if check:
            self.assertEqual(result.returncode, 0, f"{command}: {result.stderr}{self.story()}")
        return result.stdout.strip()

    def systemctl(self, *args, check=True):
        return self.inside("systemctl", "--no-pager", *args, check=check)

    def show(self, name):
        return self.systemctl("show", "--property", name, "--value", UNIT)

    def story(self):
        return self.read("manager")

    def comes_back(self, before):
        """It runs again, in another process, and says that it is ready."""
        self.until(lambda: self.show("MainPID") not in ("0", before)
                   and self.show("ActiveState") == "active", "it runs again", PATIENCE_S)
        self.until(lambda: self.show("StatusText") == "ready", "it is ready", PATIENCE_S)
        return self.show("MainPID")

    def test_a_worker_lives_under_systemd(self):
        self.systemctl("start", UNIT)  # returns when the worker has said that it is ready
        self.assertEqual(self.show("ActiveState"), "active")
        self.assertEqual(self.show("Type"), "notify")
        self.until(lambda: self.show("StatusText") == "ready", "it says more later")
        first = self.show("MainPID")
        uid = self.inside("stat", "--format=%u", f"/proc/{first}")
        self.assertNotEqual(uid, "0", "it has a user of its own")

        self.inside("kill", "-KILL", first)
        second = self.comes_back(first)
        self.assertEqual(self.show("NRestarts"), "1")

        self.inside("kill", "-STOP", second)  # then nothing but the watchdog ends it
        third = self.comes_back(second)
        self.assertEqual(self.show("NRestarts"), "2")

        self.systemctl("stop", UNIT)
        self.assertEqual(self.show("ActiveState"), "inactive")
        self.assertEqual(self.show("Result"), "success")
        self.assertEqual(self.show("ExecMainStatus"), "0")
        self.assertEqual(self.show("ExecMainPID"), third)


if __name__ == "__main__":
    main()
