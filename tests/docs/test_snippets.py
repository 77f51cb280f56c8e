#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The C and C++ in docs/guide compiles: each block by itself, as the inside of a function that sees
what a reader would have declared. Results that a snippet ignores for brevity are no error."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
C = """
#include <assert.h>
#include <quern/quern.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{includes}
extern quern_client *client;
extern quern_inspector *inspector;
extern quern_mux *mux;
extern quern_worker *worker;
extern quern_error err;
extern quern_status status;
extern quern_client_options client_options;
extern quern_worker_options worker_options;
extern const quern_task task, tasks[];
extern sqlite3 *db;
extern const quern_handler resize, any_image;
bool resize_picture(const void *data, size_t size);
void snippet(void);
void snippet(void)
{{
{block}
}}
"""
CXX = """
#include <quern/quern.hpp>
#include <utility>
{includes}
struct pictures {{
    void resize(std::string_view data);
}};
void snippet(pictures pictures);
void snippet(pictures pictures)
{{
{block}
}}
"""


def compile_block(kind, block):
    """Gives what the compiler says, nothing if all is well."""
    includes = "\n".join(re.findall(r"^#include .*$", block, re.M))
    block = re.sub(r"^#include .*$", "", block, flags=re.M)
    if kind == "c":
        # A function in a function, as GNU C has it, so that a block may hold both.
        text = C.format(includes=includes, block=re.sub(r"^static ", "", block, flags=re.M))
        command = [os.environ["CC"], "-std=gnu11", "-Wno-unused-result", "-Wno-unused"]
    else:
        text = CXX.format(includes=includes, block=block)
        command = [os.environ["CXX"], "-std=c++17"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, f"snippet.{kind}")
        path.write_text(text, encoding="utf-8")
        result = subprocess.run(
            [*command, "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fsyntax-only",
             f"-I{SOURCE}/include", str(path)],
            capture_output=True, text=True, check=False)
    return result.stderr


def main():
    if "clang" in subprocess.run([os.environ["CC"], "--version"], capture_output=True, text=True,
                                 check=True).stdout:
        print("skipped: clang has no functions in functions")
        return 77
    failed = checked = 0
    for page in sorted((SOURCE / "docs/guide").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```(c|cpp)\n(.*?)^```$", text, re.M | re.S):
            kind, block = match.groups()
            if kind == "cpp" and not os.environ["CXX"]:
                continue
            checked += 1
            said = compile_block(kind, block)
            if said:
                line = text[:match.start()].count("\n") + 1
                print(f"{page.relative_to(SOURCE)}:{line}: does not compile:\n{said}")
                failed += 1
    print(f"{checked} blocks")
    return 1 if failed or checked < 10 else 0


sys.exit(main())
