#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Probes of a worker: the pages of --health-port, `quern health`, and who disturbs them."""

import contextlib
import fcntl
import http.client
import json
import os
import re
import resource
import signal
import socket
import stat
import threading
import time

import lib_cli
import lib_redis

STALL = ("--stall-timeout", "2s", "--lease", "1s")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=lib_cli.PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class HealthTest(lib_cli.CliTest):
    def work(self, *args, place="0", execs=("*=true",)):
        """Starts a worker; its port is known when it has logged it."""
        words = [word for text in execs for word in ("--exec", text)]
        worker = self.start("work", *words, "--health-port", place, *args)
        at = self.until(lambda: re.search(r"health is served at=(\S+)",
                                          self.read(worker.log_name)), "it listens").group(1)
        worker.place = at
        worker.port = int(at.rpartition(":")[2]) if place == "0" else None
        return worker

    def ask(self, worker, path, method="GET"):
        """The status and the body of a page; its own status where it has none."""
        where = worker.place
        connection = (http.client.HTTPConnection("127.0.0.1", worker.port, lib_cli.PATIENCE_S)
                      if worker.port else UnixConnection(where))
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
        return answer.status, json.loads(body) if body else None

    def status(self, worker, path):
        return self.ask(worker, path)[0]

    def wait_for(self, worker, path, status):
        self.until(lambda: self.status(worker, path) == status, f"{path} is {status}")

    def checks(self, worker, path="/readyz"):
        return {check["name"]: check for check in self.ask(worker, path)[1]["checks"]}

    def health(self, code, *args):
        result = self.quern("health", *args)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertLessEqual(result.stdout.count("\n"), 1)
        return result.stdout.strip()


