#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports to a service manager: one datagram each, as systemd wants them; and the directories that
it makes."""

import os
import signal
import socket
import time

import lib_cli


class NotifyTest(lib_cli.CliTest):
    def listen(self, name="notify", watchdog_ms=0):
        """Listens as the manager does; what came is in self.reports."""
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        path = "\0" + name[1:] if name[0] == "@" else self.path(name)
        self.manager.bind(path)
        self.manager.settimeout(0.02)
        self.env["NOTIFY_SOCKET"] = name if name[0] == "@" else path
        if watchdog_ms:
            self.env["WATCHDOG_USEC"] = str(watchdog_ms * 1000)
        self.reports = []

    def receive(self):
        try:
            while True:
                self.reports.append(self.manager.recv(4096).decode())
        except TimeoutError:
            return self.reports

    def wait_report(self, text, after=0):
        self.until(lambda: any(one.startswith(text) for one in self.receive()[after:]), text)
        return next(one for one in self.reports[after:] if one.startswith(text))

    def story(self):
        return super().story() + repr(self.reports)

    def work(self, *args, execs="*=true"):
        return self.start("work", "--exec", execs, "--on-hup", "drain", *args)

    def test_a_life(self):
        self.listen()
        worker = self.work(execs="*=env >env")
        self.wait_report("READY=1\n")
        self.wait_report("STATUS=ready\n")
        self.assertNotIn("WATCHDOG", repr(self.reports))
        self.enqueue("t")
        self.until(lambda: self.read("env"), "a command runs")
        self.assertNotRegex(self.read("env"), "NOTIFY_SOCKET|WATCHDOG_")
        worker.send_signal(signal.SIGTSTP)
        self.wait_report("STATUS=not ready: accepting: quiet\n")
        worker.send_signal(signal.SIGCONT)
        before = len(self.reports)
        worker.send_signal(signal.SIGUSR2)
        self.until(lambda: "worker continues" in self.story(), "it continues")
        self.wait_report("READY=1\n", before)
        self.assertEqual(self.stop(worker), 0)
        self.wait_report("STOPPING=1\n")

    def test_a_reload_has_its_moment(self):
        """It lasts: a command still runs."""
        self.listen("@quern-test-" + os.path.basename(self.home))
        self.fifo("gate")
        worker = self.work(execs="*=echo >runs; read x <gate")
        self.wait_report("READY=1\n")
        self.enqueue("t")
        self.until(lambda: self.read("runs"), "a command runs")
        began_us = time.monotonic_ns() // 1000
        before = len(self.reports)
        worker.send_signal(signal.SIGUSR2)
        report = self.wait_report("RELOADING=1\n", before)
        moment_us = int(report.split("MONOTONIC_USEC=")[1])
        self.assertTrue(began_us <= moment_us <= time.monotonic_ns() // 1000, report)
        self.assertNotIn("STOPPING=1\n", self.reports)
        with open(self.path("gate"), "w", encoding="ascii") as gate:
            gate.write("\n")
        self.wait_report("READY=1\n", before)
        self.assertEqual(self.stop(worker), 0)

    def test_hup_is_a_reload_however_short(self):
        self.listen()
        worker = self.start("work", "--exec", "*=true", "--on-hup", "reload")
        self.wait_report("READY=1\n")
        for _ in range(5):
            before = len(self.reports)
            began_us = time.monotonic_ns() // 1000
            worker.send_signal(signal.SIGHUP)
            report = self.wait_report("RELOADING=1\n", before)
            self.assertLessEqual(began_us, int(report.split("MONOTONIC_USEC=")[1]))
            self.wait_report("READY=1\n", before)
            words = [one.split("=")[0] for one in self.reports[before:] if "STATUS" not in one]
            self.assertEqual(words, ["RELOADING", "READY"])
        self.assertEqual(self.stop(worker), 0)

    def test_hup_before_the_start_is_none(self):
        self.listen()
        url = f"redis-socket://{self.path('nowhere')}"
        worker = self.start("--broker", url, "work", "--exec", "*=true", "--on-hup", "reload")
        self.wait_report("STATUS=")
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: "nothing to reload" in self.story(), "it was seen")
        self.assertNotIn("RELOADING", repr(self.receive()))
        self.assertNotIn("READY", repr(self.reports))
        worker.kill()

    def test_the_watchdog_hears_of_a_worker_that_lives(self):
        self.listen(watchdog_ms=300)
        worker = self.work()
        self.wait_report("READY=1\n")
        began = time.monotonic()
        before = self.receive().count("WATCHDOG=1\n")
        self.until(lambda: self.receive().count("WATCHDOG=1\n") - before >= 10, "signs of life")
        self.assertGreater(time.monotonic() - began, 1, "every 150 ms")
        self.assertEqual(self.stop(worker), 0)

    @lib_cli.only("sqlite")
    def test_the_watchdog_hears_nothing_of_one_that_hangs(self):
        self.listen(watchdog_ms=200)
        ours, theirs = os.pipe()
        with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb") as log:
            worker = self.spawn(self.program, "work", "--exec", "*=true", "--verbose", "--lease",
                                "1s", "--stall-timeout", "2s", stderr=log)
            self.wait_report("READY=1\n")
            lines = "".join('{"type": "%s"}\n' % ("t" * 250) for _ in range(500))
            self.ok("enqueue", "--from", "-", stdin=lines)
            self.wait_report("STATUS=not live: threads: ")
            seen = self.receive().count("WATCHDOG=1\n")
            self.until(lambda: self.rest(2) and True, "time for 20 signs")
            self.assertLessEqual(self.receive().count("WATCHDOG=1\n"), seen + 1)
            worker.kill()

    def rest(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.receive()
        return True

    def test_a_broker_that_is_away_is_no_failure_of_the_start(self):
        self.listen(watchdog_ms=200)
        self.env["QUERN_BROKER"] = "redis://127.0.0.1:1"
        worker = self.work()
        self.wait_report("STATUS=not ready: started: waits for the broker\n")
        self.wait_report("WATCHDOG=1\n")
        self.assertNotIn("READY=1\n", self.reports)
        self.wait_report("READY=1\n")
        worker.kill()

    def test_a_limit_for_another_process_and_nonsense_are_ignored(self):
        self.listen()
        for limit, pid in ("300000", "1"), ("soon", None), ("-5", None), ("", None):
            self.env["WATCHDOG_USEC"] = limit
            self.env["WATCHDOG_PID"] = pid or ""
            if pid is None:
                del self.env["WATCHDOG_PID"]
            worker = self.work("--drain")
            self.end(worker)
        self.assertNotIn("WATCHDOG=1\n", self.receive())
        for place in "", "relative", "/" + "x" * 200, "@", "/nowhere/at/all":
            self.env["NOTIFY_SOCKET"] = place
            self.assertEqual(self.end(self.work("--drain")), 0)

    def test_a_report_that_the_manager_has_no_room_for_comes_later(self):
        self.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    other.sendto(b"of another", self.env["NOTIFY_SOCKET"])
        worker = self.work(execs="*=echo >ran")
        self.enqueue("t")
        self.until(lambda: self.read("ran"), "it works")
        time.sleep(1)  # in which the report is due
        self.wait_report("READY=1\n")
        self.wait_report("STATUS=ready\n")
        self.assertEqual(self.stop(worker), 0)

    def test_a_scheduler(self):
        self.listen(watchdog_ms=300)
        scheduler = self.start("schedule", "run")
        self.wait_report("READY=1\n")
        self.wait_report("STATUS=ready\n")
        self.wait_report("WATCHDOG=1\n")
        self.assertEqual(self.stop(scheduler), 0)
        self.wait_report("STOPPING=1\n")


class DirectoryTest(lib_cli.CliTest):
    @lib_cli.only("sqlite")
    def test_a_service_without_a_home_has_a_state_directory(self):
        del self.env["QUERN_BROKER"], self.env["HOME"]
        self.assertIn("no home directory", self.fails(lib_cli.EXIT_CONFIG, "enqueue", "t"))
        state = {"STATE_DIRECTORY": self.path("state") + ":/other"}
        self.ok("enqueue", "t", env=state)
        self.assertTrue(os.path.exists(self.path("state/quern.db")))
        self.assertEqual(self.ok("db", "path", env=state), self.path("state/quern.db"))
        nobody = {**state, "HOME": "/"}
        self.assertEqual(self.ok("db", "path", env=nobody), self.path("state/quern.db"))
        person = {**state, "HOME": self.home}
        self.ok("enqueue", "t", env=person)
        self.assertEqual(self.ok("db", "path", env=person),
                         self.path(".local/share/quern/quern.db"))

    @lib_cli.only("sqlite")
    def test_entries_of_a_scheduler_are_in_the_configuration_directory(self):
        os.mkdir(self.path("conf"))
        self.write("conf/schedule.conf", "[nightly]\ncron = 30 2 * * *\ntype = report\n")
        self.env["CONFIGURATION_DIRECTORY"] = self.path("conf")
        scheduler = self.start("schedule", "run", "--file", "schedule.conf")
        self.until(lambda: "nightly" in self.quern("schedule", "list").stdout, "it is stored")
        self.assertEqual(self.stop(scheduler), 0)


if __name__ == "__main__":
    lib_cli.main()
