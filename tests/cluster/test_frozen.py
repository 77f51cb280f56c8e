#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One of two masters freezes, and no replica takes its place: the queues of the other go on."""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_cluster  # noqa: E402
from lib_quern import main  # noqa: E402
from lib_load import PATIENCE_S, ClusterTest, Feed, queues_on_all  # noqa: E402

LEASE_S = 2
FROZEN_S = 7  # three leases
GAP_S = 1     # without a run, where the other master is healthy


class Frozen(ClusterTest):
    # The nodes do not notice it: nothing but the silence shows it.
    shape = {"masters": 2, "replicas": 0, "options": ("--cluster-node-timeout", "60000")}

    def test_queues_of_the_other_master_go_on(self):
        queues = queues_on_all(self.cluster, 2)
        # What all queues share is at the healthy one, as the clients need it.
        sick = next(node for node in self.cluster.masters()
                    if node is not self.cluster.owner_of(lib_cluster.slot_of("asynq:queues")))
        mine = [queue for queue in queues
                if self.cluster.owner_of(lib_cluster.slot_of(queue)) is sick]
        others = [queue for queue in queues if queue not in mine]
        healthy = next(node for node in self.cluster.masters() if node is not sick)
        runs = os.path.join(self.cluster.folder, "runs")
        open(runs, "w", encoding="utf-8").close()
        worker = self.worker(
            queues, "--lease", f"{LEASE_S}s", "--log-format", "logfmt",
            "--exec", f"long=printf '%s %s\\n' $(cat) $(date +%s.%N) >> {runs}; sleep {FROZEN_S}",
            concurrency=6)
        for queue in (mine[0], others[0]):
            self.quern("enqueue", "long", f"long-{queue}", "--queue", queue)
        url = f"redis-cluster://127.0.0.1:{healthy.port}"
        feeds = [Feed(url, others, "other", 0.2), Feed(self.url, mine, "mine", 0.5)]
        for feed in feeds:
            self.addCleanup(feed.halt.set)
            feed.start()
        lib_cluster.wait_until(
            lambda: {"mine", "other"} <= {row[0].split("-")[0] for row in self.runs()}
            and len([row for row in self.runs() if row[0].startswith("long")]) == 2,
            "all run")
        frozen_at = time.time()
        sick.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(FROZEN_S)
        finally:
            sick.process.send_signal(signal.SIGCONT)
            back_at = time.time()
        lib_cluster.wait_until(lambda: any(row[0].startswith("mine") and row[1] > back_at
                                           for row in self.runs()), "the others are back")
        for feed in feeds:
            feed.stop()
        self.waits_for_empty(queues)
        worker.terminate()
        self.assertEqual(worker.wait(PATIENCE_S), 0, self.worker_log())
        rows = self.runs()
        times = [frozen_at] + [when for payload, when in rows if payload.startswith("other")
                               and frozen_at < when < back_at] + [back_at]
        gap = max(after - before for before, after in zip(times, times[1:]))
        back = min(when for payload, when in rows if payload.startswith("mine")
                   and when > back_at) - back_at
        print(f"other queues: {len(times) - 2} runs in {FROZEN_S} s, at most {gap:.2f} s apart; "
              f"the frozen master's: again after {back:.2f} s")
        self.assertLess(gap, 3 * GAP_S, self.worker_log())
        self.assertLess(back, 6)
        # No task ran twice, also none at the frozen one, whose leases ended as its clock went on.
        self.assertEqual(sorted(row[0] for row in rows),
                         sorted([f"long-{mine[0]}", f"long-{others[0]}"]
                                + feeds[0].stored + feeds[1].stored), self.worker_log())
        for line in self.worker_log().splitlines():
            if not any(queue in line for queue in mine):
                self.assertNotRegex(line, "lease|recovered")


if __name__ == "__main__":
    main()
