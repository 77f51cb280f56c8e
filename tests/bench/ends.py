#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ends.py OTHER_BUILD [BUILD] - CPU per task beside another build, by how tasks end.

For each broker three loads, in alternating turns: tasks that are done at once, that are kept then,
that fail once. CPU is that of client and worker, on Redis and of the server's main thread. Prints
for each load the median of the ratios within a turn, the smallest and the largest, and both
medians. It shows the cost of what is written when a run ends; the drain of `against` ends all tasks
in the one way that writes nothing.

    tests/bench/ends.py /elsewhere/build/release build/release
    BENCH_TURNS=N    other than 15
    BENCH_TASKS=N    other than 20000
    BENCH_ONLY=REGEX only what matches, against "redis: fails" and the like
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, "..")]

import lib_redis  # pylint: disable=wrong-import-position

TURNS = int(os.environ.get("BENCH_TURNS", "15"))
TASKS = os.environ.get("BENCH_TASKS", "20000")
ONLY = re.compile(os.environ.get("BENCH_ONLY", ""))
LOADS = {"once": "done at once", "kept": "done at once, kept", "fails": "fails once"}


def built(build, folder):
    """The load as a program, by the interface of this build."""
    program = os.path.join(folder, "ends")
    subprocess.run(["cc", "-O2", "-std=gnu11", "-I", os.path.join(ROOT, "include"),
                    os.path.join(HERE, "ends.c"), "-o", program, "-L", build, "-lquern"],
                   check=True)
    return program


def server_us(redis):
    """CPU time of its main thread."""
    lines = redis.do("INFO", "cpu").decode().splitlines()
    numbers = dict(line.split(":") for line in lines if ":" in line)
    return 1e6 * sum(float(numbers[f"used_cpu_{kind}_main_thread"]) for kind in ("user", "sys"))


def cpu_us(program, build, load, redis):
    """Of one task."""
    with tempfile.TemporaryDirectory() as folder:
        url, before = os.path.join(folder, "q.db"), 0.0
        if redis:
            redis.do("FLUSHALL")
            url, before = redis.url(), server_us(redis)
        result = subprocess.run([program, url, load, TASKS], check=True, stdout=subprocess.PIPE,
                                env={**os.environ, "LD_LIBRARY_PATH": build}, timeout=300)
        after = server_us(redis) if redis else 0.0
    return float(result.stdout) + (after - before) / int(TASKS)


def compare(name, builds, program, load, redis):
    """Prints one line."""
    used = ([], [])
    for turn in range(TURNS + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            us = cpu_us(program, builds[which], load, redis)
            if turn > 0:  # the first one warms up
                used[which].append(us)
    ratios = [ours / other for other, ours in zip(*used)]
    other, ours = (statistics.median(each) for each in used)
    print(f"{name:30} {statistics.median(ratios):.3f} x (min {min(ratios):.3f}, "
          f"max {max(ratios):.3f})  this {ours:.2f}, other {other:.2f} us, {TURNS} turns",
          flush=True)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    builds = [os.path.abspath(path) for path in (sys.argv[1:] + ["build/release"])[:2]]
    with tempfile.TemporaryDirectory() as folder:
        program = built(builds[1], folder)
        for broker in ("sqlite", "redis"):
            redis = lib_redis.Redis("--appendonly", "yes") if broker == "redis" else None
            try:
                for load, words in LOADS.items():
                    if ONLY.search(f"{broker}: {load}"):
                        compare(f"{broker}: {words}", builds, program, load, redis)
            finally:
                if redis:
                    redis.stop()


if __name__ == "__main__":
    main()
