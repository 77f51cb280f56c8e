# SPDX-License-Identifier: MIT
"""A redis-server for tests in Python, a client of it, and the data that a Go program would write.

The server listens on a Unix socket in a folder of its own, which is removed when it is stopped.
Replies are bytes, integers, None or lists; an error reply is raised as RedisError."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from lib_changes import Changes

PATIENCE_S = 60
LIBC = ctypes.CDLL(None)


def die_with_parent():
    """In a child: a test that is killed leaves no process behind."""
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start_server(path, *options, **streams):
    """Starts a redis-server that listens at `path` and keeps its files beside it."""
    return subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
         "--dir", os.path.dirname(path), "--loglevel", "warning", *options],
        preexec_fn=die_with_parent, **{"stdout": subprocess.DEVNULL, **streams})


class RedisError(Exception):
    pass


class Connection:
    """Words out, replies back; several threads may use it."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.socket = self.connect(path)
        self.file = self.socket.makefile("rb")

    def connect(self, path):
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(path)
        except OSError:
            link.close()
            raise
        return link

    def close(self):
        self.file.close()
        self.socket.close()

    def do(self, *words):
        return self.pipeline([words])[0]

    def pipeline(self, commands):
        with self.lock:
            self.socket.sendall(b"".join(self.pack(words) for words in commands))
            replies = [self.reply() for _ in commands]
        for reply in replies:
            if isinstance(reply, RedisError):
                raise reply
        return replies

    @staticmethod
    def pack(words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        return b"".join(parts)

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        size = int(rest)
        if size < 0:
            return None
        if kind == b"$":
            return self.file.read(size + 2)[:-2]
        return [self.reply() for _ in range(size)]


class Redis(Connection):
    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="quern-redis-")
        self.path = os.path.join(self.folder, "r.sock")
        changes = Changes(self.folder)
        self.process = start_server(self.path, *options)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            changes.forget()
            try:
                super().__init__(self.path)
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    self.kill()
                    raise
                changes.wait([self.process])
        changes.close()

    def url(self, user="", password=""):
        login = f"{user}:{password}@" if user else ""
        return f"redis-socket://{login}{self.path}"

    def stop(self):
        self.close()
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dump(self):
        """All keys: name to (type, ttl_ms or 0, value)."""
        found = {}
        for key in self.do("KEYS", "*"):
            kind = self.do("TYPE", key).decode()
            if kind == "string":
                value = self.do("GET", key)
            elif kind == "hash":
                flat = self.do("HGETALL", key)
                value = dict(zip(flat[::2], flat[1::2]))
            elif kind == "list":
                value = self.do("LRANGE", key, 0, -1)
            elif kind == "set":
                value = set(self.do("SMEMBERS", key))
            elif kind == "zset":
                flat = self.do("ZRANGE", key, 0, -1, "WITHSCORES")
                value = dict(zip(flat[::2], flat[1::2]))
            else:
                continue  # gone between KEYS and TYPE
            found[key] = (kind, max(0, self.do("PTTL", key)), value)
        return found

    # --- data of Go ----------------------------------------------------------------------

    def go_commands(self, task_id, state, score=0, queue="default", fields=None, **message):
        """The commands by which asynq puts a task into a state; score in seconds."""
        base = f"asynq:{{{queue}}}:"
        message = {"type": "t", "timeout": 1800, "retry": 25, **message}
        fields = {"msg": go_message(id=task_id, queue=queue, **message), "state": state,
                  **(fields or {})}
        if state == "pending":
            fields.setdefault("pending_since", int(score * 1000000000))
        words = [word for pair in fields.items() for word in pair]
        commands = [("SADD", "asynq:queues", queue), ("HSET", f"{base}t:{task_id}", *words)]
        if state in ("pending", "active"):
            commands.append(("LPUSH", base + state, task_id))
        if state == "active":
            commands.append(("ZADD", base + "lease", score, task_id))
        if state == "aggregating":
            group = fields["group"]
            commands.append(("ZADD", f"{base}g:{group}", score, task_id))
            commands.append(("SADD", base + "groups", group))
        if state in ("scheduled", "retry", "archived", "completed"):
            commands.append(("ZADD", base + state, score, task_id))
        return commands

    def go_put(self, *args, **kwargs):
        self.pipeline(self.go_commands(*args, **kwargs))


FIELDS = ("type", "payload", "id", "queue", "retry", "retried", "error_msg", "timeout", "deadline",
          "unique_key", "last_failed_at", "retention", "completed_at", "group_key")


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def go_message(**values):
    """asynq's TaskMessage: protobuf, zero values left out."""
    out = b""
    for number, name in enumerate(FIELDS, 1):
        value = values.get(name)
        if not value:
            continue
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value if isinstance(value, bytes) else value.encode()
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out
