#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A process that stays and runs many tasks. Start it by

  quern work --exec-loop 'count:=python3 examples/loop.py'

It reads a task per line on standard input and writes its answers to standard output, as JSON."""

import json
import sys

ANSWERS = sys.stdout
sys.stdout = sys.stderr  # print() must not write between the answers


def say(**line):
    ANSWERS.write(json.dumps(line) + "\n")
    ANSWERS.flush()


def count_words(task):
    words = task["payload"].split()
    say(progress=50, note=f"{len(words)} words")
    return {"words": len(words)}


HANDLERS = {"count:words": count_words}

say(ready=True)
for text in sys.stdin:
    task = json.loads(text)
    handler = HANDLERS.get(task["type"])
    if handler is None:
        say(id=task["id"], outcome="archive", error="no handler for " + task["type"])
        continue
    try:
        say(id=task["id"], outcome="done", result=handler(task))
    except Exception as error:  # any mistake of a handler is a failure of its task alone
        say(id=task["id"], outcome="retry", error=repr(error), **{"class": type(error).__name__})
