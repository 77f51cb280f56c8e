#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cluster.py [TASKS [TURNS [QUEUES]]] - what tasks cost on a cluster of two masters, beside one
server.

Queues that lie on both masters are filled and drained by `quern bench drain`, and the same queues
on the one server. Prints the CPU of all servers (for storing and draining a task) and of the worker
(for draining), measured in turns, and the ratio. QUERN names the program, which should be that of a
release build."""

import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "cluster")]

import lib_cluster  # noqa: E402
from lib_redis import Redis  # noqa: E402

QUERN = os.environ["QUERN"]
TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 40000
TURNS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
QUEUES = sys.argv[3] if len(sys.argv) > 3 else "2"


def cpu_of(servers):
    total = 0
    for server in servers:
        info = server.do("INFO", "cpu").decode()
        for line in info.splitlines():
            name, _, value = line.partition(":")
            if name in ("used_cpu_sys", "used_cpu_user"):
                total += float(value)
    return total


def drain(url, servers):
    """CPU of the servers and of the worker for each task, in us."""
    before = cpu_of(servers)
    result = subprocess.run(
        [QUERN, "--json", "bench", "drain", "--tasks", str(TASKS), "--queues", QUEUES,
         "--broker", url], check=True, capture_output=True, text=True)
    row = json.loads(result.stdout)
    row = row[0] if isinstance(row, list) else row
    return (cpu_of(servers) - before) * 1e6 / TASKS, row["worker_cpu_us"]


def main():
    """A server in cluster mode checks the slot of every key of a script: so the cost of that mode
    is shown by a cluster of one master."""
    single = lib_cluster.Cluster(masters=1, replicas=0)
    double = lib_cluster.Cluster(masters=2, replicas=0)
    server = Redis()
    kinds = (("one server", server.url(), [server]), ("one master", single.url(), single.nodes),
             ("two masters", double.url(), double.nodes))
    rows = {name: [] for name, _, _ in kinds}
    try:
        for _ in range(TURNS):
            for name, url, servers in kinds:
                rows[name].append(drain(url, servers))
        for i, what in enumerate(("servers", "worker")):
            costs = {name: statistics.median(row[i] for row in rows[name]) for name in rows}
            words = ", ".join(f"{name} {cost:.2f} us" for name, cost in costs.items())
            print(f"{what}: {words} a task; two masters to one server "
                  f"{costs['two masters'] / costs['one server']:.3f}, to one master "
                  f"{costs['two masters'] / costs['one master']:.3f}")
    finally:
        server.stop()
        single.stop()
        double.stop()


if __name__ == "__main__":
    main()