class PageTest(HealthTest):
    def test_pages_and_methods(self):
        worker = self.work()
        for path in "/readyz", "/startupz", "/livez":
            self.wait_for(worker, path, 200)
        status, body = self.ask(worker, "/readyz")
        self.assertTrue(status == 200 and body["ok"], body)
        self.assertEqual([check["name"] for check in body["checks"]],
                         ["started", "threads", "broker", "fetch", "slots", "accepting", "brake"])
        self.assertRegex(body["checks"][0]["since"], r"^\d{4}-\d\d-\d\dT")
        self.assertEqual(self.ask(worker, "/livez", "HEAD"), (200, None))
        for method in "POST", "PUT", "DELETE", "OPTIONS", "BREW":
            self.assertEqual(self.ask(worker, "/livez", method)[0], 405)
        self.assertEqual(self.status(worker, "/"), 404)
        self.assertEqual(self.status(worker, "/livez?verbose"), 200)
        worker.send_signal(signal.SIGTSTP)
        self.wait_for(worker, "/readyz", 503)
        self.assertEqual(self.checks(worker)["accepting"]["detail"], "quiet")
        self.assertEqual(self.status(worker, "/livez"), 200)
        place = ("--health-port", str(worker.port))
        self.assertIn("accepting: quiet", self.health(1, *place))
        self.health(0, *place, "--check", "live")
        self.until(lambda: "is quiet" in self.quern("health").stdout, "its record says so")
        self.health(1)
        self.health(0, "--check", "live")
        worker.send_signal(signal.SIGCONT)
        self.wait_for(worker, "/readyz", 200)
        self.until(lambda: self.quern("health").returncode == 0, "its record says so")
        self.assertTrue(self.json("health")["ok"])
        answer = self.json("health", *place)["answer"]
        self.assertEqual(answer["checks"][0]["name"], "started")
        self.check_choice(worker)
        self.assertEqual(self.stop(worker), 0)
        self.assertIn("no answer", self.health(1, *place))
        self.assertIn("no live worker", self.health(1, "--all"))

    def check_choice(self, worker):
        record = self.json("worker", "list")[0]
        self.assertIsNotNone(record["exchanged_at_ms"])
        self.health(0, "--worker", record["id"][:13])
        self.health(1, "--worker", "none")
        self.health(0, "--pid", str(worker.pid))
        self.health(1, "--pid", "1")
        self.health(0, "--host", record["host"])
        self.health(1, "--host", "elsewhere")
        self.fails(lib_cli.EXIT_USAGE, "health", "--all", "--pid", "1")
        self.fails(lib_cli.EXIT_USAGE, "health", "--check", "happy")
        self.fails(lib_cli.EXIT_USAGE, "health", "--health-port", "x:y")
        self.assertIn("--timeout is for --health-port",
                      self.fails(lib_cli.EXIT_USAGE, "health", "--timeout", "1s"))
        self.assertIn("--max-age is for", self.fails(
            lib_cli.EXIT_USAGE, "health", "--health-port", "9090", "--max-age", "1m"))
        away = "redis-socket:///nowhere" if lib_cli.BROKER == "redis" else self.path("no/q.db")
        self.fails(lib_cli.EXIT_BROKER, "--broker", away, "health")

    def test_it_waits_for_its_broker_and_says_so(self):
        if lib_cli.BROKER == "redis":
            self.env["QUERN_BROKER"] = "redis://127.0.0.1:1"
        else:
            self.write("q.db", "")
            os.chmod(self.path("q.db"), 0o600)
            self.env["QUERN_BROKER"] = "redis://127.0.0.1:1"
        worker = self.work()
        self.assertEqual(self.status(worker, "/livez"), 200)
        self.assertEqual(self.status(worker, "/readyz"), 503)
        self.assertEqual(self.status(worker, "/startupz"), 503)
        self.assertEqual(self.checks(worker)["started"]["detail"], "waits for the broker")

    def test_a_taken_port_and_a_wrong_place(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = str(other.getsockname()[1])
            text = self.fails(lib_cli.EXIT_TEMPORARY, "work", "--exec", "*=true",
                              "--health-port", port)
            self.assertIn(f"cannot listen at {port}: Address already in use", text)
        for place in "", "x", "99999", "1.2.3.4.5:80", "::1:80", "host:80", "/" + "x" * 200:
            self.fails(lib_cli.EXIT_USAGE, "work", "--exec", "*=true", "--health-port", place)
        self.fails(lib_cli.EXIT_CONFIG, "work", "--exec", "*=true", "--health-port",
                   "192.0.2.1:80")

    def test_a_unix_socket(self):
        os.mkdir(self.path("run"))
        self.env["RUNTIME_DIRECTORY"] = self.path("run") + ":/elsewhere"
        with socket.socket(socket.AF_UNIX) as left:  # by a process that was killed
            left.bind(self.path("run/health.sock"))
        worker = self.work(place="health.sock")
        self.assertEqual(worker.place, self.path("run/health.sock"))
        self.wait_for(worker, "/readyz", 200)
        mode = stat.S_IMODE(os.stat(worker.place).st_mode)
        self.assertEqual(mode, 0o660)
        self.health(0, "--health-port", worker.place)
        self.health(0, "--health-port", "health.sock")
        self.fails(lib_cli.EXIT_TEMPORARY, "work", "--exec", "*=true", "--health-port",
                   "health.sock")
        self.assertEqual(self.stop(worker), 0)
        self.assertFalse(os.path.exists(worker.place))

    def test_a_socket_whose_directory_makes_its_path_too_long(self):
        """It is refused, not made where the worker happens to stand."""
        self.env["RUNTIME_DIRECTORY"] = self.path("r" * 100)
        os.mkdir(self.env["RUNTIME_DIRECTORY"])
        text = self.fails(lib_cli.EXIT_USAGE, "work", "--exec", "*=true", "--health-port",
                          "health.sock")
        self.assertIn("health-port", text)
        self.assertFalse(os.path.exists(self.path("health.sock")))

    def inodes(self, pid):
        """Of the sockets that it has open."""
        found = set()
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        return found

    def listener(self, port):
        with open("/proc/net/tcp", encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[1].endswith(f":{port:04X}") and words[3] == "0A":
                    return f"socket:[{words[9]}]"
        return self.fail("nobody listens")

    def test_the_port_stays_over_a_restart_and_no_child_has_it(self):
        self.env["QUERN_TEST_MARK"] = self.home
        worker = self.work(execs=("*=echo $$ >pid; env >env; read x <gate",))
        self.fifo("gate")
        for round_ in range(2):
            self.wait_for(worker, "/readyz", 200)
            socket_name = self.listener(worker.port)
            self.assertIn(socket_name, self.inodes(worker.pid))
            self.enqueue("t")
            pid = self.until(lambda: self.read("pid").strip(), "the command runs")
            heirs = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != worker.pid
                     and socket_name in self.inodes(pid)]
            self.assertEqual(heirs, [], pid)
            self.write_to_gate()
            os.unlink(self.path("pid"))
            if round_ == 0:
                worker.send_signal(signal.SIGUSR2)
                self.until(lambda: "worker continues" in self.story(), "it continues")
                self.assertEqual(self.listener(worker.port), socket_name)
        self.assertNotIn("QUERN_TAKE_OVER", self.read("env"))
        self.assertEqual(self.stop(worker), 0)

    def write_to_gate(self):
        with open(self.path("gate"), "w", encoding="ascii") as gate:
            gate.write("\n")


class HostileTest(HealthTest):
    @lib_cli.only("sqlite")
    def test_nobody_disturbs_worker_and_probes(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = min(5000, hard - 200)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
        worker = self.work()
        self.wait_for(worker, "/readyz", 200)
        connections = []
        dribble = threading.Event()
        with contextlib.ExitStack() as stack:
            stack.callback(dribble.set)
            for number in range(count):
                one = stack.enter_context(socket.socket())
                one.settimeout(lib_cli.PATIENCE_S)
                one.connect(("127.0.0.1", worker.port))
                connections.append(one)
                if number % 500 == 0:
                    self.assertEqual(self.status(worker, "/livez"), 200)
            slow = threading.Thread(target=self.send_slowly, args=(worker.port, dribble))
            slow.start()
            self.check_monsters(worker, stack)
            ids = [self.enqueue("t", "--retention", "1h") for _ in range(3)]
            for task_id in ids:
                self.wait_state(task_id, "completed")
            began = time.monotonic()
            self.assertEqual(self.status(worker, "/readyz"), 200)
            self.assertLess(time.monotonic() - began, 10)
            dribble.set()
            slow.join()
        held = len(os.listdir(f"/proc/{worker.pid}/fd"))
        self.assertLess(held, 300, "connections are bounded")
        self.assertEqual(self.stop(worker), 0)

    def send_slowly(self, port, end):
        with socket.create_connection(("127.0.0.1", port)) as one, contextlib.suppress(OSError):
            one.sendall(b"GET /livez HTTP/1.1\r\nX: ")
            while not end.wait(0.1):
                one.sendall(b"x")

    def test_a_probe_ends_in_time_though_bytes_come(self):
        """The process answers with a byte late in the time, and with no more: by the clock."""
        def answer_late(server):
            one = server.accept()[0]
            with one:
                began = time.monotonic()
                time.sleep(5)
                one.sendall(b"H")
                while one.recv(4096):
                    pass
                times.append(time.monotonic() - began)

        times = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=answer_late, args=(server,))
            thread.start()
            place = str(server.getsockname()[1])
            words = self.health(1, "--health-port", place, "--timeout", "6s")
            thread.join()
        self.assertEqual(words, f"not ready: no answer from {place}: Connection timed out")
        self.assertLess(times[0], 9)

    def monsters(self):
        yield b"GET /livez HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(50000))
        yield b"GET /" + b"x" * 1000000 + b" HTTP/1.1\r\n\r\n"
        head = b" /livez HTTP/1.1\r\nHost: x\r\n"
        yield b"POST" + head + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 99999
        yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 100
        yield b"GET" + head + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n"
        yield b"\r\n" * 100000

    def check_monsters(self, worker, stack):
        """Each is answered or cut off; none keeps its connection for long."""
        left = []
        for words in self.monsters():
            one = stack.enter_context(socket.create_connection(("127.0.0.1", worker.port)))
            one.settimeout(lib_cli.PATIENCE_S)
            with contextlib.suppress(OSError):
                one.sendall(words)
            left.append(one)
            self.assertEqual(self.status(worker, "/livez"), 200)
        for one in left:
            with contextlib.suppress(ConnectionError):
                while one.recv(65536):
                    pass


class StallTest(HealthTest):
    @lib_cli.only("redis")
    def test_a_server_that_is_frozen_and_one_that_is_killed(self):
        server = lib_redis.Redis()
        self.addCleanup(server.stop)
        self.env["QUERN_BROKER"] = server.url()
        worker = self.work(*STALL)
        self.wait_for(worker, "/readyz", 200)
        server.process.send_signal(signal.SIGSTOP)
        self.check_absence(worker, 1)
        server.process.send_signal(signal.SIGCONT)
        self.wait_for(worker, "/readyz", 200)
        server.process.kill()
        server.process.wait()
        self.check_absence(worker, 2)
        server.process = lib_redis.start_server(server.path)
        self.wait_for(worker, "/readyz", 200)
        self.until(lambda: self.story().count("no longer stalls") == 2, "it logs the end")
        self.assertEqual(self.stop(worker), 0)

    def check_absence(self, worker, times):
        self.wait_for(worker, "/readyz", 503)
        broker = self.checks(worker)["broker"]
        self.assertEqual(broker["detail"], "no answer")
        self.assertGreaterEqual(broker["for_ms"], 2000)
        self.assertEqual(self.status(worker, "/livez"), 200)
        self.assertIn("broker: no answer", self.health(1, "--health-port", str(worker.port)))
        self.until(lambda: self.story().count("worker has stalled") == times, "it logs that")

    @lib_cli.only("sqlite")
    def test_a_thread_that_hangs(self):
        """A log that nobody reads holds up every thread that writes to it."""
        ours, theirs = os.pipe()
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(os.fdopen(ours, "rb"))
            log = stack.enter_context(os.fdopen(theirs, "wb"))
            worker = self.spawn(self.program, "work", "--exec", "*=true", "--verbose", *STALL,
                                "--health-port", "health.sock", stderr=log)
            log.close()
            worker.port, worker.place = None, self.path("health.sock")
            self.until(lambda: self.quern("health", "--health-port", worker.place, "--check",
                                          "live").returncode == 0, "it listens")
            self.wait_for(worker, "/readyz", 200)
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
            lines = "\n".join(json.dumps({"type": "t" * 250}) for _ in range(50))
            self.ok("enqueue", "--from", "-", stdin=lines + "\n")
            self.wait_for(worker, "/livez", 503)
            self.assertRegex(self.checks(worker, "/livez")["threads"]["detail"], "hangs")
            threading.Thread(target=reader.read, daemon=True).start()
            self.wait_for(worker, "/readyz", 200)
            self.assertEqual(self.stop_quietly(worker), 0)

    def stop_quietly(self, worker):
        worker.terminate()
        return worker.wait(lib_cli.PATIENCE_S)


if __name__ == "__main__":
    lib_cli.main()
