#!/bin/sh
# Every event that a worker logs is in the table of docs/guide/supervise.md, with its level, and
# every event of the table is logged somewhere.
set -eu
cd "$QUERN_SOURCE"
exec python3 - <<'END'
import pathlib
import re
import sys

PAGE = "docs/guide/supervise.md"
documented = {}
for line in pathlib.Path(PAGE).read_text(encoding="utf-8").splitlines():
    row = re.match(r"\| ([a-z, ]+) \| `([^`]+)` \|([^|]*)\|", line)
    if row:
        documented[row.group(2)] = (row.group(1), set(row.group(3).replace(",", " ").split()))

logged = {}
sources = [*sorted(pathlib.Path("src/worker").rglob("*.c")),
           *sorted(pathlib.Path("src/schedule/group").rglob("*.c")),
           *sorted(pathlib.Path("src/trace").rglob("*.c")),
           pathlib.Path("src/cli/work/log.c"), pathlib.Path("src/cli/work/config/reconfigure.c"),
           pathlib.Path("src/cli/work/probe/health.c")]
for source in sources:
    text = source.read_text(encoding="utf-8")
    for call in re.findall(r"\bQN_LOG\((.*?)\);\n", text, re.DOTALL):
        head = call.split("QN_LOG_", 1)[0]
        for message in re.findall(r'"([^"]+)"', head):
            logged.setdefault(message, set()).update(re.findall(r'QN_LOG_\w+\(\s*"(\w+)"', call))
    for call in re.findall(r"\blog_set\(([^{}]*?)\);\n", text):
        for message in re.findall(r'"([^"]+)"', call):
            logged.setdefault(message, set())
    for message in re.findall(r'qn_log_write\([^"]*"([^"]+)"', text):
        logged.setdefault(re.sub(r"%\w*d", "8", message.replace("%zu %s", "2 runs")), set())
for source in ("src/trace/tracer.c", "src/cli/otlp/otlp.c"):  # without a field
    text = pathlib.Path(source).read_text(encoding="utf-8")
    for message in re.findall(r'qn_log_event\(&tracer->log, \w+, "([^"]+)"', text):
        logged.setdefault(message, set())
    for message in re.findall(r'"msg=\\"([^"\\]+)\\""', text):
        logged.setdefault(message, set())
for function in re.findall(r"\*describe\(.*?\n}\n",
                           pathlib.Path("src/worker/run/report.c").read_text(encoding="utf-8"),
                           re.DOTALL):
    for message in re.findall(r'"([^"]+)"', function):
        logged.setdefault(message, set())

# The pool reports its children through a callback of the worker, which adds the fields.
remote = pathlib.Path("src/worker/prefork/remote.c").read_text(encoding="utf-8")
fields_of_children = set(re.findall(r'QN_LOG_\w+\(\s*"(\w+)"', re.search(
    r"void log_child\(.*?\n}\n", remote, re.DOTALL).group()))
for source in sorted(pathlib.Path("src/pool/prefork").rglob("*.c")):
    for call in re.findall(r"\bqn_ending_log\((.*?)\);\n", source.read_text(encoding="utf-8"),
                           re.DOTALL):
        for message in re.findall(r'"([^"]+)"', call):
            logged.setdefault(message, set()).update(
                fields_of_children - ({"detail"} if call.endswith('""') else set()))
logged.pop("no child could be started", None)  # the worker counts these, and logs them together

# Lines of the program beside the worker.
text = pathlib.Path("src/cli/work/config/reconfigure.c").read_text(encoding="utf-8")
for message in re.findall(r'\blog_names\(work, QUERN_LOG_\w+,\s*"([^"]+)"', text):
    logged.setdefault(message, {"file", "options"})
for source in ("handlers", "restart"):
    text = pathlib.Path(f"src/cli/work/{source}.c").read_text(encoding="utf-8")
    for message in re.findall(r'\b(?:qn_work_log_message|say)\([^;]*?"([^"]+)"', text):
        logged.setdefault(message, set())
    for message in re.findall(r'\(text, sizeof text, "([^"]+): %s"', text):
        logged.setdefault(message, set())

logged.pop("2 runs left, no limit; again to stop now", None)  # the same without a time
failed = 0
for message, fields in sorted(logged.items()):
    if message not in documented:
        print(f"{PAGE}: says nothing of {message!r}")
        failed += 1
    elif not fields <= documented[message][1]:
        missing = ", ".join(sorted(fields - documented[message][1]))
        print(f"{PAGE}: {message!r} has other fields, too: {missing}")
        failed += 1
pool = "".join(source.read_text(encoding="utf-8")
               for source in sorted(pathlib.Path("src/pool").rglob("*.c")))
for message in sorted(set(documented) - set(logged)):
    if f'"{message}"' in pool:
        continue  # by way of its worker
    print(f"{PAGE}: nothing logs {message!r}")
    failed += 1
if len(logged) < 30:
    print(f"only {len(logged)} events found: is the pattern still right?")
    failed += 1
sys.exit(1 if failed else 0)
END
