#!/bin/sh
# What the documentation names exists: relative links with their anchors; words in backquotes that
# look like paths of this repository (a folder of ours first, or the name of a source file alone);
# the tests that a recipe names; and each quern_ or qn_ name (but for the changelog, which names
# what is gone). A pattern of --exec serves something.
set -eu
cd "$QUERN_SOURCE"
exec python3 - <<'END'
import pathlib
import re
import sys

FOLDERS = r"(?:src|include|tests|examples|docs|scripts|cmake|man|\.ci)/"
failed = checked = 0
documents = [*pathlib.Path(".").glob("*.md"), *pathlib.Path("docs").rglob("*.md")]
sources = {file.name for folder in ("src", "include", "tests", "examples")
           for file in pathlib.Path(folder).rglob("*.*")}


def program(path):
    """The name of a test program, as tests/CMakeLists.txt makes it of its path."""
    net, *rooms = path.relative_to("tests").parts[:-1]
    rooms.append(path.stem.removeprefix("test_"))
    return "_".join([net, *dict.fromkeys(rooms)])


def identifiers(paths):
    """Each public or shared name in these files."""
    return {name for path in paths if path.is_file()
            for name in re.findall(r"\b(?:quern|qn|QUERN|QN)_\w*[a-zA-Z0-9]\b",
                                   path.read_text(encoding="utf-8", errors="replace"))}


def anchors(path):
    """What a link may name in a page: its headings, as GitHub makes links of them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


known = identifiers([*pathlib.Path(".").glob("CMake*"), *(
    path for folder in ("src", "include", "tests", "scripts", "cmake")
    for path in pathlib.Path(folder).rglob("*") if "corpus" not in path.parts)])
programs = {program(path) for path in pathlib.Path("tests").rglob("test_*.c")}
others = pathlib.Path("tests/CMakeLists.txt").read_text(encoding="utf-8")
programs |= set(re.findall(r"add_executable\((\w+) ", others))
for document in documents:
    text = document.read_text(encoding="utf-8")
    for page, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", text):
        checked += 1
        target = document.parent / page if page else document
        if not target.is_file() or anchor not in anchors(target):
            print(f"{document}: there is no {page}#{anchor}")
            failed += 1
    for name in sorted(identifiers([document]) - known):
        checked += 1
        if document.name != "CHANGELOG.md" and not name.endswith("NAME"):
            print(f"{document}: there is no {name}")
            failed += 1
    for number, line in enumerate(text.splitlines(), 1):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line)
        names = [(document.parent, link) for link in links]
        for word in re.findall(r"`([^` ]+)`", line):
            if re.match(FOLDERS, word):
                names.append((pathlib.Path("."), word))
            elif re.fullmatch(r"\w+\.(?:c|h|sql|proto)", word) and word not in sources:
                names.append((pathlib.Path("."), word))
            elif re.fullmatch(r"[a-z]+/test_\w+\.c", word):  # in one of the nets
                names.append((pathlib.Path("tests"), f"*/{word}"))
        # What a recipe runs: a test program, or a test of CTest.
        for net, word in re.findall(r"(?:/|-R )(unit|contract|fault)[._]([a-z_]+)", line):
            checked += 1
            if f"{net}_{word}" not in programs:
                print(f"{document}:{number}: there is no test {net}.{word}")
                failed += 1
        # A pattern is the beginning of types: a command with a star at its end serves nothing.
        for pattern in re.findall(r"quern work .*--exec '([^'=]+\*)=", line):
            print(f"{document}:{number}: --exec {pattern!r} serves types with that star only")
            failed += 1
        for folder, name in names:
            checked += 1
            # `src/base/arena.{c,h}` and `tests/unit/test_NAME.c` name several.
            pattern = re.sub(r"\{.*\}|\b[A-Z]{3,}\b(?!\.md)|(?<=_)[A-Z]{3,}", "*", name)
            pattern = pattern.rstrip("/")
            if not any(folder.glob(pattern)):
                print(f"{document}:{number}: there is no {name}")
                failed += 1
if checked < 10:
    print(f"only {checked} names found: is the pattern still right?")
    failed += 1
sys.exit(1 if failed else 0)
END
