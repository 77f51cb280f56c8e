# SPDX-License-Identifier: MIT
"""Redis servers on TCP ports, and a set of them that fails over: a master, two replicas and three
sentinels, each with its own folder below one that is removed in the end."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import lib_tls
from lib_redis import Connection, RedisError, die_with_parent

PATIENCE_S = 60
MASTER = "mymaster"
DOWN_AFTER_MS = 700


def free_ports(count):
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class TcpConnection(Connection):
    # pylint: disable-next=super-init-not-called
    def __init__(self, port, timeout_s=PATIENCE_S, ca=None):
        self.lock = threading.Lock()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        if ca:
            context = ssl.create_default_context(cafile=ca)
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.file = self.socket.makefile("rb")


class Node:
    """One redis-server, or one sentinel; it can be stopped, killed and started again."""

    def __init__(self, folder, port, *options, sentinel=None, password="", certificates=None):
        self.folder, self.port, self.options = folder, port, options
        self.password = password
        self.certificates = certificates  # a folder: it speaks TLS only
        self.sentinel = sentinel  # its configuration
        self.process = None
        os.makedirs(folder, exist_ok=True)
        if sentinel:
            with open(os.path.join(folder, "sentinel.conf"), "w", encoding="utf-8") as file:
                file.write(sentinel)
        self.start()

    def start(self, *more):
        common = ["--bind", "127.0.0.1", *self.port_options(), "--dir", self.folder,
                  "--logfile", os.path.join(self.folder, "log")]
        if self.sentinel:
            command = ["redis-server", os.path.join(self.folder, "sentinel.conf"), "--sentinel",
                       *common]
        else:
            command = ["redis-server", *common, "--save", "", *self.options, *more]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        until(self.answers, f"port {self.port} answers", process=self.process)

    def port_options(self):
        if not self.certificates:
            return ["--port", str(self.port)]
        return ["--port", "0", "--tls-port", str(self.port), "--tls-replication", "yes",
                "--tls-auth-clients", "no", "--tls-ca-cert-file", self.certificate("ca.pem"),
                "--tls-cert-file", self.certificate("server.pem"),
                "--tls-key-file", self.certificate("server.key")]

    def certificate(self, name):
        return os.path.join(self.certificates, name)

    def connect(self, timeout_s=PATIENCE_S):
        ca = self.certificate("ca.pem") if self.certificates else None
        connection = TcpConnection(self.port, timeout_s, ca)
        if self.password:
            connection.do("AUTH", self.password)
        return connection

    def do(self, *words):
        connection = self.connect()
        try:
            return connection.do(*words)
        finally:
            connection.close()

    def answers(self):
        try:
            return self.do("PING") == b"PONG"
        except RedisError as error:
            return not str(error).startswith("LOADING")
        except OSError:
            return False

    def role(self):
        try:
            return self.do("ROLE")[0].decode()
        except (RedisError, OSError, ValueError):
            return ""

    def url(self, scheme="redis"):
        login = f":{self.password}@" if self.password else ""
        return f"{scheme}://{login}127.0.0.1:{self.port}"

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def runs(self):
        return self.process is not None and self.process.poll() is None


def until(condition, what, process=None, patience_s=PATIENCE_S):
    """Other processes change the condition, so it is looked at again and again."""
    deadline = time.monotonic() + patience_s
    while True:
        found = condition()
        if found:
            return found
        if process is not None and process.poll() is not None:
            raise AssertionError(f"a server ended: {what}")
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(0.01)


class SentinelSet:
    """A master, replicas and sentinels. Users of the data nodes and of the sentinels have different
    passwords if they are given."""

    def __init__(self, replicas=2, sentinels=3, password="", sentinel_password="", tls=False):
        self.folder = tempfile.mkdtemp(prefix="quern-sentinel-")
        self.certificates = self.folder if tls else None
        if tls:
            lib_tls.make_ca(self.folder, "ca")
            lib_tls.make_cert(self.folder, "server", "ca")
        self.password, self.sentinel_password = password, sentinel_password
        ports = free_ports(1 + replicas + sentinels)
        login = ["--requirepass", password, "--masterauth", password] if password else []
        quick = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
        self.nodes = []
        try:
            for index, port in enumerate(ports[:1 + replicas]):
                folder = os.path.join(self.folder, f"node-{index}")
                follow = ["--replicaof", f"127.0.0.1 {ports[0]}"] if index else []
                self.nodes.append(Node(folder, port, *login, *quick, *follow, password=password,
                                       certificates=self.certificates))
            master = self.nodes[0]
            until(lambda: all(self.is_synced(node) for node in self.nodes[1:]),
                  "the replicas have the data")
            self.sentinels = []
            for index, port in enumerate(ports[1 + replicas:]):
                self.sentinels.append(Node(
                    os.path.join(self.folder, f"sentinel-{index}"), port,
                    sentinel=self.configuration(master.port), password=sentinel_password,
                    certificates=self.certificates))
            for node in self.sentinels:
                self.hurry(node)
            until(lambda: all(self.is_known(node) for node in self.sentinels),
                  "the sentinels know each other and the replicas")
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def hurry(sentinel):
        """Looks at its servers more often than each 10 s, where this version can be told to. The
        first ping to a new master comes after such a period: were it not well below DOWN_AFTER_MS,
        each new master would be taken for down. A replica is promoted if what it says of itself,
        each second, is not older than five periods."""
        try:
            sentinel.do("SENTINEL", "DEBUG", "INFO-PERIOD", 300, "PUBLISH-PERIOD", 300,
                        "ASK-PERIOD", 200, "PING-PERIOD", 300)
        except RedisError:
            pass

    def configuration(self, port):
        lines = [f"sentinel monitor {MASTER} 127.0.0.1 {port} 2",
                 f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}",
                 f"sentinel failover-timeout {MASTER} 1500",
                 f"sentinel parallel-syncs {MASTER} 2"]
        if self.password:
            lines.append(f"sentinel auth-pass {MASTER} {self.password}")
        if self.sentinel_password:
            lines += [f"requirepass {self.sentinel_password}",
                      f"sentinel sentinel-pass {self.sentinel_password}"]
        return "\n".join(lines) + "\n"

    @staticmethod
    def is_synced(node):
        try:
            role = node.do("ROLE")
        except (RedisError, OSError, ValueError):
            return False
        return role[0] == b"slave" and role[3] == b"connected"

    @staticmethod
    def fields(flat):
        return dict(zip(flat[::2], flat[1::2]))

    def is_known(self, sentinel):
        fields = self.fields(sentinel.do("SENTINEL", "MASTER", MASTER))
        return (int(fields[b"num-other-sentinels"]) == len(self.sentinels) - 1 and
                int(fields[b"num-slaves"]) == len(self.nodes) - 1)

    def is_at_rest(self, sentinel, master):
        """Whether it names this master, finds nothing down and has ended its own failover. One that
        is in the middle of it when the new master fails, too, would go back to it later."""
        fields = self.fields(sentinel.do("SENTINEL", "MASTER", MASTER))
        replicas = [self.fields(flat) for flat in sentinel.do("SENTINEL", "REPLICAS", MASTER)]
        return (fields[b"flags"] == b"master" and int(fields[b"port"]) == master.port and
                all(replica[b"flags"] == b"slave" for replica in replicas))

    def url(self, more=""):
        login = f":{self.password}@" if self.password else ""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.sentinels)
        scheme, ca = "redis-sentinel", ""
        if self.certificates:
            scheme, ca = "rediss-sentinel", f"&ca={os.path.join(self.certificates, 'ca.pem')}"
        return f"{scheme}://{login}{hosts}/0?master={MASTER}{ca}{more}"

    def master(self):
        """The node that the sentinels name, if it is one; None while there is none."""
        for sentinel in self.sentinels:
            if sentinel.runs():
                place = sentinel.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
                for node in self.nodes:
                    if node.port == int(place[1]) and node.runs():
                        return node
        return None

    def replicas(self):
        """Of the present master, with all its data up to now."""
        return [node for node in self.nodes if node.runs() and node is not self.master()]

    def wait_new_master(self, old):
        """The moment at which another node has become the master, and the node."""
        def find():
            for node in self.nodes:
                if node is not old and node.runs() and node.role() == "master":
                    return node
            return None
        node = until(find, "another node is the master")
        return time.monotonic(), node

    def settle(self):
        """All nodes run, and follow the one that all sentinels name."""
        for node in self.nodes:
            if not node.runs():
                node.start()
        def settled():
            master = self.master()
            return (master is not None and master.role() == "master" and
                    all(node is master or self.follows(node, master) for node in self.nodes) and
                    all(self.is_known(each) and self.is_at_rest(each, master)
                        for each in self.sentinels))
        until(settled, "the set has settled")

    @staticmethod
    def follows(node, master):
        try:
            role = node.do("ROLE")
        except (RedisError, OSError, ValueError):
            return False
        return role[0] == b"slave" and role[3] == b"connected" and int(role[2]) == master.port

    def stop(self):
        for node in self.nodes + getattr(self, "sentinels", []):
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
