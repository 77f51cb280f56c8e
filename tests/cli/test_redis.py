#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern on a Redis server: URLs, passwords that stay hidden, servers that are absent."""

import json
import os
import re
import signal
import socket
import subprocess
import time

import lib_cli
import lib_redis
from lib_cli import CliTest, EXIT_BROKER, EXIT_CONFIG, EXIT_DENIED, EXIT_TEMPORARY, PATIENCE_S

COMMANDS = (["stats"], ["queue", "list"], ["task", "list"], ["worker", "list"], ["doctor"],
         ["queue", "pause", "q"], ["task", "run", "x"], ["db", "info"], ["enqueue", "t"])


class RedisTest(CliTest):
    """QUERN_BROKER names the server in the home of the test, which may start it late or never."""

    def setUp(self):
        super().setUp()
        self.socket_path = self.path("r.sock")
        self.env["QUERN_BROKER"] = f"redis-socket://{self.socket_path}"

    def start_redis(self, *config):
        """Starts it with these words of configuration, returns when it answers."""
        with open(self.path("redis.log"), "a", encoding="utf-8") as log:
            server = lib_redis.start_server(self.socket_path, *config, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        server.log_name = self.path("redis.log")
        self.processes.append(server)
        self.until(lambda: server.poll() is not None or self.redis("PING"), "redis-server answers")
        self.assertIsNone(server.poll(), self.read("redis.log"))
        return server

    def redis(self, *words):
        """Gives the reply, which may be an error; None when the server is not there."""
        try:
            connection = lib_redis.Connection(self.socket_path)
        except OSError:
            return None
        try:
            return connection.do(*words)
        except lib_redis.RedisError as error:
            return error
        finally:
            connection.close()


class UrlTest(RedisTest):
    def test_what_is_wrong_with_a_url_is_bad_configuration(self):
        for url, word in (("redis://", "host"), ("redis://h/x", "database"),
                          ("redis-socket://run/r.sock", "three slashes"),
                          ("redis-socket:", "//"), ("redis:me:secret@h", "//"),
                          ("redis://:secret@h?ca=/x", "rediss://"),
                          ("redis://:secret@h:99999", "65535"),
                          ("redis://h?sync=full", "password_file"),
                          ("redis://h?password_file=/no/such", "/no/such"),
                          ("redis://h?password_env=NOT_THERE", "NOT_THERE"),
                          ("redis://:secret@h?password_env=HOME", "password_env")):
            with self.subTest(url=url):
                error = self.fails(EXIT_CONFIG, "--broker", url, "db", "info")
                self.assertIn(word, error)
                self.assertNotIn("secret", error)
                self.fails(EXIT_CONFIG, "--broker", url, "enqueue", "t")
        self.assertFalse(os.path.exists(self.path("redis-socket:")))

    def test_each_source_of_the_password_opens_the_server(self):
        password = "p@ss/w:rd &%? #1"
        self.start_redis("--requirepass", password)
        os.chmod(self.write("pw", password + "\n"), 0o600)
        encoded = "p%40ss%2Fw%3Ard%20%26%25%3F%20%231"
        path = self.socket_path
        env = {"REDIS_PW": password}
        for url in (f"redis-socket://:{encoded}@{path}",
                    f"redis-socket://default:{encoded}@{path}?db=2",
                    f"redis-socket://{path}?password_file={self.path('pw')}",
                    f"redis-socket://{path}?password_env=REDIS_PW",
                    f"redis-socket://default@{path}?db=2&password_env=REDIS_PW",
                    f"redis-socket://{path}?password_env=REDIS_PW&db=2"):
            with self.subTest(url=url):
                facts = self.json("--broker", url, "db", "info", env=env)
                self.assertEqual(facts["broker"], "redis")
                self.assertEqual(facts["db"], 2 if "db=2" in url else 0)
                again = self.json("db", "info", env={**env, "QUERN_BROKER": url})
                self.assertEqual(again["address"], facts["address"])
                self.assertNotIn(password, str(facts))
        self.assertIn("NOAUTH", self.fails(EXIT_DENIED, "db", "info"))

    def test_wrong_password_is_reported_but_not_shown(self):
        self.start_redis("--requirepass", "right")
        for args in COMMANDS:
            with self.subTest(args=args):
                error = self.fails(EXIT_DENIED, "--broker",
                                   f"redis-socket://:wr0ng@{self.socket_path}", *args)
                self.assertIn("login refused, user or password is wrong", error)
                self.assertNotIn("wr0ng", error)

    def test_doctor_reports_when_it_could_not_read_who_serves(self):
        self.start_redis()
        self.enqueue("t")
        self.redis("ACL", "SETUSER", "half", "on", ">pw", "~asynq:*", "&*", "+@all", "-sscan")
        report = self.json("--broker", f"redis-socket://half:pw@{self.socket_path}", "doctor")
        said = [finding["text"] for finding in report["findings"]]
        self.assertTrue(any("cannot check whether workers serve" in text and "SSCAN" in text
                            for text in said), said)

    def test_missing_permission_names_the_command_and_an_acl_that_works(self):
        self.start_redis()
        self.redis("ACL", "SETUSER", "poor", "on", ">pw", "~asynq:*", "-@all", "+ping")
        self.redis("ACL", "SETUSER", "reader", "on", ">pw", "~asynq:*", "-@all", "+@read")
        poor = f"redis-socket://poor:pw@{self.socket_path}"
        error = self.fails(EXIT_BROKER, "--broker", poor, "db", "info")
        self.assertIn("NOPERM", error)
        self.assertIn("'exists'", error)
        self.assertIn("docs/protocol/redis.md", error)
        error = self.fails(EXIT_BROKER, "--broker",
                           f"redis-socket://reader:pw@{self.socket_path}", "enqueue", "t")
        self.assertIn("NOPERM", error)
        advice = error.splitlines()[-1].split("permissions that are enough: ")[1].split()
        advice[2:5] = ["poor", "on", ">pw"]
        self.assertEqual(self.redis(*advice), b"OK")
        self.ok("--broker", poor, "enqueue", "t")
        self.ok("--broker", poor, "work", "--exec", "t=true", "--drain")


class StartTest(RedisTest):
    def test_without_a_server_all_but_work_end_at_once(self):
        for args in COMMANDS:
            with self.subTest(args=args):
                self.assertIn("r.sock", self.fails(EXIT_BROKER, *args))
        self.fails(EXIT_BROKER, "work", "--no-retry", "--exec", "t=true")
        self.fails(EXIT_BROKER, "--broker", "redis://127.0.0.1:1", "stats")

    def test_work_waits_and_reports_it_once(self):
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: "waiting for it" in self.read(worker.log_name), "it waits")
        self.start_redis("--appendonly", "yes")
        self.until(lambda: "durability D1" in self.read(worker.log_name), "it starts")
        log = self.read(worker.log_name)
        self.assertEqual(log.count("waiting for it"), 1)
        self.assertEqual(log.count("the broker answers"), 1)

    def test_work_waits_for_a_server_that_is_full_of_clients_or_lacks_replicas(self):
        self.start_redis()
        self.redis("CONFIG", "SET", "maxclients", "8", "min-replicas-to-write", "1")
        others = [self.hold_connection() for _ in range(9)]
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: "waiting for it" in self.read(worker.log_name), "it waits")
        for other in others:
            other.close()
        self.until(lambda: "NOREPLICAS" in self.read(worker.log_name), "it has connected")
        self.redis("CONFIG", "SET", "min-replicas-to-write", "0")
        self.until(lambda: "worker starts" in self.read(worker.log_name), "it starts")
        self.assertIn("fewer replicas than it requires", self.read(worker.log_name))

    def hold_connection(self):
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.connect(self.socket_path)
        return connection

    def test_work_ends_while_it_waits(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number=number):
                worker = self.start("work", "--exec", "t=true")
                self.until(lambda: "waiting for it" in self.read(worker.log_name), "it waits")
                self.assertEqual(self.stop(worker, number), 0)

    def connect_to_silence(self, *options):
        """Starts a worker whose server accepts its connection and never answers."""
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(self.socket_path)
        server.listen()
        server.settimeout(PATIENCE_S)
        worker = self.start("work", "--exec", "t=true", *options)
        self.addCleanup(server.accept()[0].close)
        os.unlink(self.socket_path)
        return worker

    def test_work_ends_within_a_second_at_a_server_that_never_answers(self):
        for options, number in ((("--log-format", "json"), signal.SIGINT),
                                (("--no-retry",), signal.SIGTERM), ((), signal.SIGHUP)):
            with self.subTest(number=number):
                worker = self.connect_to_silence(*options)
                begun = time.monotonic()
                self.assertEqual(self.stop(worker, number), 0)
                # Three times what the guide says: this machine may be busy.
                self.assertLess(time.monotonic() - begun, 3.0)
                log = self.read(worker.log_name)
                self.assertIn("ended before the worker started", log)
                if options[:1] == ("--log-format",):
                    self.assertEqual(json.loads(log)["level"], "info")

    def test_second_signal_ends_such_a_worker_at_once(self):
        worker = self.connect_to_silence()
        begun = time.monotonic()
        worker.send_signal(signal.SIGINT)
        self.assertEqual(self.stop(worker, signal.SIGTERM), 0)
        self.assertLess(time.monotonic() - begun, 0.45)

    def test_hup_that_is_ignored_does_not_end_such_a_worker(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        try:
            worker = self.connect_to_silence()
        finally:
            signal.signal(signal.SIGHUP, before)
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: "waiting for it" in self.read(worker.log_name), "it still waits")
        self.assertEqual(self.stop(worker), 0)

    def test_signals_that_steer_a_worker_do_no_harm_while_it_waits(self):
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: "waiting for it" in self.read(worker.log_name), "it waits")
        for number in (signal.SIGUSR1, signal.SIGTSTP, signal.SIGCONT, signal.SIGTSTP):
            worker.send_signal(number)
        self.start_redis("--appendonly", "yes")
        self.wait_state(self.enqueue("t"), "gone")
        worker.send_signal(signal.SIGUSR1)
        self.until(lambda: "worker state" in self.read(worker.log_name), "it is steered")
        self.assertEqual(self.stop(worker), 0)

    def test_work_that_reloads_on_hup_goes_on_waiting(self):
        worker = self.start("work", "--exec", "t=true", "--on-hup", "reload")
        self.until(lambda: "waiting for it" in self.read(worker.log_name), "it waits")
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: "nothing to reload" in self.read(worker.log_name), "it says so")
        self.assertEqual(self.stop(worker), 0)

    def test_closed_streams_are_no_place_for_a_connection(self):
        self.start_redis()
        self.ok("enqueue", "t")
        for closed in ("2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                words = ["work", "--exec", "t=true", "--drain", "--verbose"]
                shell = ["sh", "-c", f'exec "$0" "$@" {closed}', self.program, *words]
                result = subprocess.run(shell, env=self.env, cwd=self.home, check=False,
                                        timeout=PATIENCE_S)
                self.assertEqual(result.returncode, 0)
                # The log lines were no commands for the server.
                self.assertNotIn(b"errorstat_ERR:", self.redis("INFO", "errorstats"))

    def test_work_does_not_wait_for_a_password_to_become_right(self):
        self.start_redis("--requirepass", "right")
        self.assertIn("NOAUTH", self.fails(EXIT_DENIED, "work", "--exec", "t=true"))

    def test_usage_errors_show_no_password(self):
        for url in ("redis://:hidden@h/0", "redis://me:hid%64den@h?db=1",
                    "redis://h?password=hidden"):
            for words in ([url], ["queue", url], ["queue", "list", url],
                          ["queue", "list", "--brokr", url],
                          ["queue", "list", f"--brokr={url}"], ["task", "inspect", "id", url],
                          ["work", "--concurrency", url], ["enqueue", "--at", url, "t"],
                          ["task", "list", "--state", url], ["help", url],
                          ["--broker", url, "--broker", url, "stats", "x"]):
                with self.subTest(words=words):
                    result = self.quern(*words)
                    self.assertNotEqual(result.returncode, 0)
                    for stream in (result.stderr, result.stdout):
                        self.assertNotIn("hidden", stream)
                        self.assertNotIn("hid%64den", stream)

    def test_password_is_not_seen_by_ps(self):
        url = f"redis-socket://me:s3cret@{self.socket_path}"
        worker = self.start("--broker", url, "work", "--exec", "t=true")
        self.until(lambda: "waiting for it" in self.read(worker.log_name), "it waits")
        with open(f"/proc/{worker.pid}/cmdline", encoding="utf-8") as file:
            line = file.read()
        self.assertIn("redis-socket://me:******@", line)
        self.assertNotIn("s3cret", line + self.read(worker.log_name))

    def test_what_endangers_tasks_is_said_at_the_start(self):
        self.start_redis("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: "durability D0" in self.read(worker.log_name), "it starts")
        self.assertIn("warning: maxmemory-policy allkeys-lru", self.read(worker.log_name))


class WordsTest(RedisTest):
    def test_full_memory_is_reported_with_the_limit(self):
        self.start_redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
        for _ in range(40):
            result = self.quern("enqueue", "t", "-", stdin="x" * 200000)
            if result.returncode != 0:
                break
        self.assertEqual(result.returncode, EXIT_TEMPORARY, result.stderr)
        self.assertIn("the server's memory is full (maxmemory 3 MB)", result.stderr)
        self.assertNotIn(".lua", result.stderr)
        self.assertNotIn("command not allowed", result.stderr)
        self.redis("ACL", "SETUSER", "blind", "on", ">pw", "~asynq:*", "+@all", "-info")
        self.assertIn("the server's memory is full (OOM)",
                      self.fails(EXIT_TEMPORARY, "--broker",
                                 f"redis-socket://blind:pw@{self.socket_path}", "enqueue", "t",
                                 "-", stdin="x" * 200000))

    def test_waiting_task_says_that_the_memory_is_full(self):
        self.start_redis()
        os.mkfifo(self.path("never"))
        worker = self.start("work", "--exec", "t=read x < never", "--concurrency", "1")
        self.until(lambda: "worker starts" in self.read(worker.log_name), "it runs")
        self.wait_state(self.enqueue("t"), "active")
        task_id = self.enqueue("t")
        self.redis("CONFIG", "SET", "maxmemory", "500000")
        task = self.task(task_id)
        self.assertIn("the memory of Redis is full", task["waits_because"])
        self.assertIn("raise maxmemory", task["what_to_do"])
        self.assertIn("the memory of Redis is full", self.quern("doctor").stdout)
        self.redis("CONFIG", "SET", "maxmemory", "0")

    def test_server_that_is_down_ends_a_command_with_its_own_code(self):
        server = self.start_redis()
        server.kill()
        server.wait()
        self.assertIn("r.sock", self.fails(EXIT_BROKER, "enqueue", "t"))


# Said by poll.lua alone.
POLL = '"EXISTS" "asynq:{q0}:active"'


class IdleTest(RedisTest):
    """What a worker with nothing to do costs the server. Counted between the questions that it asks
    each second, so a slow machine changes nothing."""

    POLLS = 8

    def monitor(self):
        """The commands to the server, line by line; ends when the caller stops asking."""
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(PATIENCE_S)
            wire.connect(self.socket_path)
            wire.sendall(b"MONITOR\r\n")
            yield from wire.makefile("r", encoding="utf-8", errors="replace")

    def stamps_between_polls(self):
        """When clients sent something, from the second poll to the last."""
        polls = []
        stamps = []
        for line in self.monitor():
            if POLL in line:
                polls.append(len(stamps))
            elif re.match(r"\+[0-9.]+ \[\d+ unix", line):
                stamps.append(float(line[1:].split()[0]))
            if len(polls) == self.POLLS:
                break
        return stamps[polls[1]:]

    def test_idle_worker_sends_little_however_many_queues_it_serves(self):
        self.start_redis()
        for count in (1, 20):
            with self.subTest(queues=count):
                names = [word for i in range(count) for word in ("--queue", f"q{i}")]
                worker = self.start("work", "--exec", "t=true", *names)
                stamps = self.stamps_between_polls()
                self.assertEqual(self.stop(worker), 0)
                seconds = self.POLLS - 2
                self.assertGreater(stamps[-1] - stamps[0], seconds - 2)
                self.assertLessEqual(len(stamps), 3 * seconds, stamps)

    def test_start_on_an_idle_worker_waits_for_no_look_at_delayed_tasks(self):
        self.start_redis()
        self.start("work", "--exec", "t=true", "--queue", "q0")
        polls = 0
        scripts = []
        for line in self.monitor():
            if POLL in line:
                polls += 1
                if polls == 2:
                    self.ok("enqueue", "t", "--queue", "q0")
            if '"asynq:{q0}:t:' in line and '"pending"' in line: # the enqueue
                scripts = []
            scripts.append(line)
            if polls >= 2 and '"state" "active"' in line:
                break
        looks = [line for line in scripts if '"ZRANGEBYSCORE" "asynq:{q0}:scheduled"' in line]
        self.assertEqual(looks, [], "".join(scripts))


if __name__ == "__main__":
    lib_cli.main()
