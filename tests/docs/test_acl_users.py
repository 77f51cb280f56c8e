#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Redis users of docs/protocol/redis.md are enough: a real server reads them from an ACL file
as the page prints them, and a client, a worker, an operator and a reader work as these users.

The server logs what an ACL refuses: only CONFIG GET may be there, which the page leaves out."""

import json
import pathlib
import re
import os

import lib_redis
from lib_quern import QuernTest, main

PAGE = pathlib.Path(os.environ["QUERN_SOURCE"], "docs/protocol/redis.md")


def users():
    """The page's blocks that define a user: name to its line of an ACL file."""
    blocks = re.findall(r"^```\n(user .*?)```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = [" ".join(block.split()) for block in blocks]
    return {line.split()[1]: line for line in lines}


class AclTest(QuernTest):
    def setUp(self):
        super().setUp()
        self.users = users()
        self.assertEqual(set(self.users), {"worker", "reader"}, "users of the page")
        acl = self.write("users.acl", "\n".join(
            ["user default on nopass ~* &* +@all", *self.users.values()]) + "\n")
        self.redis = lib_redis.Redis("--appendonly", "yes", "--aclfile", acl)
        self.addCleanup(self.redis.stop)

    def act(self, user, *words, code=0, **options):
        """Runs quern as that user; gives what it prints."""
        url = self.redis.url(user, "secret")
        result = self.run_quern("--broker", url, *words, encoding="utf-8", **options)
        self.assertEqual(result.returncode, code, f"{words}: {result.stdout}{result.stderr}")
        self.assertNotIn("NOPERM", result.stderr)
        return result.stdout.strip()

    def refused(self):
        entries = [dict(zip(entry[::2], entry[1::2])) for entry in self.redis.do("ACL", "LOG")]
        return [entry for entry in entries
                if entry[b"object"] != b"config|get" and entry[b"username"] == b"worker"]

    def check_what_more_rights_show(self):
        """What the page says of +config|get for workers and of +info +eval +evalsha for readers."""
        def inspect(user):
            stats = self.act(user, "stats", "-v")
            running = json.loads(self.act(user, "--json", "worker", "list"))[0]["runs"]
            return stats, [run["id"] for run in running]

        self.assertNotIn("appendfsync everysec", inspect("worker")[0])
        self.redis.do("ACL", "SETUSER", "worker", "+config|get")
        self.assertNotIn("may not read", inspect("worker")[0])
        self.assertEqual(inspect("reader")[1], [])
        self.assertNotIn("memory", inspect("reader")[0])
        self.redis.do("ACL", "SETUSER", "reader", "+time", "+info", "+eval", "+evalsha")
        self.assertEqual(inspect("reader")[1], ["slow"])
        self.assertIn("memory", inspect("reader")[0])
        self.redis.do("ACL", "SETUSER", "worker", "-config|get")

    def test_the_user_of_a_worker_is_enough_for_client_worker_and_operator(self):
        def worker(*words, **options):
            return self.act("worker", *words, **options)

        # A client: one task, a batch, a task that is unique, one that waits, a group.
        worker("enqueue", "mail", "ann", "--id", "kept", "--retention", "1h")
        worker("enqueue", "--from", "-", input='{"type":"mail"}\n' * 300)
        worker("enqueue", "mail", "--unique", "1h", "--in", "1s")
        worker("enqueue", "mail", "--unique", "1h", "--in", "1s", code=1)
        worker("enqueue", "mail", "--group", "g", "--id", "grouped")
        worker("enqueue", "slow", "--id", "slow", "--queue", "other")
        worker("enqueue", "bad", "--id", "bad", "--retry", "never")
        # A worker that runs them, and one whose run is cancelled.
        worker("work", "--exec", "mail=cat", "--exec", "bad=exit 1", "--drain", code=3)
        self.assertEqual(worker("task", "inspect", "kept", "--result"), "ann")
        self.spawn(self.program, "--broker", self.redis.url("worker", "secret"), "work",
                   "--queue", "other", "--exec", "slow=sleep 600", "--quiet")

        def state():
            return json.loads(worker("--json", "task", "inspect", "slow"))["state"]

        self.until(lambda: state() == "active", "the run starts")
        self.check_what_more_rights_show()
        worker("task", "cancel", "slow", "--then", "archive")
        self.until(lambda: state() == "archived", "the run is cancelled")
        # An operator.
        for words in (["task", "list"], ["task", "run", "slow"], ["task", "archive", "grouped"],
                      ["task", "delete", "bad"], ["queue", "pause", "other"],
                      ["queue", "resume", "other"], ["queue", "history", "other"],
                      ["queue", "inspect", "other"], ["queue", "list"], ["stats"], ["db", "info"],
                      ["doctor", "--repair"],
                      ["task", "delete", "--all", "--state", "archived", "--yes"],
                      ["queue", "remove", "default", "--force", "--yes"]):
            worker(*words)
        self.assertEqual(self.refused(), [])

    def test_the_user_of_a_reader_is_enough_to_inspect(self):
        self.act("worker", "enqueue", "mail", "ann", "--id", "one")
        for words in (["stats"], ["queue", "list"], ["queue", "inspect", "default"],
                      ["queue", "history", "default"], ["task", "list"], ["task", "inspect", "one"],
                      ["worker", "list"]):
            self.act("reader", *words)
        result = self.run_quern("--broker", self.redis.url("reader", "secret"), "task", "delete",
                                "one", encoding="utf-8")
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertIn("NOPERM", result.stderr)


if __name__ == "__main__":
    main()
