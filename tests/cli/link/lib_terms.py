# SPDX-License-Identifier: MIT
"""Who was the master, and since when: each node of a set is asked for its role all the time.

A node's term begins when it answers that it is the master after it was a replica, and lasts until
that of another one begins. Of each term is noted which tasks the node had then, and when the first
task was finished on it. A master that was frozen or killed still takes itself for one when it is
back: that begins no term."""

import threading
import time

from lib_redis import RedisError
from lib_sentinel import until

LOOK_S = 0.02
SILENT_S = 1.0  # a node that is frozen is asked again on a new connection
LAG_S = 1.0  # of replicas that follow; far more than they need
QUEUE = "asynq:{default}:"


class Term:
    def __init__(self, node, before, ids, count):
        self.node = node
        self.begun = time.monotonic()
        self.before = before  # the term that it ended; None: this is the first
        self.ids = ids  # the tasks that the node had
        self.count = count  # of those that had been finished in all
        # Moments; None: not yet.
        self.finished = None  # it has finished one more
        self.followed = None  # it was last seen to follow the master before
        self.demoted = None  # it was seen to be a replica again
        self.lagged = None  # the test froze its replicas
        self.failed = None  # the test killed or froze it


class Terms:
    def __init__(self, nodes):
        self.nodes = nodes
        self.lock = threading.Lock()
        self.known = {}  # of each node: its latest role, and of which master, and when that was
        self.list = []
        self.error = None
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.watch, args=(node,)) for node in nodes]
        for thread in self.threads:
            thread.start()
        until(lambda: self.list or self.error, "there is a master")

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    # --- What the nodes say ----------------------------------------------------------------

    def watch(self, node):
        link = None
        while not self.ended.wait(LOOK_S):
            try:
                link = link or node.connect(SILENT_S)
                self.look(node, link)
            except (RedisError, OSError, ValueError):  # it is gone, frozen or loading
                if link:
                    link.close()
                link = None
            except Exception as error:  # pylint: disable=broad-exception-caught
                self.error = error
                return
        if link:
            link.close()

    def look(self, node, link):
        role, count = link.pipeline([("ROLE",), ("GET", QUEUE + "processed")])
        count = int(count or 0)
        with self.lock:
            before, _, _ = self.known.get(node, (None, None, None))
            if role[0] == b"slave":
                self.note_replica(node, before, role)
            elif before != "master" and (before or not self.list):
                keys = link.do("KEYS", QUEUE + "t:*")
                ids = {key.decode().rsplit(":", 1)[1] for key in keys}
                self.begin(Term(node, self.list[-1] if self.list else None, ids, count))
            if role[0] == b"master":
                self.known[node] = ("master", None, time.monotonic())
                self.note_finished(node, count)

    def note_replica(self, node, before, role):
        if before == "master":
            for term in self.list:
                if term.node is node and term.demoted is None:
                    term.demoted = time.monotonic()
        if role[3] == b"connected" or before != "replica":
            port = int(role[2]) if role[3] == b"connected" else None
            self.known[node] = ("replica", port, time.monotonic())

    def begin(self, term):
        _, port, moment = self.known.get(term.node, (None, None, None))
        if term.before and port == term.before.node.port:
            term.followed = moment
        self.list.append(term)

    def note_finished(self, node, count):
        term = self.list[-1]
        if term.node is node and term.finished is None and count > term.count:
            term.finished = time.monotonic()

    # --- What a test asks ------------------------------------------------------------------

    def latest(self):
        if self.error:
            raise self.error
        return self.list[-1]

    def wait_finished(self, failed=None):
        """Until the latest master, which is not that of a term that has failed, finishes tasks."""
        def has_finished():
            latest = self.latest()
            return latest is not failed and latest.finished
        until(has_finished, "the new master finishes tasks")

    @staticmethod
    def longest_pause_s(terms):
        """How long at most a master of these terms was there before it finished a task, or before
        it was replaced."""
        ends = [term.begun for term in terms[1:]] + [time.monotonic()]
        return max((term.finished or end) - term.begun for term, end in zip(terms, ends))

    def lacked_by(self, name, sent, answered):
        """The numbers of the terms whose node did not have this task when they began, and could not
        have it: it was stored at the master before that, after the node had ceased to follow."""
        return [index for index, term in enumerate(self.list) if term.before and
                name not in term.ids and self.was_stored_before(term, sent, answered)]

    @staticmethod
    def was_stored_before(term, sent, answered):
        before = term.before
        followed = before.begun if term.followed is None else term.followed
        lacks_since = min(moment for moment in (followed, before.lagged, before.failed)
                          if moment is not None)
        ended = before.failed or before.demoted or time.monotonic()
        return sent < ended and answered > lacks_since - LAG_S
