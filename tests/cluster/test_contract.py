#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""With QUERN_TEST_FULL: the parts of the contract suite that hold on a cluster and are not among
the tests contract.*_cluster.

Left out is what needs one server: run_change (a task that goes to another queue). Limits of several
queues skip their tests."""

import os
import subprocess
import unittest

PARTS = ("group", "group_set", "run_session", "random", "operate_act", "operate_edit",
         "operate_move", "operate_trash", "doctor", "inspect", "schedule_entry", "run_isolation",
         "run_solo", "upkeep_forward", "upkeep_prune", "limit_all_queues", "limit_all_tasks",
         "limit_fleet", "limit_queue", "limit_runs", "limit_sort", "limit_starts", "limit_turns")
PATIENCE_S = 100


@unittest.skipUnless(os.environ.get("QUERN_TEST_FULL"), "QUERN_TEST_FULL is not set")
class Contract(unittest.TestCase):
    def test_parts(self):
        for name in PARTS:
            with self.subTest(name):
                program = os.path.join(os.environ["QUERN_BUILD"], "tests", f"contract_{name}")
                result = subprocess.run(
                    [program], env={**os.environ, "QUERN_TEST_BROKER": "cluster"},
                    capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
