#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern held against traffic that real asynq has left in a Redis server (golden/, record.go).

Needs no Go. What quern adds is taken away before comparing: hash fields that begin with quern_, and
keys asynq:{queue}:quern:*. Where quern deliberately writes something else than asynq, this file
says so at the place."""

import json
import os
import pathlib
import subprocess
import time

import lib_interop
from lib_interop import InteropTest, import_line, unb64

GOLDEN = pathlib.Path(__file__).parent / "golden"
SECOND_NS = 1000000000


def unspell(text):
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def recordings(name):
    with open(GOLDEN / f"{name}.json", encoding="utf-8") as file:
        return json.load(file)["scenarios"]


def keys_of(scenario):
    """As Redis.dump gives them."""
    found = {}
    for name, kept in scenario["keys"].items():
        if kept["type"] == "string":
            value = unspell(kept["text"])
        elif kept["type"] == "hash":
            value = {unspell(field): unspell(text) for field, text in kept["fields"].items()}
        elif kept["type"] == "list":
            value = [unspell(item) for item in kept["items"]]
        elif kept["type"] == "set":
            value = {unspell(item) for item in kept["items"]}
        else:
            value = {unspell(item): score.encode() for item, score in kept["scores"].items()}
        found[unspell(name)] = (kept["type"], kept.get("ttl_ms", 0), value)
    return found


def messages_of(scenario):
    """Every protobuf message in it: (kind for interop_codec, bytes)."""
    for key, (kind, _, value) in keys_of(scenario).items():
        if kind == "hash" and b"msg" in value:
            yield "task", value[b"msg"]
        elif key.startswith(b"asynq:servers:"):
            yield "server", value
        elif key.startswith(b"asynq:workers:"):
            yield from (("run", message) for message in value.values())
        elif key.startswith(b"asynq:schedulers:"):
            yield from (("schedule", message) for message in value)
        elif key.startswith(b"asynq:scheduler_history:"):
            yield from (("event", message) for message in value)


def codec(lines):
    """What interop_codec answers: (bytes, {field: [text, ...]}) for each line."""
    result = subprocess.run([os.environ["INTEROP_CODEC"]], input="".join(
        f"{kind} {message.hex()}\n" for kind, message in lines), capture_output=True, text=True,
        check=True)
    answers = []
    for line in result.stdout.splitlines():
        words = line.split(" ")
        if words[0] != "ok":
            raise AssertionError(line)
        fields = {}
        for word in words[2:]:
            name, _, value = word.partition("=")
            fields.setdefault(name, []).append(bytes.fromhex(value))
        answers.append((bytes.fromhex(words[1]), fields))
    return answers


def restore(redis, keys):
    for key, (kind, ttl_ms, value) in keys.items():
        if kind == "string":
            redis.do("SET", key, value)
        elif kind == "hash":
            redis.do("HSET", key, *(word for pair in value.items() for word in pair))
        elif kind == "list":
            redis.do("RPUSH", key, *value)
        elif kind == "set":
            redis.do("SADD", key, *value)
        else:
            redis.do("ZADD", key, *(word for member, score in value.items()
                                    for word in (score, member)))
        if ttl_ms:
            redis.do("PEXPIRE", key, ttl_ms)


def without_ours(keys):
    found = {}
    for key, (kind, ttl_ms, value) in keys.items():
        if b":quern:" in key:
            continue
        if kind == "hash":
            value = {field: text for field, text in value.items()
                     if not field.startswith(b"quern_")}
        found[key] = (kind, ttl_ms, value)
    return found


class CodecTest(InteropTest):
    needs_go = False

    def test_every_recorded_message_is_read_and_written_again_byte_for_byte(self):
        lines = [line for name in ("enqueue", "server", "scheduler", "inspector")
                 for scenario in recordings(name) for line in messages_of(scenario)]
        kinds = [kind for kind, _ in lines]
        self.assertGreater(kinds.count("task"), 40)
        for kind in ("server", "run", "schedule", "event"):
            self.assertIn(kind, kinds)
        for (kind, message), (again, _) in zip(lines, codec(lines), strict=True):
            self.assertEqual(again.hex(), message.hex(), kind)

    def test_the_fields_are_as_recorded_from_go(self):
        looked = 0
        for scenario in recordings("enqueue"):
            infos = {reply["ok"]["id"]: reply["ok"] for reply in scenario["replies"]
                    if "error" not in reply}
            for _, fields in codec([line for line in messages_of(scenario)]):
                info = infos[fields["id"][0].decode()]
                one = {name: values[0].decode(errors="surrogateescape")
                       for name, values in fields.items()}
                self.assertEqual(fields["payload"][0], unb64(info["payload"]))
                for name in ("type", "queue", "group", "last_err"):
                    self.assertEqual(one[name], info[name], scenario["name"])
                for name in ("max_retry", "retried", "timeout_ms", "retention_ms"):
                    self.assertEqual(int(one[name]), info[name], scenario["name"])
                self.assertEqual(int(one["deadline_ms"]) * 1000000, info["deadline_ns"])
                headers = dict(zip(fields.get("header_name", []), fields.get("header_value", [])))
                self.assertEqual({name.decode(): value.decode()
                                  for name, value in headers.items()}, info["headers"] or {})
                looked += 1
        self.assertGreater(looked, 25)


class EnqueueTest(InteropTest):
    """quern's enqueue beside asynq's, with the same options."""

    needs_go = False

    # quern's clients cannot express these: they are tested with a Go client.
    #   payload_nil: the program and its lines of JSON give an empty payload, never none at all
    #   timeout_none: asynq cannot express it: Timeout(0) is its default of 30 minutes
    #   timeout_short: asynq cuts it off to none, we round it up to a second
    UNSAID = {"payload_nil", "timeout_none", "timeout_short"}

    def enqueue_like(self, scenario):
        tasks = [{**task, "payload": unb64(task["payload"])} for task in scenario["tasks"]]
        lines = "".join(json.dumps(import_line(task)) + "\n" for task in tasks)
        return self.quern_result("enqueue", "--from", "-", stdin=lines.encode())

    def compare(self, scenario, theirs, ours, shift_ns):
        """Equal, but for the moments of the two enqueues, which are shift_ns apart."""
        name = scenario["name"]
        self.assertEqual(sorted(ours), sorted(theirs), name)
        for key, (kind, ttl_ms, value) in theirs.items():
            our_kind, our_ttl_ms, our_value = ours[key]
            self.assertEqual(our_kind, kind, (name, key))
            if ttl_ms > 10**11:  # until a moment that is given, not for so long
                ttl_ms -= shift_ns // 1000000
            self.assertAlmostEqual(our_ttl_ms, ttl_ms, delta=3000, msg=(name, key))
            if kind == "zset":
                self.assertEqual(sorted(our_value), sorted(value), (name, key))
                for member, score in value.items():
                    moved = 0 if int(score) > 4000000000 else shift_ns / SECOND_NS
                    self.assertAlmostEqual(int(our_value[member]), int(score) + moved, delta=3)
            elif kind == "hash":
                self.compare_task(name, dict(value), dict(our_value), shift_ns)
            else:
                self.assertEqual(our_value, value, (name, key))

    def compare_task(self, name, theirs, ours, shift_ns):
        if b"pending_since" in theirs:
            since = [int(fields.pop(b"pending_since")) for fields in (ours, theirs)]
            self.assertAlmostEqual(since[0], since[1] + shift_ns, delta=3 * SECOND_NS)
        if len(self.headers_of(theirs[b"msg"])) > 1:
            # A map has no order: Go shuffles it at each encoding.
            read = [codec([("task", fields.pop(b"msg"))])[0][1] for fields in (ours, theirs)]
            for fields in read:
                fields["header"] = sorted(zip(fields.pop("header_name"),
                                              fields.pop("header_value")))
            self.assertEqual(*read)
        self.assertEqual(ours, theirs, name)

    def headers_of(self, message):
        return codec([("task", message)])[0][1].get("header_name", [])

    def test_quern_writes_the_keys_fields_and_bytes_that_asynq_writes(self):
        for scenario in recordings("enqueue"):
            if scenario["name"] in self.UNSAID:
                continue
            with self.subTest(scenario["name"]):
                self.empty()
                began_ns = time.time_ns()
                result = self.enqueue_like(scenario)
                refused = any("error" in reply for reply in scenario["replies"])
                self.assertEqual(result.returncode, 1 if refused else 0, result.stderr.decode())
                theirs = keys_of(scenario)
                if scenario["name"] == "group_unique":
                    # Theirs forgets it, so that the lock outlives a deleted task; ours does not.
                    theirs[b"asynq:{default}:t:golden-1"][2][b"unique_key"] = (
                        b"asynq:{default}:unique:email:send:f184cb776799d7f8bfcc2796810e627d")
                if scenario["name"] == "group_delayed":
                    # Theirs forgets it, so that the task does not join its group; ours does.
                    theirs[b"asynq:{default}:t:golden-1"][2][b"group"] = b"digest"
                self.compare(scenario, theirs, without_ours(self.redis.dump()),
                             began_ns - scenario["before_ns"])


class WorkTest(InteropTest):
    """quern runs the tasks that asynq stored."""

    needs_go = False

    def drain(self, command, queues):
        return self.quern_result("work", "--drain", "--exec", f"{command}", *(
            word for queue in queues for word in ("--queue", queue)))

    def test_recorded_pending_tasks_are_leased_and_finished(self):
        looked = 0
        for scenario in recordings("enqueue"):
            infos = [reply["ok"] for reply in scenario["replies"] if "error" not in reply]
            if any(info["state"] != "pending" for info in infos):
                continue
            with self.subTest(scenario["name"]):
                self.empty()
                restore(self.redis, keys_of(scenario))
                queue = infos[0]["queue"]
                patterns = {info["type"] for info in infos}
                result = self.quern_result(
                    "work", "--drain", "--queue", queue,
                    *(word for pattern in patterns for word in ("--exec", f"{pattern}=cat")))
                self.assertEqual(result.returncode, 0, result.stderr.decode())
                self.assertEqual(self.counts(queue), (len(infos), 0))
                for info in infos:
                    state = self.state(info["id"], queue)
                    self.assertEqual(state, "completed" if info["retention_ms"] else "gone")
                    if info["retention_ms"]:
                        key = f"asynq:{{{queue}}}:t:{info['id']}"
                        self.assertEqual(self.redis.do("HGET", key, "result"),
                                         unb64(info["payload"]))
                self.assertEqual(self.redis.do("KEYS", "*unique*"), [])
                looked += 1
        self.assertGreater(looked, 15)

    def test_quern_ends_recorded_runs_as_asynq_does(self):
        """The same task and the same end: the same keys, apart from moments and error texts."""
        ends = {"done": "true", "done_unique": "true", "completed": "cat",
                "completed_unique": "true", "retry": "exit 1", "retry_unique": "exit 1",
                "retries_used_up": "exit 1", "skip_retry": "exit 65"}
        for scenario in recordings("server"):
            if scenario["name"] not in ends:
                continue
            with self.subTest(scenario["name"]):
                self.empty()
                self.assertEqual(EnqueueTest.enqueue_like(self, scenario).returncode, 0)
                worker = self.spawn(
                    self.program, "work", "--quiet", "--exec",
                    f"{scenario['tasks'][0]['type']}={ends[scenario['name']]}")
                theirs = keys_of(scenario)
                day = [key for key in theirs if b":processed:" in key][0]
                self.until(lambda key=day.rpartition(b":")[0]: self.redis.do("GET", key),
                           "it is counted")
                self.stop(worker)
                ours = without_ours(self.redis.dump())
                today = time.strftime("%Y-%m-%d", time.gmtime()).encode()
                self.assertEqual(sorted(ours), sorted(
                    key[:-10] + today if key[-3:-2] == b"-" else key for key in theirs))
                for key, (kind, _, value) in theirs.items():
                    if kind != "hash" or b"msg" not in value:
                        continue
                    mine = ours[key][2]
                    self.assertEqual({field: text for field, text in mine.items()
                                      if field not in (b"msg", b"result")},
                                     {field: text for field, text in value.items()
                                      if field not in (b"msg", b"result")})
                    pair = [codec([("task", text)])[0][1] for text in (mine[b"msg"], value[b"msg"])]
                    for name in ("last_err", "last_failed_at_ms", "completed_at_ms"):
                        self.assertEqual(*(fields[name] in ([b""], [b"0"]) for fields in pair))
                        for fields in pair:
                            del fields[name]
                    self.assertEqual(*pair)
                self.assertEqual(self.counts(), tuple(
                    int(theirs.get(b"asynq:{default}:" + name, (0, 0, b"0"))[2])
                    for name in (b"processed", b"failed")))


class InspectTest(InteropTest):
    """quern's program on the data of asynq."""

    needs_go = False

    def test_every_recorded_task_is_shown_as_go_shows_it(self):
        for scenario in recordings("enqueue"):
            with self.subTest(scenario["name"]):
                self.empty()
                restore(self.redis, keys_of(scenario))
                for reply in scenario["replies"]:
                    if "error" in reply:
                        continue
                    theirs = reply["ok"]
                    if scenario["name"] == "timeout_short":
                        theirs["timeout_ms"] = 1800000  # what Go's worker makes of 0
                    ours = self.quern("task", "inspect", theirs["id"], "--queue", theirs["queue"])
                    lib_interop.assert_same_task(self, ours, theirs, pending_at=False)

    def test_servers_and_their_runs(self):
        scenario = [one for one in recordings("server") if one["name"] == "active"][0]
        keys = keys_of(scenario)
        # Their moments end 10 s after the recording: as if it were now.
        until = str(int(time.time()) + 60).encode()
        for name in (b"asynq:servers", b"asynq:workers"):
            kind, ttl_ms, value = keys[name]
            keys[name] = (kind, ttl_ms, {member: until for member in value})
        restore(self.redis, keys)
        [worker] = self.quern("worker", "list")
        self.assertEqual((worker["host"], worker["concurrency"], worker["status"]),
                         ("recorder", 3, "active"))
        self.assertEqual(sorted(worker["queues"].split()), ["default=1", "mail=3"])
        [run] = worker["runs"]
        self.assertEqual((run["id"], run["type"], run["queue"]),
                         ("golden-1", "hold", "mail"))
        self.assertEqual(run["deadline_at_ms"], 4102444800000)


if __name__ == "__main__":
    lib_interop.main()
