# SPDX-License-Identifier: MIT
"""Tests that run at the same time, as they wait most of theirs."""

import threading
import unittest


class AtOnce(unittest.TestSuite):
    """Each test, or suite of a class, in a thread of its own. They share nothing."""

    def run(self, result, debug=False):
        results = [unittest.TestResult() for _ in self]
        threads = [threading.Thread(target=test.run, args=(one,))
                   for test, one in zip(self, results)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in results:
            result.testsRun += one.testsRun
            result.failures += one.failures
            result.errors += one.errors
            result.skipped += one.skipped
        return result
