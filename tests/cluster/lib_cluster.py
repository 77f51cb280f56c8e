# SPDX-License-Identifier: MIT
"""A Redis Cluster for tests in Python: masters, a replica of each, and slots that can be moved.

All nodes listen on 127.0.0.1 on ports of their own and keep their files in one folder, which is
removed at the end. They are stopped by their process, never by a name."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from lib_redis import PATIENCE_S, Connection, RedisError, die_with_parent

NODE_TIMEOUT_MS = 1000
SLOTS = 16384


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def slot_of(queue):
    return crc16(queue.encode()) % SLOTS


class NodeConnection(Connection):
    """As Connection, over TCP."""

    def __init__(self, port):
        self.port = port
        super().__init__(port)

    def connect(self, port):
        return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


class Node:
    def __init__(self, folder, options):
        self.folder = folder
        self.options = options
        os.makedirs(folder, exist_ok=True)
        self.process = None
        self.link = None
        self.port = 0
        for _ in range(20):
            # The bus listens 10000 above.
            self.port = random.randrange(20000, 50000)
            self.tls_port = random.randrange(20000, 50000)
            if self.start():
                break
        else:
            raise RuntimeError("no port for a node of the cluster")
        self.id = self.own_id()

    def own_id(self):
        return self.do("CLUSTER", "MYID").decode()

    @staticmethod
    def mode():
        return ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
                "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
                "--cluster-replica-validity-factor", "0"]

    def start(self):
        """False: another process has the port."""
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--dir", self.folder, *self.mode(),
             "--repl-diskless-sync-delay", "0", "--loglevel", "notice", "--logfile", "log",
             *[option.replace("TLS_PORT", str(self.tls_port)) for option in self.options]],
            preexec_fn=die_with_parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                self.link = NodeConnection(self.port)
                self.link.do("PING")
                return True
            except (OSError, RedisError, ValueError):
                time.sleep(0.02)
        return False

    def do(self, *words):
        return self.link.do(*words)

    def named_port(self):
        """By which the nodes know it."""
        return self.tls_port if "--tls-cluster" in self.options else self.port

    def kill(self):
        """As a crash."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.link.close()

    def is_alive(self):
        return self.process.poll() is None


class Alone(Node):
    """A server without a cluster, started as the nodes of one are."""

    def own_id(self):
        return ""

    @staticmethod
    def mode():
        return []

    def url(self):
        return f"redis://127.0.0.1:{self.port}"


def wait_until(check, what):
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.02)


class Cluster:
    def __init__(self, masters=3, replicas=1, options=()):
        self.folder = tempfile.mkdtemp(prefix="quern-cluster-")
        self.nodes = []
        for i in range(masters * (1 + replicas)):
            self.nodes.append(Node(os.path.join(self.folder, str(i)), options))
        heads = self.nodes[:masters]
        for i, node in enumerate(heads):
            first, last = SLOTS * i // masters, SLOTS * (i + 1) // masters - 1
            node.do("CLUSTER", "ADDSLOTS", *range(first, last + 1))
            node.do("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            node.do("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].named_port())
        wait_until(lambda: all(len(self.table(node)) == len(self.nodes) for node in self.nodes),
                   "all nodes know each other")
        for i, node in enumerate(self.nodes[masters:]):
            node.do("CLUSTER", "REPLICATE", heads[i % masters].id)
        self.wait_sound()

    @staticmethod
    def table(node):
        """Of CLUSTER NODES: a row of words for each node that is not being met."""
        rows = [line.split() for line in node.do("CLUSTER", "NODES").decode().splitlines()]
        return [row for row in rows if "handshake" not in row[2]]

    def is_sound(self):
        living = [node for node in self.nodes if node.is_alive()]
        for node in living:
            info = node.do("CLUSTER", "INFO").decode()
            if "cluster_state:ok" not in info:
                return False
            if b"master_link_status:down" in node.do("INFO", "replication"):
                return False
        return True

    def wait_sound(self):
        wait_until(self.is_sound, "the cluster is sound")

    def wait_linked(self):
        """Until every master has a replica that follows it."""
        def linked():
            return self.is_sound() and all(
                b"state=online" in master.do("INFO", "replication") for master in self.masters())
        wait_until(linked, "every master has a replica")

    def url(self):
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:3])
        return f"redis-cluster://{places}"

    def tls_url(self, authority):
        """Where each node has a port for TLS (lib_tls.py)."""
        places = ",".join(f"127.0.0.1:{node.tls_port}" for node in self.nodes[:3])
        return f"rediss-cluster://{places}?ca={authority}"

    def masters(self):
        found = []
        for node in self.nodes:
            if node.is_alive() and b"role:master" in node.do("INFO", "replication"):
                found.append(node)
        return [node for node in found if self.owns_any(node)]

    def owns_any(self, node):
        row = next(row for row in self.table(node) if "myself" in row[2])
        return len(row) > 8

    def owner_of(self, slot):
        """The master that owns it, as the masters themselves say."""
        for node in self.masters():
            row = next(row for row in self.table(node) if "myself" in row[2])
            for part in row[8:]:
                if part.startswith("["):
                    continue
                first, _, last = part.partition("-")
                if int(first) <= slot <= int(last or first):
                    return node
        return None

    def replica_of(self, master):
        for node in self.nodes:
            if node.is_alive() and node is not master:
                row = next(row for row in self.table(node) if "myself" in row[2])
                if row[3] == master.id:
                    return node
        return None

    def fail_over(self, master, lag_s=0.0):
        """Kills a master, and waits until its replica has taken its place. lag_s: for so long the
        replica gets nothing before. Returns the new master."""
        heir = self.replica_of(master)
        if lag_s > 0:
            # What is on its way to it still comes.
            heir.process.send_signal(signal.SIGSTOP)
            master.do("CLIENT", "KILL", "TYPE", "replica")
            time.sleep(lag_s)
        master.kill()
        heir.process.send_signal(signal.SIGCONT)
        wait_until(lambda: b"role:master" in heir.do("INFO", "replication"),
                   "the replica took over")
        wait_until(lambda: "cluster_state:ok" in heir.do("CLUSTER", "INFO").decode(), "it is sound")
        return heir

    def start_again(self, node):
        """As the replica of the node that took its place."""
        node.start()
        self.wait_linked()

    def move_slot(self, slot, target=None, pause_s=0.0):
        """Moves a slot key by key, as redis-cli does."""
        source = self.owner_of(slot)
        target = target or random.choice([node for node in self.masters() if node is not source])
        target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        moved = 0
        while True:
            keys = source.do("CLUSTER", "GETKEYSINSLOT", slot, 10)
            if not keys:
                break
            for key in keys:
                source.do("MIGRATE", "127.0.0.1", target.named_port(), key, 0, 5000, "REPLACE")
                moved += 1
                time.sleep(pause_s)
        target.do("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        source.do("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        for node in self.masters():
            if node not in (source, target):
                node.do("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        return moved

    def do(self, queue, *words):
        """A command at the node that owns the slot of the queue."""
        return self.owner_of(slot_of(queue)).do(*words)

    def keys(self, pattern="*"):
        return [key for node in self.masters() for key in node.do("KEYS", pattern)]

    def stop(self):
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
