#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Certificates that are read again on HUP, where several servers are connected to: sentinels and
the nodes that they name, and a cluster.

All servers get certificates of another CA, one after the other. A worker and a scheduler that run
trust it after a HUP, a client and an inspector after a call of theirs, and go on: also to servers
that they first meet then."""

import os
import shutil
import signal
import subprocess

import lib_cluster
from lib_cli import EXIT_BROKER, CliTest, main
from lib_sentinel import MASTER, SentinelSet
from lib_tls import make_ca, make_cert

SECONDS = "[e]\ncron = * * * * * *\ntype = tick\nqueue = ticks\n"


class Caller:
    """A client and an inspector: the program link_caller."""

    def __init__(self, test, url):
        self.test = test
        program = os.path.join(os.environ["QUERN_BUILD"], "tests", "link_caller")
        self.process = test.spawn(program, url, text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        test.assertEqual(self.answer(), "ok ")

    def answer(self):
        return self.process.stdout.readline().rstrip("\n")

    def order(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.answer()

    def check_works(self):
        for order in "put default", "put other", "look":
            self.test.assertEqual(self.order(order), "ok ", order)

    def check_refuses(self):
        for order in "put default", "look":
            answer = self.order(order)
            self.test.assertIn("unknown CA", answer)
            self.test.assertFalse(answer.startswith("ok"), answer)

    def check_keeps_its_own(self):
        """The file that it is to read is broken."""
        for order in "reload client", "reload inspector":
            self.test.assertRegex(self.order(order), "^invalid .*mine.pem: no certificate in it")

    def reload(self):
        for order in "reload client", "reload inspector":
            self.test.assertEqual(self.order(order), "ok ", order)

    def end(self):
        self.process.communicate()
        self.test.assertEqual(self.process.returncode, 0)


class CertificatesTest(CliTest):
    def new_ca(self, folder):
        """From now on servers that read their files have a certificate of this CA; they trust the
        old one, too, as their peers change one by one."""
        make_ca(folder, "next")
        make_cert(folder, "server", "next")
        with open(os.path.join(folder, "ca.pem"), "a", encoding="ascii") as file:
            file.write(self.text_of(folder, "next.pem"))

    @staticmethod
    def text_of(folder, name):
        with open(os.path.join(folder, name), encoding="ascii") as file:
            return file.read()

    @staticmethod
    def read_again(node, folder):
        def place(name):
            return os.path.join(folder, name)
        node.do("CONFIG", "SET", "tls-cert-file", place("server.pem"),
                "tls-key-file", place("server.key"), "tls-ca-cert-file", place("ca.pem"))
        node.do("CLIENT", "KILL", "TYPE", "pubsub")
        node.do("CLIENT", "KILL", "TYPE", "normal")

    def trust(self, folder, name):
        shutil.copy(os.path.join(folder, name), self.path("mine.pem"))

    def start_both(self, folder, url):
        self.trust(folder, "ca.pem")
        self.env["QUERN_BROKER"] = url
        worker = self.start("work", "--exec", "*=true", "--queue", "default", "--queue", "other",
                            "--on-hup", "reload")
        scheduler = self.start("schedule", "run", "--verbose", "--file",
                               self.write("s.conf", SECONDS))
        self.until(lambda: "worker starts" in self.read(worker.log_name), "the worker runs")
        self.until(lambda: "tick was sent" in self.read(scheduler.log_name), "it sends ticks")
        return worker, scheduler

    def break_file(self, folder, caller, nodes):
        """Read again when they are broken, the old ones stay, for new connections, too."""
        caller.check_works()
        self.write("mine.pem", "no certificate")
        caller.check_keeps_its_own()
        for node in nodes:
            node.do("CLIENT", "KILL", "TYPE", "normal")
        caller.check_works()
        self.trust(folder, "ca.pem")

    def lose(self, process):
        self.until(lambda: "unknown CA" in self.read(process.log_name), "it refuses the servers")

    def reload(self, folder, worker, scheduler):
        self.write("mine.pem", "no certificate")
        words = "certificates not reloaded, the old ones stay"
        for process in worker, scheduler:
            process.send_signal(signal.SIGHUP)
            self.until(lambda one=process: words in self.read(one.log_name), words)
        self.assertIn("mine.pem: no certificate in it", self.read(worker.log_name))
        self.trust(folder, "next.pem")
        for process in worker, scheduler:
            process.send_signal(signal.SIGHUP)
        self.until(lambda: "certificates reloaded" in self.read(worker.log_name), "it has them")

    def check_flow(self, scheduler):
        """Tasks of each queue run, and ticks are sent."""
        count = self.read(scheduler.log_name).count("tick was sent")
        for queue in ("default", "other"):
            task_id = self.enqueue("t", "--queue", queue, "--retention", "1h")
            self.wait_state(task_id, "completed")
        self.until(lambda: self.read(scheduler.log_name).count("tick was sent") > count,
                   "it sends more ticks")

    def end_both(self, worker, scheduler):
        self.assertEqual(self.stop(worker), 0)
        self.assertEqual(self.stop(scheduler), 0)

    def test_sentinels(self):
        servers = SentinelSet(tls=True)
        self.addCleanup(servers.stop)
        folder = servers.folder
        url = servers.url().replace(os.path.join(folder, "ca.pem"), self.path("mine.pem"))
        both = self.start_both(folder, url)
        caller = Caller(self, url)
        self.break_file(folder, caller, servers.nodes)
        self.new_ca(folder)
        for node in servers.sentinels:
            node.kill()
            node.start()
        for node in servers.nodes:
            self.read_again(node, folder)
        for process in both:
            self.lose(process)
        servers.settle()
        self.assertIn("unknown CA", self.fails(EXIT_BROKER, "--broker", url, "stats"))
        caller.check_refuses()
        self.reload(folder, *both)
        caller.reload()
        caller.check_works()
        self.check_flow(both[1])
        old = servers.master()
        servers.sentinels[0].do("SENTINEL", "FAILOVER", MASTER)
        servers.wait_new_master(old)
        servers.settle()
        self.check_flow(both[1])
        caller.check_works()
        caller.end()
        self.end_both(*both)

    def test_a_cluster(self):
        folder = self.path("servers")
        os.mkdir(folder)
        make_ca(folder, "ca")
        make_cert(folder, "server", "ca")
        files = [os.path.join(folder, name) for name in ("ca.pem", "server.pem", "server.key")]
        cluster = lib_cluster.Cluster(masters=3, replicas=0, options=(
            "--tls-port", "TLS_PORT", "--tls-cluster", "yes", "--tls-replication", "yes",
            "--tls-auth-clients", "no", "--tls-ca-cert-file", files[0],
            "--tls-cert-file", files[1], "--tls-key-file", files[2]))
        self.addCleanup(cluster.stop)
        url = cluster.tls_url(self.path("mine.pem"))
        both = self.start_both(folder, url)
        caller = Caller(self, url)
        self.break_file(folder, caller, cluster.nodes)
        self.new_ca(folder)
        for node in cluster.nodes:
            self.read_again(node, folder)
        for process in both:
            self.lose(process)
        caller.check_refuses()
        self.reload(folder, *both)
        caller.reload()
        caller.check_works()
        self.check_flow(both[1])
        cluster.move_slot(lib_cluster.slot_of("other"))
        self.check_flow(both[1])
        caller.check_works()
        caller.end()
        self.end_both(*both)


if __name__ == "__main__":
    main()
