#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Redis users of docs/protocol/redis.md are enough: a real server reads them from an ACL file
as the page prints them, and a client, a worker, an operator and a reader work as these users: on a
socket, by TLS, and on a cluster with what the page adds for one.

The server logs what an ACL refuses: only CONFIG GET may be there, which the page leaves out."""

import json
import os
import pathlib
import re
import subprocess

import lib_cluster
import lib_redis
from lib_quern import QuernTest, main
from lib_tls import TlsRedis

PAGE = pathlib.Path(os.environ["QUERN_SOURCE"], "docs/protocol/redis.md")


def users():
    """The page's blocks that define a user: name to its line of an ACL file."""
    blocks = re.findall(r"^```\n(user .*?)```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = [" ".join(block.split()) for block in blocks]
    return {line.split()[1]: line for line in lines}


class AclTest(QuernTest):
    more_rights = ""  # what the page adds for a server of this kind
    limits_of_one_server = (["limit", "set", "other", "3", "--semaphore", "some"],
                            ["limit", "set", "--all-queues", "5", "--type", "report"])
    moves_of_one_server = (["task", "move", "a", "--to", "another"],
                           ["task", "move", "a", "--to", "other"])

    def setUp(self):
        super().setUp()
        self.users = users()
        self.assertEqual(set(self.users), {"worker", "client", "inspector", "reader"},
                         "users of the page")
        lines = [self.for_this_server(line) + self.more_rights for line in self.users.values()]
        acl = self.write("users.acl", "\n".join(
            ["user default on nopass ~* &* +@all", *lines]) + "\n")
        self.redis = self.start_redis("--appendonly", "yes", "--aclfile", acl)
        self.addCleanup(self.redis.stop)

    def start_redis(self, *options):
        return lib_redis.Redis(*options)

    def url(self, user):
        return self.redis.url(user, "secret")

    def nodes(self):
        return [self.redis]

    def do(self, *words):
        """At the server of the default queue."""
        return self.redis.do(*words)

    def change_user(self, *words):
        for node in self.nodes():
            node.do("ACL", "SETUSER", *words)

    def for_this_server(self, line):
        """6.2 knows no keys that may only be read."""
        version = subprocess.run(["redis-server", "--version"], capture_output=True, check=True,
                                 encoding="ascii").stdout
        if re.search(r"v=6\.", version) and "%R~" in line:
            line = "~asynq:* ".join(re.split(r"%R~.*(?=\+eval )", line))
        return line

    def act(self, user, *words, code=0, **options):
        """Runs quern as that user; gives what it prints."""
        result = self.run_quern("--broker", self.url(user), *words, encoding="utf-8", **options)
        self.assertEqual(result.returncode, code, f"{words}: {result.stdout}{result.stderr}")
        self.assertNotIn("NOPERM", result.stderr)
        return result.stdout.strip()

    def refused(self, user="worker"):
        entries = [dict(zip(entry[::2], entry[1::2]))
                   for node in self.nodes() for entry in node.do("ACL", "LOG")]
        return [entry for entry in entries
                if entry[b"object"] != b"config|get" and entry[b"username"] == user.encode()]

    def check_what_more_rights_show(self):
        """What the page says of +config|get for workers and of +info +eval +evalsha for readers."""
        def inspect(user):
            stats = self.act(user, "stats", "-v")
            running = json.loads(self.act(user, "--json", "worker", "list"))[0]["runs"]
            return stats, [run["id"] for run in running]

        self.assertNotIn("appendfsync everysec", inspect("worker")[0])
        self.change_user("worker", "+config|get")
        self.assertNotIn("may not read", inspect("worker")[0])
        self.assertEqual(inspect("reader")[1], [])
        self.assertNotIn("memory", inspect("reader")[0])
        self.change_user("reader", "+time", "+info", "+eval", "+evalsha")
        self.assertEqual(inspect("reader")[1], ["slow"])
        self.assertIn("memory", inspect("reader")[0])
        self.change_user("worker", "-config|get")

    def test_the_user_of_a_worker_is_enough_for_client_worker_and_operator(self):
        def worker(*words, **options):
            return self.act("worker", *words, **options)

        # A client: one task, a batch, a task that is unique, one that waits, a group.
        worker("enqueue", "mail", "ann", "--id", "kept", "--retention", "1h")
        worker("enqueue", "--from", "-", input='{"type":"mail"}\n' * 20)
        worker("enqueue", "--from", "-", "--queue", "bulk", input='{"type":"mail"}\n' * 300)
        worker("enqueue", "mail", "--unique", "1h", "--in", "1s")
        worker("enqueue", "mail", "--unique", "1h", "--in", "1s", code=1)
        worker("enqueue", "mail", "--group", "g", "--id", "grouped")
        worker("enqueue", "slow", "--id", "slow", "--queue", "other")
        worker("enqueue", "bad", "--id", "bad", "--retry", "never")
        # A worker that runs them, and one whose run is cancelled.
        worker("work", "--exec", "mail=cat", "--exec", "bad=exit 1", "--drain", code=3)
        self.assertEqual(worker("task", "wait", "kept"), "ann")
        self.spawn(self.program, "--broker", self.url("worker"), "work",
                   "--queue", "other", "--exec", "slow=sleep 600", "--quiet")

        def state():
            return json.loads(worker("--json", "task", "inspect", "slow"))["state"]

        self.until(lambda: state() == "active", "the run starts")
        self.check_what_more_rights_show()
        worker("worker", "quiet", "--all")
        worker("task", "cancel", "slow", "--then", "archive")
        self.until(lambda: state() == "archived", "the run is cancelled")
        # An operator.
        for words in (["task", "list"], ["task", "run", "slow"], ["task", "archive", "grouped"],
                      ["task", "delete", "bad"], ["queue", "pause", "other"],
                      ["queue", "resume", "other"], ["queue", "history", "other"],
                      ["queue", "inspect", "other"], ["queue", "list"], ["stats"], ["db", "info"],
                      ["doctor", "--repair"],
                      ["task", "delete", "--all", "--state", "archived", "--yes"],
                      ["queue", "remove", "bulk", "--force", "--yes"],
                      ["queue", "remove", "default", "--force", "--yes"]):
            worker(*words)
        self.assertEqual(self.refused(), [])

    def test_the_user_of_a_reader_is_enough_to_inspect(self):
        self.act("worker", "enqueue", "mail", "ann", "--id", "one")
        for words in (["stats"], ["queue", "list"], ["queue", "inspect", "default"],
                      ["queue", "history", "default"], ["task", "list"], ["task", "inspect", "one"],
                      ["error", "list"],
                      ["worker", "list"], ["metrics"]):
            self.act("reader", *words)
        result = self.run_quern("--broker", self.url("reader"), "task", "delete",
                                "one", encoding="utf-8")
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertIn("NOPERM", result.stderr)


    def test_the_user_of_a_client_is_enough_to_enqueue_and_no_more(self):
        for words in (["mail", "ann", "--id", "a"], ["mail", "--unique", "1h", "--in", "1h"],
                      ["mail", "--group", "g"], ["mail", "--limit-key", "k"]):
            self.act("client", "enqueue", *words)
        self.act("client", "enqueue", "--from", "-", input='{"type":"mail"}\n' * 300)
        self.act("client", "enqueue", "mail", "--wait", "--wait-timeout", "200ms", code=75)
        self.assertEqual(self.refused("client"), [])
        for words in (["work", "--exec", "mail=true", "--drain", "--no-retry"],
                      ["task", "delete", "a"], ["task", "archive", "a"],
                      ["queue", "pause", "default"],
                      ["queue", "remove", "default", "--force", "--yes"]):
            result = self.run_quern("--broker", self.url("client"), *words,
                                    encoding="utf-8")
            self.assertNotEqual(result.returncode, 0, words)
            self.assertIn("NOPERM", result.stderr, words)
        self.assertEqual(json.loads(self.act("worker", "--json", "task", "inspect", "a"))["state"],
                         "pending")
        self.assertEqual(self.do("LLEN", "asynq:{default}:active"), 0)

    def test_the_user_of_an_inspector_is_enough_to_act(self):
        def act(*words):
            return self.act("inspector", *words)

        for task in ("a", "b", "c"):
            self.act("client", "enqueue", "slow", "--id", task, "--queue", "other")
        self.act("client", "enqueue", "mail", "--group", "g", "--id", "grouped")
        self.spawn(self.program, "--broker", self.url("worker"), "work",
                   "--queue", "other", "--exec", "slow=sleep 600", "--quiet", "--concurrency", "1")

        def state():
            return json.loads(act("--json", "task", "inspect", "a"))["state"]

        self.until(lambda: state() == "active", "the run starts")
        act("worker", "resize", "--all", "--concurrency", "1")
        act("task", "cancel", "a", "--then", "archive")
        self.until(lambda: state() == "archived", "the run is cancelled")
        for words in (["stats", "-v"], ["queue", "list"], ["queue", "history", "other"],
                      ["task", "list"], ["worker", "list"], ["error", "list"], ["db", "info"],
                      ["task", "edit", "a", "--retry-max", "3"], *self.moves_of_one_server,
                      ["task", "run", "a"], ["task", "archive", "c"], ["task", "delete", "c"],
                      ["task", "archive", "grouped"], ["task", "run", "grouped"],
                      ["queue", "pause", "other"], ["queue", "resume", "other"],
                      ["queue", "set", "other", "--max-pending", "10"],
                      ["limit", "set", "other", "10"],
                      ["limit", "set", "other", "100/1m", "--key", "acme"],
                      *self.limits_of_one_server, ["limit", "list"], ["limit", "remove", "other"],
                      ["schedule", "add", "nightly", "--cron", "0 3 * * *", "--type", "mail"],
                      ["schedule", "list"], ["schedule", "pause", "nightly"],
                      ["schedule", "resume", "nightly"], ["schedule", "trigger", "nightly"],
                      ["schedule", "history", "nightly"], ["schedule", "remove", "nightly"],
                      ["doctor", "--repair"],
                      ["task", "delete", "--all", "--state", "pending", "--yes"],
                      ["queue", "remove", "default", "--force", "--yes"]):
            act(*words)
        self.assertEqual(self.refused("inspector"), [])
        result = self.run_quern("--broker", self.url("inspector"), "work",
                                "--exec", "mail=true", "--drain", "--no-retry", encoding="utf-8")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("NOPERM", result.stderr)

    def test_an_inspector_may_write_what_its_scripts_write(self):
        """No command more, and none less."""
        source = PAGE.parents[2] / "src/broker/redis"
        scripts = [*source.glob("inspect/*.lua"), *source.glob("operate/*.lua"),
                   *source.glob("doctor/*.lua")]
        scripts += [source / f"schedule/{name}.lua"
                    for name in ("put", "change", "changed", "trigger", "load")]
        texts = {script: script.read_text(encoding="utf-8") for script in scripts}
        while scripts:
            for name in re.findall(r"^-- include: (\S+)", texts[scripts.pop()], re.M):
                library = source / "lua" / name
                if library not in texts:
                    texts[library] = library.read_text(encoding="utf-8")
                    scripts.append(library)
        used = {word.lower() for text in texts.values()
                for word in re.findall(r"call\('([A-Z]+)'", text)}
        writes = {word.decode() for word in self.nodes()[0].do("ACL", "CAT", "write")}
        granted = set(re.findall(r"\+([a-z]+)(?= |$)", self.users["inspector"]))
        self.assertEqual(used & writes, granted & writes)


class AclOverTlsTest(AclTest):
    test_an_inspector_may_write_what_its_scripts_write = None  # of the scripts alone

    def start_redis(self, *options):
        return TlsRedis(*options)


class AclOnClusterTest(AclTest):
    """With the queues "default" and "other" at two nodes."""
    more_rights = " +cluster|slots"
    limits_of_one_server = moves_of_one_server = ()
    test_an_inspector_may_write_what_its_scripts_write = None

    def start_redis(self, *options):
        redis = lib_cluster.Cluster(masters=3, replicas=0, options=options)
        self.assertIsNot(*(redis.owner_of(lib_cluster.slot_of(queue))
                           for queue in ("default", "other")))
        return redis

    def url(self, user):
        return self.redis.url().replace("://", f"://{user}:secret@")

    def nodes(self):
        return self.redis.nodes

    def do(self, *words):
        return self.redis.do("default", *words)


if __name__ == "__main__":
    main()
