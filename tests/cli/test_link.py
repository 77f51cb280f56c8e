#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program behind a proxy that cuts links and replaces replies (tests/lib_proxy.py)."""

import lib_cli
import lib_redis
from lib_cli import CliTest, EXIT_TEMPORARY
from lib_proxy import Proxy


class LinkTest(CliTest):
    def setUp(self):
        super().setUp()
        self.redis = lib_redis.Redis()
        self.addCleanup(self.redis.stop)
        self.proxy = Proxy(self.redis.path)
        self.addCleanup(self.proxy.close)
        self.env["QUERN_BROKER"] = f"redis://{self.proxy.address}"

    def pending(self):
        return self.redis.do("LLEN", "asynq:{default}:pending")

    def test_lost_reply_to_an_enqueue_stores_one_task(self):
        self.proxy.order("rule cut-after to=EVALSHA count=2")
        self.ok("enqueue", "t")
        self.assertEqual(self.pending(), 1)
        self.assertEqual(self.proxy.order("count cut-after"), 2)
        self.assertIn("cut-after", self.proxy.log[0])

    def test_error_that_passes_costs_a_moment(self):
        self.proxy.order("rule error to=EVALSHA error=BUSY count=3")
        self.ok("enqueue", "t")
        self.assertEqual(self.pending(), 1)

    def test_memory_of_the_server_is_full(self):
        self.proxy.order("rule error to=EVALSHA error=OOM")
        self.assertIn("OOM", self.fails(EXIT_TEMPORARY, "enqueue", "t"))
        self.assertEqual(self.pending(), 0)

    def test_link_that_is_dead_without_a_word_is_replaced(self):
        self.proxy.order("rule half-open-after to=EVALSHA count=1")
        self.ok("enqueue", "t")
        self.assertEqual(self.pending(), 1)


if __name__ == "__main__":
    lib_cli.main()
