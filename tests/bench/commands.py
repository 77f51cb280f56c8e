#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""commands.py PROGRAM... - what a run of `--exec 't=/bin/true'` costs: SQLite, programs in turns.

For each program (a build/release/quern) and each concurrency: the median over TURNS of commands per
second, of the CPU of all processes per command, and the largest resident memory of the worker."""

import os
import pathlib
import resource
import select
import statistics
import subprocess
import sys
import tempfile
import time

TASKS = int(os.environ.get("TASKS", "1000"))
TURNS = int(os.environ.get("TURNS", "5"))
LOOK_S = 0.05  # between two looks at the memory


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_kib(pid, before):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        return int(text.split("VmHWM:")[1].split()[0])
    except (FileNotFoundError, IndexError, ProcessLookupError):
        return before


def measure(program, concurrency):
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "QUERN_BROKER": f"sqlite://{folder}/q.db"}
        subprocess.run([program, "enqueue", "--from", "-"], input='{"type":"t"}\n' * TASKS,
                       text=True, env=env, capture_output=True, check=True)
        memory, used, began = 0, cpu_s(), time.monotonic()
        worker = subprocess.Popen([program, "work", "--drain", "--quiet", "--exec", "t=/bin/true",
                                   "--concurrency", str(concurrency)], env=env)
        end = os.pidfd_open(worker.pid)
        while not select.select([end], [], [], LOOK_S)[0]:
            memory = peak_kib(worker.pid, memory)
        took_s = time.monotonic() - began
        os.close(end)
        if worker.wait() != 0:
            sys.exit(f"{program} ended with {worker.returncode}")
        return TASKS / took_s, 1000 * (cpu_s() - used) / TASKS, memory


def main():
    figures = {}
    for _ in range(TURNS):
        for concurrency in (2, 8):
            for program in sys.argv[1:]:
                key = (concurrency, program)
                figures.setdefault(key, []).append(measure(program, concurrency))
    for (concurrency, program), turns in figures.items():
        rate, cpu, memory = (statistics.median(column) for column in zip(*turns))
        print(f"{program}, concurrency {concurrency}: {rate:.0f} commands/s, {cpu:.2f} ms CPU each,"
              f" worker {memory:.0f} KiB")


if __name__ == "__main__":
    main()
