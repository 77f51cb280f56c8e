#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cluster.py [TASKS [TURNS [QUEUES]]] - what tasks cost on a cluster of two masters, beside one
server.

Queues that lie on both masters are filled and drained by `quern bench drain`, and the same queues
on the one server, all over TCP. Prints the CPU of all servers (for storing and draining a task),
how much of it was in the kernel, and that of the worker (for draining), measured in turns, and the
ratio; then the commands and the calls of scripts of a task, which do not depend on the machine.
QUERN names the program, which should be that of a release build."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "cluster")]

import lib_cluster  # noqa: E402

QUERN = os.environ["QUERN"]
TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 40000
TURNS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
QUEUES = sys.argv[3] if len(sys.argv) > 3 else "2"


def cpu_of(servers):
    """In all, and in the kernel; in s."""
    found = {"used_cpu_sys": 0.0, "used_cpu_user": 0.0}
    for server in servers:
        for line in server.do("INFO", "cpu").decode().splitlines():
            name, _, value = line.partition(":")
            if name in found:
                found[name] += float(value)
    return sum(found.values()), found["used_cpu_sys"]


def calls_of(servers):
    """All commands, those within scripts too; and the calls of scripts."""
    total = scripts = 0
    for server in servers:
        for line in server.do("INFO", "commandstats").decode().splitlines():
            name, _, values = line.partition(":calls=")
            if values:
                count = int(values.partition(",")[0])
                total += count
                scripts += count if name in ("cmdstat_eval", "cmdstat_evalsha") else 0
    return total, scripts


def drain(url, servers):
    """CPU of a task in us: of the servers, in all and in the kernel, and of the worker; then its
    commands, and its calls of scripts."""
    before, calls_before = cpu_of(servers), calls_of(servers)
    result = subprocess.run(
        [QUERN, "--json", "bench", "drain", "--tasks", str(TASKS), "--queues", QUEUES,
         "--broker", url], check=True, capture_output=True, text=True)
    row = json.loads(result.stdout)
    row = row[0] if isinstance(row, list) else row
    calls = [(now - then) / TASKS for now, then in zip(calls_of(servers), calls_before)]
    cpus = [(now - then) * 1e6 / TASKS for now, then in zip(cpu_of(servers), before)]
    return *cpus, row["worker_cpu_us"], *calls


def show(rows):
    for i, what in enumerate(("servers", "servers in the kernel", "worker")):
        costs = {name: statistics.median(row[i] for row in rows[name]) for name in rows}
        words = ", ".join(f"{name} {cost:.2f} us" for name, cost in costs.items())
        print(f"{what}: {words} a task; two masters to one server "
              f"{costs['two masters'] / costs['one server']:.3f}, to one master "
              f"{costs['two masters'] / costs['one master']:.3f}; one master to one server "
              f"{costs['one master'] / costs['one server']:.3f}")
    for i, what in ((3, "commands"), (4, "calls of scripts")):
        words = ", ".join(f"{name} {statistics.median(row[i] for row in rows[name]):.4f}"
                          for name in rows)
        print(f"{what} a task: {words}")


def main():
    """A server in cluster mode checks the slot of every key of a script: so the cost of that mode
    is shown by a cluster of one master. With one queue it has the very commands of one server."""
    single = lib_cluster.Cluster(masters=1, replicas=0)
    double = lib_cluster.Cluster(masters=2, replicas=0)
    folder = tempfile.mkdtemp(prefix="quern-alone-")
    server = lib_cluster.Alone(folder, ())
    kinds = (("one server", server.url(), [server]), ("one master", single.url(), single.nodes),
             ("two masters", double.url(), double.nodes))
    rows = {name: [] for name, _, _ in kinds}
    try:
        for _ in range(TURNS):
            for name, url, servers in kinds:
                rows[name].append(drain(url, servers))
        show(rows)
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
        single.stop()
        double.stop()


if __name__ == "__main__":
    main()
