#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The driver of Celery; see README.md for its commands."""
import os
import sys
import threading
import time

import celery
import celery.signals

PAYLOAD = 100
URL = f"redis://{os.environ.get('BENCH_HOST')}:{os.environ.get('BENCH_PORT')}/0"
app = celery.Celery("bench", broker=URL)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, task_serializer="json",
                worker_hijack_root_logger=False, worker_redirect_stdouts=False)

COUNT = int(os.environ.get("BENCH_COUNT", "0"))
state = {"done": 0, "begin": 0.0}
lock = threading.Lock()


@app.task(name="bench")
def bench(payload):
    """Does nothing, or prints how long it took to get here."""
    now = time.monotonic_ns()
    if COUNT == 0:
        print(now - int(payload), flush=True)
        return
    with lock:
        state["done"] += 1
        if state["done"] == COUNT:
            print((now - state["begin"]) / 1e9, flush=True)
            os._exit(0)


def note_start(**_kwargs):
    """The worker is ready to take tasks."""
    state["begin"] = time.monotonic_ns()
    if COUNT == 0:
        print("ready", flush=True)


def serve():
    """The solo pool was the fastest one for tasks that do nothing."""
    celery.signals.worker_ready.connect(note_start, weak=False)
    app.worker_main(["worker", "--pool", "solo", "--loglevel", "CRITICAL", "--without-gossip",
                     "--without-mingle", "--without-heartbeat"])


def single(count):
    """One call after the other; Celery has no bulk call."""
    payload = "x" * PAYLOAD
    bench.delay(payload)
    app.control.purge()
    begin = time.monotonic_ns()
    for _ in range(count):
        bench.delay(payload)
    print((time.monotonic_ns() - begin) / 1e9)


def main():
    """Runs the command of the first argument."""
    global COUNT
    command = sys.argv[1]
    if command == "version":
        print(f"Celery {celery.__version__}, Python {sys.version.split()[0]}, solo pool, "
              "prefetch 64, no bulk call")
    elif command in ("single", "bulk"):
        single(int(sys.argv[2]))
    elif command == "work":
        COUNT = int(sys.argv[2])
        serve()
    elif command == "echo":
        serve()
    elif command == "send":
        for _ in sys.stdin:
            bench.delay(str(time.monotonic_ns()).ljust(PAYLOAD))


if __name__ == "__main__":
    main()
