#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Nodes that lie: every request ends soon, with an error that says what is wrong.

Most of them end when their time is up, after ten seconds: so the tests run at once."""

import os
import socket
import subprocess
import threading
import time
import unittest

from lib_at_once import AtOnce

QUERN = os.environ["QUERN"]
PATIENCE_S = 90
HELLO = (b"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n"
         b"$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$7\r\ncluster\r\n"
         b"$4\r\nrole\r\n$6\r\nmaster\r\n"
         b"$7\r\nmodules\r\n*0\r\n")


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


def one_range(host, port, first=0, last=16383):
    return b"*3\r\n:%d\r\n:%d\r\n*2\r\n%s:%d\r\n" % (first, last, bulk(host), port)


class Node:
    """Answers HELLO as a node, CLUSTER SLOTS by `slots`, anything else by `other`."""

    def __init__(self, slots=None, other=None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.slots = slots or (lambda: b"*1\r\n" + one_range(b"127.0.0.1", self.port))
        self.other = other or (lambda: b"+OK\r\n")
        self.asked = 0
        self.maps = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link):
        with link, link.makefile("rb") as file:
            try:
                while True:
                    line = file.readline()
                    if not line:
                        return
                    words = []
                    for _ in range(int(line[1:])):
                        size = int(file.readline()[1:])
                        words.append(file.read(size + 2)[:-2])
                    link.sendall(self.answer(words))
            except OSError:
                return

    def answer(self, words):
        if words[0] == b"HELLO":
            return HELLO
        if words[0] == b"CLUSTER":
            self.maps += 1
            return self.slots()
        self.asked += 1
        return self.other()

    def stop(self):
        self.listener.close()


class Gone:
    """Refuses connections, and keeps its port from others."""

    def __init__(self):
        self.place = socket.socket()
        self.place.bind(("127.0.0.1", 0))
        self.port = self.place.getsockname()[1]

    def stop(self):
        self.place.close()


class Closer(Node):
    """Closes each connection, and counts them."""

    def serve(self, link):
        self.asked += 1
        link.close()


class Forgetful(Node):
    """Knows no script before its text, and does nothing else."""

    def answer(self, words):
        if words[0] == b"EVALSHA":
            return b"-NOSCRIPT No matching script.\r\n"
        if words[0] == b"EVAL":
            return b"-ERR it is enough\r\n"
        return super().answer(words)


class Faint(Node):
    """Says nothing any more, on no connection, when it has been asked for anything."""

    def answer(self, words):
        if self.asked > 0 or words[0] not in (b"HELLO", b"CLUSTER"):
            self.asked += 1
            time.sleep(PATIENCE_S)
        return super().answer(words)


class Liars(unittest.TestCase):
    def node(self, kind=Node, **answers):
        node = kind(**answers)
        self.addCleanup(node.stop)
        return node

    def refused(self, *nodes, verb=("stats",)):
        places = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        began = time.monotonic()
        result = subprocess.run([QUERN, "--broker", f"redis-cluster://{places}", *verb],
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertNotIn("Sanitizer", result.stderr)
        self.assertLess(time.monotonic() - began, 45)
        return result.stderr

    def test_a_node_that_sends_us_to_itself(self):
        node = self.node()
        node.other = lambda: b"-MOVED 1 127.0.0.1:%d\r\n" % node.port
        self.assertIn("(MOVED)", self.refused(node))
        self.assertLess(node.asked, 200)

    def test_two_nodes_that_point_at_each_other(self):
        one, two = self.node(), self.node()
        one.other = lambda: b"-MOVED 1 127.0.0.1:%d\r\n" % two.port
        two.other = lambda: b"-MOVED 1 127.0.0.1:%d\r\n" % one.port
        words = self.refused(one, two, verb=("enqueue", "t"))
        self.assertIn("(MOVED)", words)
        self.assertNotIn("effect", words)  # it was not done
        self.assertLess(one.asked + two.asked, 400)

    def test_two_nodes_that_disagree_for_some_seconds(self):
        one, two = self.node(), self.node()
        agree_at = time.monotonic() + 3
        def answer(other):
            if time.monotonic() < agree_at:
                return b"-MOVED 1 127.0.0.1:%d\r\n" % other.port
            return b"-ERR they agree\r\n"
        one.other, two.other = lambda: answer(two), lambda: answer(one)
        self.assertIn("they agree", self.refused(one, two, verb=("enqueue", "t")))

    def test_moved_to_no_place(self):
        for words in (b"MOVED 1 a b:1", b"MOVED", b"MOVED 1", b"MOVED 1 h:99999",
                      b"MOVED 1 ../../x:1", b"MOVED 1 " + b"h" * 5000 + b":1"):
            node = self.node(other=lambda words=words: b"-" + words + b"\r\n")
            self.assertRegex(self.refused(node), "to no place|MOVED")

    def test_maps_that_cannot_be(self):
        for slots in (b":1\r\n", b"*-1\r\n", b"$-1\r\n", b"*1\r\n:5\r\n", b"*1\r\n*0\r\n",
                      b"*1\r\n" + one_range(b"a b", 1), b"*1\r\n" + one_range(b"h", 0),
                      b"*1\r\n" + one_range(b"h", 70000), b"*1\r\n" + one_range(b"h", 1, 5, 20000),
                      b"*2\r\n" + one_range(b"h", 1) + one_range(b"i", 1),
                      b"*20000\r\n" + b":1\r\n" * 20000,
                      b"*16384\r\n" + b"".join(one_range(b"h%d" % i, 1, i, i)
                                               for i in range(16384)),
                      b"-ERR This instance has cluster support disabled\r\n",
                      b"*1000000000\r\n", b"$1000000000\r\n"):
            node = self.node(slots=lambda slots=slots: slots)
            words = self.refused(node)
            self.assertRegex(words, "SLOTS|reply|too large|answer|Protocol|cluster support", words)

    def test_a_cluster_without_slots(self):
        node = self.node(slots=lambda: b"*0\r\n")
        self.assertIn("no node owns the slot", self.refused(node))

    def test_a_cluster_that_is_down(self):
        node = self.node(other=lambda: b"-CLUSTERDOWN The cluster is down\r\n")
        self.assertIn("the cluster is down", self.refused(node))

    def test_all_nodes_are_gone(self):
        self.assertIn("onnection refused", self.refused(self.node(Gone)))

    def test_nodes_that_close_are_not_asked_without_a_pause(self):
        nodes = self.node(Closer), self.node(Closer)
        self.assertIn("connection lost", self.refused(*nodes))
        self.assertLess(sum(node.asked for node in nodes), 600)

    def test_an_unknown_script_is_no_reason_to_ask_for_the_map(self):
        node = self.node(Forgetful)
        self.assertIn("it is enough", self.refused(node, verb=("enqueue", "t")))
        self.assertEqual(node.maps, 1)

    def test_a_node_that_falls_silent(self):
        self.assertIn("no answer within", self.refused(self.node(Faint)))


def load_tests(loader, _tests, _pattern):
    return AtOnce(loader.loadTestsFromTestCase(Liars))


if __name__ == "__main__":
    unittest.main()
