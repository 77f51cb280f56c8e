#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program over TLS, with a redis-server that wants certificates of its clients, and whose own
were made by openssl(1) a moment ago."""

import os
import shutil
import signal
import subprocess
import time

import lib_redis
from lib_cli import EXIT_BROKER, EXIT_CONFIG, CliTest, main
from lib_tls import free_port, make_ca, make_cert


class TlsTest(CliTest):
    def setUp(self):
        super().setUp()
        self.make_ca("ca")
        self.make("server", "ca")
        self.make("client", "ca")
        self.port, self.plain_port = free_port(), free_port()
        self.redis = lib_redis.Redis(
            "--port", str(self.plain_port), "--bind", "127.0.0.1",
            "--tls-port", str(self.port), "--tls-auth-clients", "yes",
            "--tls-ca-cert-file", self.path("ca.pem"),
            "--tls-cert-file", self.path("server.pem"), "--tls-key-file", self.path("server.key"))
        self.addCleanup(self.redis.stop)
        self.env["QUERN_BROKER"] = self.url()

    def make_ca(self, name):
        make_ca(self.home, name)

    def make(self, name, authority):
        make_cert(self.home, name, authority)

    def url(self, **changes):
        """With each file by its name; None leaves one out."""
        files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key", **changes}
        query = "&".join(f"{name}={self.path(file)}" for name, file in files.items() if file)
        return f"rediss://localhost:{self.port}?{query}"

    def test_tasks_are_stored_and_run(self):
        self.ok("enqueue", "--from", "-", stdin='{"type":"t"}\n' * 200)
        self.ok("work", "--exec", "t=true", "--drain")
        self.assertIn("rediss://localhost", self.ok("db", "info"))
        self.ok("doctor")
        worker = self.start("work", "--exec", "t=true")
        self.until(lambda: "worker starts" in self.read(worker.log_name), "it runs")
        began = time.monotonic()
        self.wait_state(self.enqueue("t"), "gone")  # woken by TLS, too
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(self.stop(worker), 0)

    def test_spellings_of_other_libraries_mean_the_same(self):
        theirs = self.url().replace("ca=", "ssl_ca_certs=").replace("cert=", "ssl_certfile=")
        theirs = theirs.replace("key=", "ssl_keyfile=") + "&ssl_cert_reqs=required"
        self.ok("--broker", theirs, "enqueue", "t")
        self.ok("--broker", theirs.replace("rediss:", "valkeys:"), "enqueue", "t")
        for url in (f"unix://{self.redis.path}?db=3",
                    f"redis+socket://{self.redis.path}?virtual_host=3",
                    f"valkey://127.0.0.1:{self.plain_port}/3"):
            self.ok("enqueue", "t", env={"QUERN_BROKER": "", "REDIS_URL": url})
        self.redis.do("SELECT", 3)
        self.assertEqual(self.redis.do("LLEN", "asynq:{default}:pending"), 3)
        for value in ("none", "CERT_NONE"):
            error = self.fails(EXIT_CONFIG, "--broker", f"{self.url()}&ssl_cert_reqs={value}",
                               "enqueue", "t")
            self.assertIn("always checked", error)

    def test_what_is_refused_says_why(self):
        self.make_ca("other")
        plain = f"rediss://localhost:{self.plain_port}?ca={self.path('ca.pem')}"
        for url, words in ((self.url(ca=None), "unknown CA"),
                           (self.url(ca="other.pem"), "unknown CA"),
                           (self.url() + "&servername=redis.example", "not for redis.example"),
                           (self.url(cert=None, key=None), "requires a certificate"),
                           (plain, "plain port"),
                           (f"redis://localhost:{self.port}", "rediss://")):
            with self.subTest(url=url):
                self.assertIn(words, self.fails(EXIT_BROKER, "--broker", url, "stats"))
        for url, words in ((self.url(ca="missing.pem"), "No such file"),
                           (self.url(key="other.key"), "not the key"),
                           (self.url(cert=None), "without cert=")):
            with self.subTest(url=url):
                self.assertIn(words, self.fails(EXIT_CONFIG, "--broker", url, "stats"))

    def start_redis(self, name, *options):
        """Another server, by TLS only; gives its port."""
        port, folder = free_port(), self.path(name)
        while port > 50000:  # the bus of a cluster takes the port 10000 above
            port = free_port()
        os.mkdir(folder)
        server = lib_redis.start_server(
            os.path.join(folder, "r.sock"), "--tls-port", str(port), "--bind", "127.0.0.1",
            "--tls-auth-clients", "no", "--tls-ca-cert-file", self.path("ca.pem"),
            "--tls-cert-file", self.path("server.pem"), "--tls-key-file", self.path("server.key"),
            *options)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return port, os.path.join(folder, "r.sock")

    def ask(self, path, *words):
        def connect():
            try:
                return lib_redis.Connection(path)
            except OSError:
                return None
        link = self.until(connect, f"{path} is there")
        try:
            return link.do(*words)
        finally:
            link.close()

    def run_one(self, url):
        self.ok("--broker", url, "enqueue", "t")
        self.assertIn("done 1", self.quern("--broker", url, "work", "--exec", "t=true",
                                           "--drain").stderr)
        self.assertIn("unknown CA", self.fails(EXIT_BROKER, "--broker", url.split("?ca")[0].split(
            "&ca")[0], "stats"))

    def test_a_cluster_by_tls(self):
        port, path = self.start_redis("cluster", "--tls-cluster", "yes", "--cluster-enabled", "yes")
        self.ask(path, "CLUSTER", "ADDSLOTS", *range(16384))
        self.until(lambda: b"cluster_state:ok" in self.ask(path, "CLUSTER", "INFO"), "it serves")
        self.run_one(f"rediss-cluster://127.0.0.1:{port}?ca={self.path('ca.pem')}")

    def test_sentinels_by_tls(self):
        port, _ = self.start_redis("master", "--tls-replication", "yes")
        sentinel, path = free_port(), self.path("s.sock")
        config = self.write("sentinel.conf", f"""port 0
