#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A list of two servers that fail over, and one server that is away, or refuses.

QUERN_TEST_FULL=1: 60 s instead of 10 s without a server. Sentinels: test_sentinel.py."""

import os
import socket
import threading
import time

import lib_cli
from lib_cli import EXIT_BROKER, EXIT_TEMPORARY
from lib_load import LoadTest
from lib_quern import FULL
from lib_sentinel import Node, free_ports, until

AWAY_S = 60 if FULL else 10


class FailoverTest(LoadTest):
    # --- A list ----------------------------------------------------------------------------

    def node(self, name, *options):
        node = Node(self.path(name), free_ports(1)[0], "--appendonly", "yes", *options)
        self.addCleanup(node.kill)
        return node

    def test_a_list_of_two_servers(self):
        first, second = self.node("first"), self.node("second")
        url = f"{first.url()};{second.url()}"
        first.kill()
        worker = self.work(url)
        self.enqueue("t", "--broker", url)
        self.wait_run_after(0, "the task ran by way of the second server")
        self.assertEqual(first.runs(), False)
        first.start()
        def is_used():
            return b"name=quern-tracked" in first.do("CLIENT", "LIST")
        until(is_used, "the worker is back at the preferred server")
        moment = time.monotonic()
        self.enqueue("t", "--broker", url)
        self.wait_run_after(moment, "a task of the first server ran")
        first.kill()
        second.kill()
        text = self.fails(EXIT_BROKER, "enqueue", "t", "--broker", url)
        self.assertIn("none of 2 servers can be used", text)
        begun = time.monotonic()
        text = self.fails(EXIT_BROKER, "enqueue", "t", "--broker", url, "--wait-broker", "1s")
        self.assertGreaterEqual(time.monotonic() - begun, 0.9)
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertEqual(log.count("broker does not answer"), 1, log)

    def test_lists_that_cannot_be(self):
        for url, words in (
                ("redis://a;sqlite:///b", "holds only Redis servers"),
                ("redis://a;redis-sentinel://b", "cannot be one of a list"),
                ("redis://a;redis://b?wait=1", "belongs into the first URL"),
                ("redis://a,b", "commas"),
                ("redis://a?failover=random", "round-robin or shuffle"),
                ("redis://a?failover=shuffle", "there is one URL"),
                ("redis://a?wait=0", "a number from 1"),
                ("redis://a?wait_ms=5", "wait_ms needs wait"),
                ("redis-sentinel://a,b", "master=NAME"),
                ("redis-sentinel://a,,b/0?master=m", "host:port,host:port"),
                ("redis+sentinel://a", "redis-sentinel://"),
                ("redis://a?master=m", "redis-sentinel://"),
                ("redis-cluster://a?sentinel_user=u", "redis-sentinel://"),
                ("redis://a?sentinel_password_file=f;redis://b", "redis-sentinel://"),
                ("redis-sentinel://[::1/0?master=m", "IPv6"),
                (";".join(["redis://a"] * 33), "more than 32")):
            self.assertIn(words, self.fails(lib_cli.EXIT_CONFIG, "queue", "list", "--broker", url)
                          .replace("\n", " "), url)

    # --- One server ------------------------------------------------------------------------

    def cpu_s(self, process):
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_a_server_that_is_away_for_a_while(self):
        node = self.node("only")
        worker = self.work(node.url())
        self.feed(node.url())
        self.wait_run_after(0, "the worker runs tasks")
        node.kill()
        before_s = self.cpu_s(worker)
        time.sleep(AWAY_S)  # an outage, during which it is seen how much it works
        used = (self.cpu_s(worker) - before_s) / AWAY_S
        node.start()
        back = time.monotonic()
        resumed_s = self.wait_run_after(back, "tasks run again") - back
        print(f"away {AWAY_S} s: {used:.2%} of a CPU, {resumed_s:.2f} s until a task ran")
        self.assertLess(used, 3 * 0.02)
        self.assertLess(resumed_s, 3 * 1.0)
        self.stop_feeding()
        self.assertEqual(self.lost(node.url()), [])
        self.assertEqual(self.stop(worker), 0)
        log = self.read(worker.log_name)
        self.assertEqual(log.count("broker answers again"), 1, log)

    def test_no_retry_ends_every_verb_at_the_first_failure(self):
        port = free_ports(1)[0]
        url = f"redis://127.0.0.1:{port}?max_retries=9&interval_start_ms=60000;" \
              f"redis://127.0.0.1:{port}/1"
        for words in (("work", "--exec", "t=true"), ("schedule", "run"), ("enqueue", "t"),
                      ("queue", "list"), ("task", "list"), ("worker", "list"), ("stats",),
                      ("doctor",), ("health",), ("limit", "list"), ("schedule", "list")):
            text = self.fails(EXIT_BROKER, "--no-retry", *words, "--broker", url)
            self.assertIn("none of 2 servers can be used", text, words)
        self.assertIn("exclude each other",
                      self.fails(lib_cli.EXIT_USAGE, "enqueue", "t", "--no-retry",
                                 "--wait-broker", "1s"))
        text = self.fails(EXIT_TEMPORARY, "work", "--no-retry", "--exec", "t=true", "--broker",
                          self.replica_url())
        self.assertIn("this is a replica", text)

    def test_max_retries_ends_with_the_error_of_the_broker(self):
        """Each attempt is a connection to a server that closes it."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            moments = []
            def refuse():
                while True:
                    try:
                        listener.accept()[0].close()
                    except OSError:
                        return
                    moments.append(time.monotonic())
            thread = threading.Thread(target=refuse, daemon=True)
            thread.start()
            url = f"redis://127.0.0.1:{listener.getsockname()[1]}?max_retries=4" \
                  "&interval_start_ms=50&interval_step_ms=100&interval_max_ms=200"
            for words in (("enqueue", "t"), ("work", "--exec", "t=true"), ("schedule", "run")):
                moments.clear()
                self.fails(EXIT_BROKER, *words, "--broker", url)
                self.assertEqual(len(moments), 5, words)
                gaps = [after - before for before, after in zip(moments, moments[1:])]
                print(words[0], " ".join(f"{gap:.3f}" for gap in gaps))
                for gap, limit in zip(gaps, (0.05, 0.15, 0.2, 0.2)):
                    self.assertLess(gap, 3 * limit + 0.3, words)
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()

    def test_a_running_worker_ends_after_max_retries(self):
        node = self.node("only")
        worker = self.work(node.url() + "?max_retries=6")
        self.enqueue("t", "--broker", node.url())
        self.wait_run_after(0, "the worker runs tasks")
        node.kill()
        self.assertEqual(worker.wait(timeout=60), EXIT_BROKER)
        self.assertIn("worker ends, the broker was tried max_retries times",
                      self.read(worker.log_name))

    def test_a_password_that_is_changed_is_read_from_its_file(self):
        node = self.node("only")
        node.do("ACL", "SETUSER", "w", "on", ">old", "~*", "&*", "+@all")
        self.write("password", "old\n")
        os.chmod(self.path("password"), 0o600)
        url = node.url().replace("redis://", "redis://w@") + \
            f"?password_file={self.path('password')}"
        worker = self.work(url)
        self.enqueue("t", "--broker", url)
        self.wait_run_after(0, "the worker runs tasks")
        node.do("ACL", "SETUSER", "w", "resetpass", ">new")
        node.do("CLIENT", "KILL", "USER", "w")
        until(lambda: "broker refuses this worker" in self.read(worker.log_name), "it says so")
        moment = time.monotonic()
        self.write("password", "new\n")
        self.enqueue("t", "--broker", url)
        self.wait_run_after(moment, "it is let in again")
        self.assertEqual(self.stop(worker), 0)

    # --- Replicas that confirm -------------------------------------------------------------

    def test_a_wait_that_is_longer_than_the_look_for_dead_links(self):
        """After 3 s without an answer another connection asks whether the link is dead: a server
        that was told to wait for replicas greets there, and is not silent all the same."""
        node, replica = self.pair()
        replica.freeze()
        enqueue = self.start("enqueue", "t", "--broker", f"{node.url()}?wait=1&wait_ms=60000")
        until(lambda: b"cmd=wait" in node.do("CLIENT", "LIST"), "the server waits")
        text = self.fails(lib_cli.EXIT_FAILURE, "enqueue", "t", "--broker",
                          f"{node.url()}?wait=1&wait_ms=3500")
        self.assertRegex(text, "^quern: enqueue: queue default: task [-0-9a-f]{36} is stored, do "
                         "not enqueue it again: 0 of the 1 replicas asked for confirmed it within "
                         "3500 ms$")
        self.assertIsNone(enqueue.poll(), self.read(enqueue.log_name))
        replica.thaw()
        self.assertEqual(enqueue.wait(timeout=60), 0, self.read(enqueue.log_name))

    def test_the_time_to_wait_for_a_broker_is_not_that_of_its_answer(self):
        node = self.node("only")
        node.do("CLIENT", "PAUSE", 60000, "WRITE")
        enqueue = self.start("enqueue", "t", "--broker", node.url(), "--wait-broker", "200ms")
        until(lambda: b"blocked_clients:1" in node.do("INFO", "clients"), "it has sent its task")
        self.fails(EXIT_BROKER, "enqueue", "t", "--wait-broker", "200ms", "--broker",
                   f"redis://127.0.0.1:{free_ports(1)[0]}")  # that time has passed
        self.assertIsNone(enqueue.poll(), self.read(enqueue.log_name))
        node.do("CLIENT", "UNPAUSE")
        self.assertEqual(enqueue.wait(timeout=60), 0, self.read(enqueue.log_name))

    def pair(self):
        node = self.node("only", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
        replica = self.node("replica", "--replicaof", f"127.0.0.1 {node.port}")
        until(lambda: replica.do("ROLE")[3] == b"connected", "the replica has the data")
        return node, replica

    def test_durability_class_is_printed(self):
        node, _ = self.pair()
        line = "durability D3: 1 of 1 replicas confirm each stored task; alone D2: survives " \
               "power loss"
        for url, words in ((node.url() + "?wait=1", line), (node.url(), "durability D2: ")):
            self.enqueue("t", "--broker", url)
            worker = self.quern("work", "--drain", "--exec", "t=true", "--broker", url)
            self.assertEqual(worker.returncode, 0, worker.stderr)
            self.assertIn(words, worker.stderr)
            self.assertIn(words, self.ok("doctor", "--broker", url))
        node.do("CONFIG", "SET", "appendfsync", "everysec")
        self.assertIn("alone D1: survives a restart; up to 2 s",
                      self.ok("doctor", "--broker", node.url() + "?wait=1"))

    def replica_url(self):
        node = self.node("replica")
        node.do("REPLICAOF", "127.0.0.1", str(free_ports(1)[0]))
        return node.url()


if __name__ == "__main__":
    lib_cli.main()
