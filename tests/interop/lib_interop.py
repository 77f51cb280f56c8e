# SPDX-License-Identifier: MIT
"""What the interop tests share: a Redis server of their own, asynq in Go, and quern.

Each test class starts one redis-server (lib_redis.py), and each test begins with an empty one. Go
is one process, asynq_peer, that is asked by lines of JSON (rpc.go); servers of Go and workers of
quern are processes that write a journal (server.go, worker.c)."""

import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import lib_quern
from lib_quern import PATIENCE_S, QuernTest
from lib_redis import Redis, die_with_parent
from lib_tls import TlsRedis

EXIT_SKIPPED = 77
OVER_TLS = "QUERN_TEST_TLS" in os.environ  # all but the words of the tests themselves


def b64(data):
    return None if data is None else base64.b64encode(data).decode()


def unb64(text):
    return base64.b64decode(text or "")


def import_line(task):
    """A task as Go's side of the tests names its options, as a line for `enqueue --from`. There a
    payload of None, Go's nil, is the empty one."""
    line = {"type": task.get("type", "ok"), "payload_base64": b64(task.get("payload") or b"")}
    for theirs, ours in (("queue", "queue"), ("id", "id"), ("retry", "retry_max"),
                         ("deadline_s", "deadline"), ("process_at_s", "process_at"),
                         ("group", "group"), ("headers", "headers")):
        if theirs in task:
            line[ours] = task[theirs]
    for theirs, ours in (("timeout_ms", "timeout"), ("unique_ms", "unique"),
                         ("process_in_ms", "delay"), ("retention_ms", "retention")):
        if theirs in task:
            line[ours] = f"{task[theirs]}ms"
    for never in {"retry", "timeout_ms"} & {name for name in task if task[name] == 0}:
        line["retry_max" if never == "retry" else "timeout"] = "never"
    return line


def assert_same_task(case, ours, theirs, pending_at=True):
    """A task as quern shows it (JSON of `task inspect`) and as Go shows it (task.go). pending_at:
    whether what Go says about a pending task, that it is due now, is new."""
    name = theirs["id"]
    for our_name, their_name in (("id", "id"), ("queue", "queue"), ("type", "type"),
                                 ("state", "state"), ("retry_max", "max_retry"),
                                 ("retry_count", "retried"), ("error", "last_err"),
                                 ("timeout_ms", "timeout_ms"), ("group", "group"),
                                 ("retention_ms", "retention_ms"), ("orphaned", "is_orphaned")):
        never = our_name in ("retry_max", "timeout_ms") and theirs[their_name] == 0
        case.assertEqual(ours[our_name], -1 if never else theirs[their_name], f"{name}: {our_name}")
    case.assertEqual(payload_of(ours), unb64(theirs["payload"]), name)
    case.assertEqual(payload_of(ours, "result"), unb64(theirs["result"]), name)
    case.assertEqual(ours["headers"], theirs["headers"] or {}, name)
    # Go knows whole seconds; ours are as exact as they were written.
    moments = [("failed_at_ms", "last_failed_at_ns"), ("deadline_at_ms", "deadline_ns"),
               ("completed_at_ms", "completed_at_ns")]
    if theirs["state"] in ("scheduled", "retry"):
        moments.append(("due_at_ms", "next_process_at_ns"))
    for our_name, their_name in moments:
        mine, other = ours[our_name] or 0, theirs[their_name] // 1000000
        case.assertLess(abs(mine - other), 1000, f"{name}: {our_name}: {mine} and {other}")
    if theirs["state"] == "pending" and pending_at:
        case.assertLess(abs(theirs["next_process_at_ns"] / 1e9 - time.time()), PATIENCE_S)


def payload_of(ours, name="payload"):
    """The bytes in quern's JSON: text as it is, anything else as base64."""
    if f"{name}_base64" in ours:
        return unb64(ours[f"{name}_base64"])
    return (ours.get(name) or "").encode()


