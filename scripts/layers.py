"""The layers and rooms of the tree, for check_layers (includes) and check_objects (calls).

A layer is a folder of src, a room a part of one; each may use itself and what lies below it. What
breaks a rule for a reason stands in scripts/layer_exceptions.txt.
"""
import re

EXCEPTIONS = "scripts/layer_exceptions.txt"

# layer: the layers directly below it. Siblings do not know each other.
LAYERS = {
    "base": [],
    "net": ["base"],
    "redis": ["net"],
    "trace": ["base"],
    "message": ["trace"],
    "task": ["message"],
    "query": ["task"],
    "broker": ["query", "redis"],
    "client": ["broker"],
    "pool": ["base"],
    "schedule": ["broker", "pool"],
    "metrics": ["base"],
    "worker": ["schedule", "pool", "metrics"],
    "inspect": ["schedule", "metrics"],
    "cli": ["client", "worker", "inspect", "schedule", "metrics"],
    "web": ["client", "worker", "inspect", "schedule", "metrics"],
}

# public header: the lowest layer that may include it.
PUBLIC = {
    "quern/export.h": "base",
    "quern/log.h": "base",
    "quern/status.h": "base",
    "quern/version.h": "base",
    "quern/metrics.h": "metrics",
    "quern/header.h": "trace",
    "quern/trace.h": "trace",
    "quern/task.h": "task",
    "quern/entry.h": "task",
    "quern/run.h": "schedule",
    "quern/group.h": "schedule",
    "quern/mux.h": "worker",
    "quern/handlers.h": "cli",
    "quern/worker.h": "worker",
    "quern/zygote.h": "worker",
    "quern/testing.h": "worker",
    "quern/scheduler.h": "schedule",
    "quern/client.h": "client",
    "quern/sqlite.h": "client",
    "quern/inspector.h": "broker",  # a broker answers in its shapes
    "quern/command.h": "broker",  # a broker takes its orders
    "quern/search.h": "inspect",
    "quern/explain.h": "inspect",
    "quern/quern.h": "cli",
}

# header, or the folder of it: the only places in src and include that may include it.
RESERVED = {
    "broker/ops.h": r"src/broker/",
    "broker/inspect.h": r"src/(broker|inspect)/",
    "hiredis/": r"src/redis/(encode|decode)\.c",
    "ini.h": r"src/schedule/conf\.c|src/cli/config/ini\.c",
    "sqlite3.h": r"src/broker/sqlite/|src/client/enqueue_tx\.c|src/cli/main\.c|"
                 r"src/cli/replay/scratch\.c|"
                 r"include/quern/sqlite\.h",
    "microhttpd.h": r"src/cli/supervise/server\.c|src/web/",
    "openssl/": r"src/message/asynq/unique_key\.c|src/net/tls[a-z_]*\.[ch]|"
                r"src/cli/output/base64\.c",
    "quern/sqlite.h": r"src/client/",
    "quern/testing.h": r"src/base/clock\.c|src/worker/testing",
}

# Headers that hold the state of all rooms of their folder by value, or what all of them share: each
# room includes them, and they include the headers of rooms. Whether calls point down, check_objects
# sees all the same.
HOLDERS = ("broker/redis/redis.h", "broker/sqlite/sqlite.h", "worker/internal.h", "cli/cli.h")

