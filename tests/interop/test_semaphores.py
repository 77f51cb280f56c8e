#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Semaphores of asynq's x/rate, shared by handlers of Go, which take and return tokens themselves,
and by queues of quern, whose workers take one with each task."""

import lib_interop
from lib_interop import InteropTest

NAME = "smtp"
KEY = f"asynq:sema:{NAME}"
TOKENS = 3


class SemaphoreTest(InteropTest):
    def limit(self, queue, tokens=TOKENS):
        self.quern("limit", "set", queue, str(tokens), "--semaphore", NAME)

    def go_with_tokens(self, queue, tokens=TOKENS, **more):
        return self.go_server(name="go", queues={queue: 1}, concurrency=8,
                              semaphore={"name": NAME, "max": tokens}, **more)

    def held(self):
        return self.redis.do("ZCARD", KEY)

    def most_at_a_time(self):
        """How many handlers ran at a time, at most, and by which workers they were run."""
        moments = [(line["at_ns"], step, line["worker"])
                   for what, step in (("start", 1), ("end", -1))
                   for line in self.read_journal(what)]
        running = most = 0
        for _, step, _ in sorted(moments):
            running += step
            most = max(most, running)
        self.assertEqual(running, 0)
        return most, {worker for _, _, worker in moments}

    def test_go_and_quern_run_no_more_than_there_are_tokens(self):
        count = 60
        for queue in ("mail", "bulk"):
            self.limit(queue)
        processes = [self.go_with_tokens("go-mail"),
                     self.quern_worker("one", queues=("mail", "bulk")),
                     self.quern_worker("two", queues=("mail",))]
        for number in range(count):
            for queue in ("mail", "bulk", "go-mail"):
                self.go("enqueue", task={"id": f"{queue}{number}", "queue": queue,
                                         "type": "rest:20", "retry": 100000})

        def all_done():
            return len(self.read_journal("end")) == 3 * count
        self.until(all_done, "all tasks are done")
        most, workers = self.most_at_a_time()
        self.assertEqual(most, TOKENS)
        self.assertLessEqual({"go", "one"}, workers)
        self.until(lambda: self.held() == 0, "all tokens are returned")
        for process in processes:
            self.stop(process)
        self.assert_clean()

    def test_quern_waits_for_a_token_of_go_and_go_for_one_of_quern(self):
        self.limit("mail", 1)
        go = self.go_with_tokens("go-mail", tokens=1)
        self.go("enqueue", task={"id": "of-go", "queue": "go-mail", "type": "hold"})
        self.until_started("of-go")
        worker = self.quern_worker(queues=("mail",))
        self.go("enqueue", task={"id": "of-quern", "queue": "mail", "type": "hold"})
        self.assertEqual(self.redis.do("ZRANGE", KEY, 0, -1), [b"of-go"])
        self.assertEqual(self.quern("limit", "list", "mail")[0]["used"], 1)
        self.release("of-go")
        self.until_started("of-quern")
        self.assertEqual(self.redis.do("ZRANGE", KEY, 0, -1), [b"asynq:{mail}:t:of-quern"])
        self.go("enqueue", task={"id": "again", "queue": "go-mail", "type": "hold",
                                 "retry": 100000})
        self.until(lambda: self.state("again", "go-mail") == "retry", "Go gets no token")
        self.release("of-quern")
        self.until_started("again")
        self.release("again")
        self.until(lambda: self.held() == 0, "all tokens are returned")
        self.stop(go)
        self.stop(worker)

    def test_tokens_of_killed_processes_end(self):
        self.limit("mail", 2)
        go = self.go_with_tokens("go-mail", tokens=2)
        self.go("enqueue", task={"id": "of-go", "queue": "go-mail", "type": "hold",
                                 "timeout_ms": 2000})
        self.until_started("of-go")
        worker = self.quern_worker("killed", queues=("mail",))
        self.go("enqueue", task={"id": "first", "queue": "mail", "type": "hold"})
        self.until_started("first")
        for process in (go, worker):
            process.kill()
            process.wait()
        # The one of quern when its lease is recovered, the one of Go at the end of its timeout.
        self.go("enqueue", task={"id": "second", "queue": "mail", "type": "hold"})
        other = self.quern_worker("other", queues=("mail",))
        self.until_started("first", 2)
        self.until_started("second")
        self.release("first")
        self.release("second")
        self.until(lambda: self.state("first", "mail") == "gone", "it is done")
        self.until(lambda: self.state("second", "mail") == "gone", "it is done")
        self.until(lambda: self.redis.do("ZRANGE", KEY, 0, -1) in ([], [b"of-go"]), "none is held")
        self.stop(other)


if __name__ == "__main__":
    lib_interop.main()