class Peer:
    """Go asynq's client and Inspector."""

    def __init__(self, program, address):
        self.process = subprocess.Popen([program, "rpc", address], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        preexec_fn=die_with_parent)

    def request(self, do, **fields):
        """The reply: {"ok": ...}, or {"error": text}."""
        self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __call__(self, do, **fields):
        reply = self.request(do, **fields)
        if "error" in reply:
            raise AssertionError(f"asynq: {do} {fields}: {reply['error']}")
        return reply["ok"]

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class InteropTest(QuernTest):
    """needs_go is False in tests that hold quern against recordings only."""

    needs_go = True
    server_options = ()

    @classmethod
    def setUpClass(cls):
        if OVER_TLS:
            cls.redis = TlsRedis(*cls.server_options)
        else:
            cls.redis = Redis(*cls.server_options)
        cls.addClassCleanup(cls.redis.stop)
        cls.address = cls.redis.address if OVER_TLS else cls.redis.path  # as Go names it
        if OVER_TLS:
            os.environ["ASYNQ_PEER_CA"] = cls.redis.place("ca.pem")
        if cls.needs_go:
            cls.go = Peer(os.environ["INTEROP_PEER"], cls.address)
            cls.addClassCleanup(cls.go.stop)

    def empty(self):
        """An empty server, and clients that know nothing."""
        self.redis.do("FLUSHALL")
        if self.needs_go:
            self.go("fresh")

    def setUp(self):
        super().setUp()
        self.empty()
        self.journal = self.path("journal")
        self.url = self.redis.url()
        self.env["QUERN_BROKER"] = self.url

    def story(self):
        """What is in the server, for a test that failed."""
        return "; ".join(f"{key.decode(errors='replace')}: {kept[2]!r:.300}"
                         for key, kept in sorted(self.redis.dump().items()))

    # --- quern's program ---------------------------------------------------------------------

    def quern_result(self, *args, stdin=b""):
        return self.run_quern(*args, input=stdin)

    def quern(self, *args, stdin=b""):
        """Runs it with --json, expects success, gives the document."""
        result = self.quern_result("--json", *args, stdin=stdin)
        self.assertEqual(result.returncode, 0, f"quern {args}: {result.stderr.decode()}")
        return json.loads(result.stdout)

    def enqueue(self, task_type, payload=b"", *options):
        """By quern; returns the tasks that it reports as stored."""
        return self.quern("enqueue", task_type, "-", *options, stdin=payload)

    # --- processes ---------------------------------------------------------------------------

    def start(self, *command):
        """Starts a program and waits until it is ready."""
        process = self.spawn(*command, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n", command)
        return process

    def go_server(self, name="go", queues=None, concurrency=4, retry_ms=0, **more):
        config = {"name": name, "journal": self.journal, "queues": queues or {"default": 1},
                  "concurrency": concurrency, "retry_delay_ms": retry_ms, "check_ms": 20,
                  "forward_ms": 50, "shutdown_ms": 300, **more}
        if retry_ms is None:
            del config["retry_delay_ms"]
        return self.start(os.environ["INTEROP_PEER"], "server", self.address,
                          json.dumps(config))

    def quern_worker(self, name="quern", queues=("default",), concurrency=4, retry_ms=1,
                     lease_ms=30000):
        return self.start(os.environ["INTEROP_WORKER"], self.url, self.journal, name,
                          str(concurrency), str(lease_ms), str(retry_ms), *queues)

    def stop(self, process):
        """Ends it as an operator would, and waits."""
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def read_journal(self, what=None):
        if not os.path.exists(self.journal):
            return []
        with open(self.journal, encoding="utf-8") as file:
            text = file.read()  # at once: it grows, and a loop would read a line in two parts
        lines = [json.loads(line) for line in text.splitlines(keepends=True)
                 if line.endswith("\n")]
        return [line for line in lines if what in (None, line["what"])]

    def release(self, task_id, worker=None):
        """Lets the runs of a task of the type "hold" end; or only that of one worker."""
        name = task_id if worker is None else f"{worker}.{task_id}"
        with open(f"{self.journal}.go.{name}", "w", encoding="utf-8"):
            pass

    # --- present data -----------------------------------------------------------------------

    def state(self, task_id, queue="default"):
        """The state in the server; "gone"."""
        state = self.redis.do("HGET", f"asynq:{{{queue}}}:t:{task_id}", "state")
        return "gone" if state is None else state.decode()

    def until_state(self, state, task_id, queue="default"):
        self.until(lambda: self.state(task_id, queue) == state, f"{task_id} {state}")

    def until_started(self, task_id, count=1):
        def started():
            return sum(line["id"] == task_id for line in self.read_journal("start"))
        self.until(lambda: started() >= count, f"{task_id} started")

    def counts(self, queue="default"):
        """The totals of processed and failed in the server."""
        return tuple(int(self.redis.do("GET", f"asynq:{{{queue}}}:{name}") or 0)
                     for name in ("processed", "failed"))

    def freeze(self, process):
        """Stops a process; the server has all its earlier requests when this returns."""
        process.send_signal(signal.SIGSTOP)
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        self.until(lambda: stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "T",
                   "the process stands still")

    def age_leases(self, queue="default", seconds=90):
        """Turns back the leases of a queue: for Go, which knows no other clock than its own, this
        is what a stop of so many seconds looks like. Gives the ids."""
        key = f"asynq:{{{queue}}}:lease"
        flat = self.redis.do("ZRANGE", key, 0, -1, "WITHSCORES")
        for task_id, score in zip(flat[::2], flat[1::2]):
            self.redis.do("ZADD", key, "XX", int(score) - seconds, task_id)
        return [task_id.decode() for task_id in flat[::2]]

    def assert_clean(self):
        """quern's doctor finds nothing wrong."""
        result = self.quern_result("doctor")
        self.assertEqual(result.returncode, 0, result.stdout.decode() + result.stderr.decode())


def main():
    """Runs the tests, or prints why they cannot run."""
    peer = os.environ.get("INTEROP_PEER", "")
    if any(case.needs_go for case in InteropTest.__subclasses__()) and not os.path.exists(peer):
        try:
            with open(os.path.join(os.path.dirname(peer), "why_not"), encoding="utf-8") as file:
                reason = file.read().strip()
        except FileNotFoundError:
            reason = "asynq_peer was not built: run ctest -R interop.build"
        print(f"skipped: {reason}")
        sys.exit(1 if os.environ.get("QUERN_INTEROP_REQUIRED") else EXIT_SKIPPED)
    lib_quern.main()