# The rooms of a folder: (room, pattern of its paths below the folder, the rooms directly below it).
# A file is of the first room whose pattern fits the beginning of its path.
ROOMS = {
    "message": [
        ("asynq", r"asynq/", ["common"]),
        ("common", r"", []),
    ],
    "broker/redis": [
        ("broker", r"broker\.c", ["operate", "doctor", "group"]),
        ("group", r"group/", ["upkeep"]),
        ("operate", r"operate/", ["schedule"]),
        ("doctor", r"doctor/", ["schedule"]),
        ("schedule", r"schedule/", ["inspect"]),
        ("inspect", r"inspect/", ["upkeep"]),
        ("upkeep", r"upkeep/", ["run"]),
        ("run", r"run/", ["wake"]),
        ("wake", r"wake/", ["schema"]),
        ("schema", r"", []),
    ],
    "broker/sqlite": [
        ("broker", r"broker\.c", ["operate", "doctor", "schedule", "group"]),
        ("schedule", r"schedule/", ["run"]),
        ("group", r"group/", ["upkeep"]),
        ("operate", r"operate/", ["inspect"]),
        ("doctor", r"doctor/", ["inspect"]),
        ("inspect", r"inspect/", ["upkeep"]),
        ("upkeep", r"upkeep/", ["run"]),
        ("run", r"run/", ["queue"]),
        ("queue", r"queue/", ["wake"]),
        ("wake", r"wake/", ["schema"]),
        ("schema", r"schema/", ["store"]),
        ("store", r"store/", ["file"]),
        ("file", r"", []),
    ],
    "worker": [
        ("policy", r"policy/", []),
        ("measure", r"measure/", []),
        ("signals", r"(signals|backoff|liveness/beats)\.", ["measure"]),
        ("run", r"run/", ["signals", "policy"]),
        ("trace", r"trace/", ["run"]),
        ("fetch", r"fetch/", ["trace"]),
        ("keeper", r"keeper/", ["run"]),
        ("exec", r"exec/", ["run"]),
        ("prefork", r"prefork/", ["run"]),
        ("worker", r"", ["fetch", "keeper", "exec", "prefork"]),
    ],
    "cli": [
        ("text", r"memory\.|output/text\.", []),
        ("main", r"main\.c", ["verbs", "schedule", "enqueue", "bench", "watch"]),
        ("schedule", r"schedule/", ["work"]),
        ("verbs", r"verbs/", ["replay"]),
        ("replay", r"replay/", ["work", "enqueue"]),
        ("enqueue", r"enqueue/", ["wait", "otlp"]),
        ("wait", r"wait/", ["output"]),
        ("watch", r"watch/", ["output"]),
        ("work", r"work/", ["handlers", "loop", "supervise", "config", "otlp"]),
        ("config", r"config/", ["output"]),
        ("otlp", r"otlp/", ["output"]),
        ("supervise", r"supervise/", ["output"]),
        ("loop", r"loop/", ["output"]),
        ("handlers", r"handlers/", ["output"]),
        ("bench", r"bench/", ["output"]),
        ("output", r"output/", ["common"]),
        ("common", r"", ["text"]),
    ],
}


def reachable(start, graph):
    """What `start` uses, directly or by way of others; itself only in a circle."""
    seen, todo = set(), [start]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def below(name, graph):
    """`name` itself and everything that it may use."""
    seen = {name}
    for lower in graph[name]:
        seen |= below(lower, graph)
    return seen


def room(path):
    """(folder, room) of a path below src; (None, None) where a folder has no rooms."""
    for folder, rooms in ROOMS.items():
        if path.startswith(folder + "/"):
            rest = path[len(folder) + 1:]
            for name, pattern, _ in rooms:
                if re.match(pattern, rest):
                    return folder, name
    return None, None


def complaint(user, used):
    """Why `user` may not use `used`, both paths below src; None when it may."""
    layers = user.split("/")[0], used.split("/")[0]
    if layers[1] not in below(layers[0], LAYERS):
        return f"{layers[0]} may not use {layers[1]} (it is not below it)"
    (folder, name), (other_folder, other) = room(user), room(used)
    if folder is not None and folder == other_folder and not {user, used} & set(HOLDERS):
        graph = {entry[0]: entry[2] for entry in ROOMS[folder]}
        if other not in below(name, graph):
            return f"the room {name} of {folder} may not use {other} (it is not below it)"
    return None


class Exceptions:
    """The lines "KIND WORD..." of layer_exceptions.txt. Each must still be needed."""

    def __init__(self, root, *kinds):
        self.lines = {}
        file = root / EXCEPTIONS
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            words = tuple(line.partition("#")[0].split())
            if words and words[0] in kinds:
                self.lines[words] = number
        self.used = set()

    def has(self, *words):
        if words in self.lines:
            self.used.add(words)
            return True
        return False

    def report_stale(self):
        """Prints the lines that nothing needs any more; how many there are."""
        stale = [(number, words) for words, number in self.lines.items() if words not in self.used]
        for number, words in sorted(stale):
            print(f"{EXCEPTIONS}:{number}: {' '.join(words)}: is mended, take the line out")
        return len(stale)
