#!/bin/sh
# The reference is made from the headers without a complaint of doxygen, and each public name has an
# entry there: a man page, and text in the HTML. Skipped where there is no doxygen.
set -eu
. "$QUERN_SOURCE/tests/lib_test.sh"
command -v doxygen >/dev/null || skip "no doxygen (scripts/bootstrap --tests installs it)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$QUERN_SOURCE/scripts/reference" "$work"
cd "$QUERN_SOURCE"
exec python3 - "$work" <<'END'
import html
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
headers = pathlib.Path("include/quern").glob("*.h")
text = "\n".join(path.read_text(encoding="utf-8") for path in headers)
code = re.sub(r'/\*.*?\*/|"[^"\n]*"', " ", text, flags=re.DOTALL)
names = {name for name in re.findall(r"\b(?:quern|QUERN)_\w+", code)
         if not re.fullmatch(r"QUERN_\w+_H", name)}
exported = set(pathlib.Path("tests/abi/symbols.txt").read_text(encoding="utf-8").split())
missing = sorted(name for name in names | exported if not (folder / f"man/man3/{name}.3").is_file())
for name in missing:
    print(f"FAILED: {name} has no entry in the reference")

# What a reader should be told stands there: a few promises, one of each kind of comment.
pages = html.unescape(re.sub(r"<[^>]*>", "", "\n".join(
    path.read_text(encoding="utf-8") for path in (folder / "html").glob("*.html"))))
for promise in ("Stores one task, completely or not at all.", "retries after the first attempt",
                "Why a task was run once more", "always base_ms"):
    if promise.lower() not in re.sub(r"\s+", " ", pages).lower():
        missing.append(promise)
        print(f"FAILED: the reference does not say: {promise}")
print(f"{len(names | exported)} public names")
sys.exit(1 if missing or len(exported) < 100 else 0)
END