unixsocket {path}
tls-port {sentinel}
bind 127.0.0.1
dir {self.home}
tls-replication yes
tls-auth-clients no
tls-ca-cert-file {self.path("ca.pem")}
tls-cert-file {self.path("server.pem")}
tls-key-file {self.path("server.key")}
sentinel monitor m 127.0.0.1 {port} 1
""")
        self.spawn("redis-server", config, "--sentinel", stdout=subprocess.DEVNULL)
        self.until(lambda: b"flags" in b" ".join(
            word for word in self.ask(path, "SENTINEL", "MASTER", "m") if isinstance(word, bytes)),
            "the sentinel knows the master")
        self.run_one(f"rediss-sentinel://127.0.0.1:{sentinel}/0?master=m&ca={self.path('ca.pem')}")

    def test_hup_reads_the_certificates_again(self):
        worker = self.start("work", "--exec", "t=true", "--on-hup", "reload")

        def hup(words):
            before = self.read(worker.log_name).count(words)
            worker.send_signal(signal.SIGHUP)
            self.until(lambda: self.read(worker.log_name).count(words) > before, words)

        self.until(lambda: "worker starts" in self.read(worker.log_name), "it runs")
        # The server gets a certificate of another CA: the worker needs that, too.
        self.make_ca("next")
        self.make("server", "next")
        self.make("client", "next")
        self.redis.do("CONFIG", "SET", "tls-cert-file", self.path("server.pem"),
                      "tls-key-file", self.path("server.key"),
                      "tls-ca-cert-file", self.path("next.pem"))
        self.write("ca.pem", "no certificate")
        os.chmod(self.path("ca.pem"), 0o600)
        hup("certificates not reloaded, the old ones stay")
        shutil.copy(self.path("next.pem"), self.path("ca.pem"))
        hup("certificates reloaded")
        self.redis.do("CLIENT", "KILL", "TYPE", "normal")
        self.redis.do("CLIENT", "KILL", "TYPE", "pubsub")
        self.wait_state(self.enqueue("t"), "gone")
        self.assertEqual(self.stop(worker), 0)


if __name__ == "__main__":
    main()
