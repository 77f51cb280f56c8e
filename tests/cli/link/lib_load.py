# SPDX-License-Identifier: MIT
"""Load for tests of brokers that fail: a client stores batches all the time, a worker runs them and
notes each run. A batch counts as stored when the program said so."""

import json
import threading
import time

from lib_cli import EXIT_TEMPORARY, CliTest
from lib_sentinel import until

BATCH = 20

LOOP = """
import json, sys, time
print(json.dumps({"ready": True}), flush=True)
with open("runs", "a", buffering=1) as runs:
    for text in sys.stdin:
        task = json.loads(text)
        runs.write(f"{task['id']} {time.monotonic()}\\n")
        print(json.dumps({"id": task["id"], "outcome": "done"}), flush=True)
"""


class LoadTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("loop.py", LOOP)
        self.write("runs", "")
        self.feeding = threading.Event()
        self.stored = {}  # id to the moment before its batch was sent
        self.answered = {}  # id to the moment after it was stored
        self.refused = []  # what the program said of the other batches
        self.feeder = None

    def tearDown(self):
        self.feeding.clear()
        if self.feeder:
            self.feeder.join()
        super().tearDown()

    def work(self, url, *options):
        return self.start("work", "--broker", url, "--exec-loop", "t=exec python3 loop.py",
                          "--concurrency", "2", "--lease", "3s", *options)

    def feed(self, url):
        """Stores batches until `feeding` is cleared."""
        def run():
            number = 0
            while self.feeding.is_set():
                number += 1
                ids = [f"{number}-{index}" for index in range(BATCH)]
                lines = "".join(json.dumps({"type": "t", "id": name}) + "\n" for name in ids)
                begun = time.monotonic()
                result = self.quern("enqueue", "--from", "-", "--wait-broker", "20s",
                                    "--broker", url, stdin=lines)
                if result.returncode == 0:
                    self.stored.update({name: begun for name in ids})
                    self.answered.update({name: time.monotonic() for name in ids})
                else:
                    self.refused.append(result.stderr)
        self.feeding.set()
        self.feeder = threading.Thread(target=run)
        self.feeder.start()

    def stop_feeding(self):
        self.feeding.clear()
        self.feeder.join()
        self.feeder = None

    def wait_batch(self):
        """Until another batch was stored, or refused."""
        before = len(self.stored), len(self.refused)
        until(lambda: (len(self.stored), len(self.refused)) != before, "a batch is answered")

    def runs(self):
        """Pairs of an id and a moment."""
        pairs = [line.split() for line in self.read("runs").splitlines()]
        return [(pair[0], float(pair[1])) for pair in pairs if len(pair) == 2]

    def wait_run_after(self, moment, what):
        return until(lambda: [at for _, at in self.runs() if at > moment][:1], what)[0]

    def lost(self, url):
        """Stored tasks that never ran, after the queue has become empty."""
        def empty():
            counts = {}
            result = self.quern("--json", "queue", "list", "--broker", url)
            if result.returncode == EXIT_TEMPORARY:  # the sentinels replace the master once more
                return False
            self.assertEqual(result.returncode, 0, result.stderr)
            for info in json.loads(result.stdout):
                counts = info["counts"]
            return not any(counts.get(state) for state in ("pending", "active", "retry",
                                                           "scheduled"))
        until(empty, "the queue is empty")
        ran = {name for name, _ in self.runs()}
        return sorted(name for name in self.stored if name not in ran)

    def duplicates(self):
        names = [name for name, _ in self.runs()]
        return sorted({name for name in names if names.count(name) > 1})
