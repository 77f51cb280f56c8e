#!/bin/sh
# The checks of the sources can fail: each is fed a tree with planted offenders, must name every one
# with file and line, and must let a clean tree pass.
set -eu
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail()
{
    echo "FAILED: $*" >&2
    cat "$root/said" >&2 || true
    exit 1
}

# clean_tree - a small tree without offences.
clean_tree()
{
    rm -rf "$root/tree"
    mkdir -p "$root/tree/src/base" "$root/tree/src/client" "$root/tree/src/broker/sqlite" \
        "$root/tree/include/quern" "$root/tree/examples" "$root/tree/tests/unit"
    plant include/quern/client.h '/* quern/client.h - text. */' '#ifndef QUERN_CLIENT_H' \
        '#define QUERN_CLIENT_H' '#include "quern/task.h"' '#endif'
    plant src/client/client.c '/* client.c - text. */' '#include <stdio.h>' '' \
        '#include "base/error.h"'
}

# plant FILE LINE... - writes a file that starts as ours do.
plant()
{
    file=$root/tree/$1
    mkdir -p "$(dirname "$file")"
    shift
    { echo "/* SPDX-License-Identifier: MIT */" && printf '%s\n' "$@"; } >"$file"
}

# passes CHECK [BUILD]; names CHECK [BUILD] TEXT... - what it must say.
passes()
{
    "$QUERN_SOURCE/scripts/$1" ${2+"$2"} "$root/tree" >"$root/said" 2>&1 ||
        fail "$1 refuses a clean tree"
}
names()
{
    check=$1
    shift
    build=
    if [ "$check" = check_objects ]; then
        build=$1
        shift
    fi
    if "$QUERN_SOURCE/scripts/$check" ${build:+"$build"} "$root/tree" >"$root/said" 2>&1; then
        fail "$check passes: $*"
    fi
    for text; do
        grep -qF "$text" "$root/said" || fail "$check does not say: $text"
    done
}

lines()
{
    i=0
    while [ "$i" -lt "$1" ]; do
        echo "$2"
        i=$((i + 1))
    done
}

clean_tree
for check in check_layers check_lengths check_words; do
    passes "$check"
done

# Layers: up, sideways, a public header that looks inside or up, an example that does, a public
# header of a layer above, reserved headers; rooms; circles; exceptions that are needed no more.
plant src/base/up.c '#include "client/client.h"'
plant src/client/side.c '#include <errno.h>' '#include "inspect/inspector.h"'
plant src/client/quoted.c '#include "client.h"'
plant include/quern/inside.h '#include "base/text/buf.h"'
plant include/quern/task.h '#include "quern/log.h"' '#include "quern/worker.h"'
plant include/quern/unheard_of.h '#include "quern/task.h"'
plant include/quern/worker.h '# include <hiredis/read.h>'
plant include/quern/worker.hpp '#include "quern/client.hpp"' '#include "quern/task.h"'
plant src/client/angles.c '#include <worker/internal.h>'
plant src/client/dots.c '#include "../worker/internal.h"'
plant src/top.c '#include "client/client.h"'
plant src/client/a.h '#include "client/b.h"'
plant src/client/b.h '#include "client/c.h"'
plant src/client/c.h '#include "client/a.h"'
plant src/client/d.h '#include "client/a.h"'
plant examples/inside.c '#include "broker/broker.h"'
plant src/client/database.c '#include <sqlite3.h>'
plant src/base/kit.c '#include "quern/testing.h"'
plant src/client/bytes.c '#include <hiredis/read.h>'
plant src/client/digest.c '#include <openssl/evp.h>'
plant src/base/shown.c '#include "quern/inspector.h"'
plant src/base/new.c '#include "quern/unheard_of.h"'
mkdir -p "$root/tree/scripts" "$root/tree/src/broker/sqlite/store" \
    "$root/tree/src/broker/sqlite/run"
plant src/broker/sqlite/store/room.c '#include "broker/sqlite/run/exchange.h"'
plant src/broker/sqlite/store/holder.c '#include "broker/sqlite/sqlite.h"'
plant src/broker/sqlite/run/down.c '#include "broker/sqlite/store/conn.h"'
plant src/base/excused.c '#include "client/client.h"'
{
    echo "include src/base/excused.c client/client.h # a reason"
    echo "include src/base/mended.c client/client.h"
} >"$root/tree/scripts/layer_exceptions.txt"
names check_layers src/base/up.c:2: src/client/side.c:3: src/client/quoted.c:2: \
    "include/quern/task.h:3: #include \"quern/worker.h\": quern/task.h is of task" \
    include/quern/unheard_of.h:2: include/quern/worker.h:2: src/client/angles.c:2: \
    src/client/dots.c:2: src/top.c:2: \
    "client/a.h: a circle of includes: client/a.h, client/b.h, client/c.h" \
    include/quern/inside.h:2: examples/inside.c:2: src/client/database.c:2: src/base/kit.c:2: \
    src/client/bytes.c:2: src/client/digest.c:2: src/base/shown.c:2: src/base/new.c:2: \
    src/broker/sqlite/store/room.c:2: "layer_exceptions.txt:2: include src/base/mended.c"
if grep -q -e holder.c -e down.c -e 'excused\.c:' -e worker.hpp -e task.h:2 -e client/d.h \
    "$root/said"; then
    fail "check_layers refuses what is right"
fi

# Objects: calls that point up, circles (by calls, by a table of callbacks, by a function that a
# header defines), variables, a name of another file or without prefix, exceptions that nothing
# needs.
# compile FILE LINE... - one source of the tree and its object, as cmake names it.
compile()
{
    plant "src/$@"
    mkdir -p "$(dirname "$root/build/CMakeFiles/quern_objects.dir/src/$1")"
    "$CC" -c "$root/tree/src/$1" -o "$root/build/CMakeFiles/quern_objects.dir/src/$1.o"
}
clean_tree
mkdir -p "$root/tree/scripts" "$root/tree/src/broker/sqlite/store" \
    "$root/tree/src/broker/sqlite/run"
compile base/str.c 'int qn_str_size(void) { return 1; }'
compile client/batch.c 'int qn_str_size(void);' 'int qn_batch_add(void) { return qn_str_size(); }'
compile base/constant.c 'int qn_constant_f(void);' \
    'static int (*const table[])(void) = {qn_constant_f};' \
    'int qn_constant_f(void) { return table[0] != 0; }'
compile cli/state.c 'int qn_state_of_program = 1;'
passes check_objects "$root/build"
compile base/up.c 'int qn_batch_add(void);' 'int qn_up(void) { return qn_batch_add(); }'
compile base/excused.c 'int qn_batch_add(void);' 'int qn_excused(void) { return qn_batch_add(); }'
compile broker/sqlite/run/take.c 'int qn_take_one(void) { return 1; }'
compile broker/sqlite/store/open.c 'int qn_take_one(void);' \
    'int qn_sqlite_open(void) { return qn_take_one(); }'
compile client/left.c 'int qn_right(void);' 'int qn_left(void) { return qn_right(); }'
compile client/right.c 'int qn_left(void);' 'int qn_right(void) { return qn_left(); }'
compile client/first.c 'int qn_last(void);' 'int qn_first(void) { return qn_last(); }'
compile client/last.c 'int qn_first(void);' 'int qn_last(void) { return qn_first(); }'
compile client/named.c 'const int qn_other_thing;' 'const int qn_known_thing;' \
    'const int qn_named_thing;' 'int helper(void) { return 1; }'
compile client/ops.c 'int qn_user(void);' 'int (*const qn_ops[])(void) = {qn_user};'
compile client/user.c 'extern int (*const qn_ops[])(void);' \
    'int qn_user(void) { return qn_ops[0](); }'
plant src/client/inner.h 'int qn_inner(void);' \
    'static inline int outer(void) { return qn_inner(); }'
compile client/inner.c '#include "inner.h"' 'int qn_outer(void);' \
    'int qn_inner(void) { return qn_outer(); }'
compile client/outer.c '#include "inner.h"' 'int qn_outer(void) { return outer(); }'
compile client/state.c 'static int count;' 'int qn_state_count(void) { return ++count; }' \
    'static int begun = 1;' 'int qn_state_begun(void) { return begun++; }' \
    'int qn_state_local(void) { static int local; return ++local; }' 'int qn_state_shared = 2;' \
    'static _Thread_local int own;' 'int qn_state_own(void) { return ++own; }' \
    'static int excused;' 'int qn_state_excused(void) { return ++excused; }'
{
    echo "call base/excused.c client/batch.c"
    echo "call base/mended.c client/batch.c"
    echo "circle client/last.c client/first.c"
    echo "circle client/batch.c base/str.c"
    echo "data client/state.c excused"
    echo "data client/state.c mended"
    echo "name client/named.c qn_known_"
    echo "name client/named.c qn_gone"
} >"$root/tree/scripts/layer_exceptions.txt"
names check_objects "$root/build" "src/base/up.c: uses qn_batch_add of client/batch.c" \
    "src/broker/sqlite/store/open.c: uses qn_take_one of broker/sqlite/run/take.c" \
    "src/client/left.c: a circle of 2 files" "src/client/named.c: qn_other_thing is not named" \
    "src/client/named.c: helper is not named" "src/client/ops.c: a circle of 2 files" \
    "src/client/inner.c: a circle of 2 files" "src/client/state.c: count is a variable" \
    "src/client/state.c: begun is" "src/client/state.c: local is" "src/client/state.c: own is" \
    "src/client/state.c: qn_state_shared is" \
    "layer_exceptions.txt:2: call base/mended.c" "layer_exceptions.txt:4: circle client/batch.c" \
    "layer_exceptions.txt:6: data client/state.c mended" \
    "layer_exceptions.txt:8: name client/named.c qn_gone"
if grep -q -e src/base/excused.c -e first.c: -e qn_known_thing -e qn_named_thing -e "excused is" \
    -e src/base/constant.c -e src/cli/ "$root/said"; then
    fail "check_objects refuses what is right"
fi
rm -rf "$root/build"
mkdir "$root/build"
names check_objects "$root/build" "no objects"

# Lengths: a function of 71 lines, one of 70 that is fine, a file of 501, a line of 101 columns, six
# parameters, an #if in a function, a folder of 25 files.
clean_tree
{
    printf 'int long_one(void)\n{\n'
    lines 68 '    call();'
    printf '}\n\nint right_one(void)\n{\n'
    lines 67 '    call();'
    printf '}\n'
} >"$root/tree/src/base/long.c"
lines 501 '/* text */' >"$root/tree/src/base/file.h"
printf '\n/* %s */\n' "$(lines 95 x | tr -d '\n')" >"$root/tree/tests/unit/wide.c"
mkdir "$root/tree/docs"
plant src/base/wide_one.c 'int six(int a, int b, int c, int (*d)(int, int), int e, int f)' '{' '}' \
    'int five(int a, int b, int c, int (*d)(int, int), int e)' '{' '}' \
    'int quern_pairs(q_a *a, size_t a_size, q_b *b, size_t count, q_c c, void *user, int *d,' \
    '                int e)' '{' '}' \
    'int quern_six(int a, void *b, int (*d)(int, void *user), int e, int f, int g)' '{' '}'
plant src/base/either.c '#if X' 'int x;' '#endif' 'int f(void)' '{' '#ifdef X' 'return 1;' \
    '#endif' '}'
mkdir "$root/tree/tests/unit/full"
for i in $(seq 25); do
    plant "tests/unit/full/test_$i.c" 'int x;'
done
{
    printf 'local function long_one()\n'
    lines 69 '    call()'
    printf 'end\n\nfunction table.six(a, b, c,\n    d, e, f)\nend\n'
    printf "t['x'] = function(a)\n"
    lines 69 '    call()'
    printf 'end\nlocal function five(a, b, c, d, e)\n    call(function()\n'
    lines 60 '        call()'
    printf '    end)\nend\n'
} >"$root/tree/src/base/long.lua"
{
    printf 'local function noted(a, b, c, d, e, f) -- note\nend\n'
    printf 'local function short(a, b, c, d, e, f) return a end\n'
    printf 'local inner = call(a - 1, function(a, b, -- c\n    d)\n'
    printf "    local text = 'end' -- end\n"
    lines 67 '    if a then call() end'
    printf 'end)\nlocal function five_noted(a, b, c, d, e) -- f, function(a, b, c, d, e, f)\nend\n'
} >"$root/tree/src/base/heads.lua"
printf '# %s\n' "$(lines 99 x | tr -d '\n')" >"$root/tree/CMakeLists.txt"
printf 'set(a b)\n# %s\n' "$(lines 99 x | tr -d '\n')" >"$root/tree/tests/unit/CMakeLists.txt"
{
    printf '%s words\n\n```\n%s words\n```\n' "$(lines 95 x | tr -d '\n')" \
        "$(lines 95 x | tr -d '\n')"
    printf '| a | b |\n|---|---|\n| 1 | `x\\|y` |\n| 1 | 2 | 3 |\n\n'
    printf -- '- list\n\n  | a | b |\n  |---|---|\n  | 1 | `x|y` |\n  | 1 |\n'
} >"$root/tree/docs/page.md"
names check_lengths "src/base/long.c:1: long_one has 71 lines" "src/base/file.h:501:" \
    "tests/unit/wide.c:2: line has 101 columns" "src/base/wide_one.c:2: six has 6 parameters" \
    "src/base/wide_one.c:12: quern_six has 6 parameters" \
    "src/base/long.lua:1: long_one has 71 lines" \
    "src/base/long.lua:73: table.six has 6 parameters" "src/base/long.lua:76: t['x'] has 71 lines" \
    "src/base/heads.lua:1: noted has 6 parameters" "src/base/heads.lua:3: short has 6 parameters" \
    "src/base/heads.lua:4: function has 71 lines" \
    "CMakeLists.txt:1: line has 101 columns" "tests/unit/CMakeLists.txt:2: line has 101 columns" \
    "src/base/either.c:7: f has #ifdef X inside" \
    "tests/unit/full: folder has 25 files" \
    "docs/page.md:1: line has 101 columns" "docs/page.md:9: row has 3 columns, the table 2" \
    "docs/page.md:15: row has 3 columns" "docs/page.md:16: row has 1 columns"
if grep -q -e five -e quern_pairs -e page.md:4 -e page.md:8 "$root/said"; then
    fail "check_lengths refuses what is right"
fi
if grep -q right_one "$root/said"; then
    fail "check_lengths refuses a function of 70 lines"
fi

# Words: in code only where the rule is about code, and everywhere where it is about words. The
# beginning of a source and the guard of a header.
clean_tree
# source FILE LINE... - plants it with its title in line 2.
source()
{
    name=$1
    shift
    plant "$name" "/* $(basename "$name") - text. */" "$@"
}
plant src/base/other.c '/* another.c - something. */'
plant src/base/other.h '/* other.h - something. */' '#ifndef QN_OTHER_H'
plant src/base/right.h '/* right.h - something. */' '#ifndef QN_BASE_RIGHT_H' \
    '#define QN_BASE_RIGHT_H'
plant src/base/half.h '/* half.h - something. */' '#ifndef QN_BASE_HALF_H' '#define QN_BASE_HALVE_H'
plant include/quern/other.h '/* other.h - something. */' '#ifndef QUERN_OTHER_H' \
    '#define QUERN_OTHER_H'
plant include/quern/another.hpp '/* quern/another.hpp - text. */' '#ifndef QUERN_ANOTHER_H' \
    '#define QUERN_ANOTHER_H'
printf 'return 1\n' >"$root/tree/src/base/other.lua"
source src/client/inherited.c 'void f(void) { pipe(fds); pipe2(fds, 0); }'
source src/base/heap.c 'void *block = malloc(3);'
source src/client/speak.c 'void f(void) { printf("x"); }' '/* printf("fine here") */'
source src/client/quit.c 'void f(void) { abort(); }'
source src/base/line.c 'void f(void) { getline(&a, &b, c); }'
source src/client/mask.c 'void f(void) { umask(077); }'
source src/client/shared.c 'void f(void) { gmtime(&now); }' 'void g(void) { gmtime_r(&now, &tm); }'
source src/client/date.c 'void f(void) { timespec_get(&now, TIME_UTC); }'
source src/base/unsafe.c 'void f(void) { atoll(text); }'
source src/base/fnv.c 'h = h * 0x100000001B3;'
source src/client/key.c 'const char *key = "asynq:workers";'
printf '%s\n' '-- key.lua - text.' "call('PUBLISH', 'asynq:cancel')" "error('asynq: a text')" \
    >"$root/tree/src/base/key.lua"
source src/client/asks.c 'const char *home = getenv("HOME");'
plant tests/unit/test_nap.c 'void f(void) { usleep(10); }'
source src/base/slashes.c 'int a; // no'
source src/base/later.c '/* TO''DO: later */'
source src/base/wrong_word.c '/* runs a jo''b */'
source src/base/riddle.c '/* Whoever'' wakes it frees it. */'
source src/base/old_word.c '/* waits for what is under'' way */'
mkdir -p "$root/tree/src/broker/redis/run" "$root/tree/docs/bench"
echo 'The lease is pro''longed.' >"$root/tree/docs/page.md"
echo 'The lease was pro''longed.' >"$root/tree/docs/bench/diary.md"
printf '%s\n' '-- riddle.lua - text.' '-- Writes nothing: malloc() is fine here.' \
    '-- a lock that some''body holds' >"$root/tree/src/broker/redis/run/riddle.lua"
source src/base/fine.c 'const char *url = "http://x // malloc(3)";'
echo 'int a;' >"$root/tree/src/base/unlicensed.c"
names check_words "src/base/other.c:2: starts with" "src/base/other.h:3: its guard is" \
    "src/base/half.h:3: its guard is QN_BASE_HALF_H" src/base/key.lua:2: \
    "include/quern/another.hpp:3: its guard is QUERN_ANOTHER_HPP" \
    "include/quern/other.h:2: starts with" "src/base/other.lua:1: starts with" \
    src/client/inherited.c:3: \
    src/base/heap.c:3: src/client/speak.c:3: src/client/quit.c:3: \
    src/base/line.c:3: src/client/mask.c:3: src/client/shared.c:3: src/client/date.c:3: \
    src/base/unsafe.c:3: src/base/fnv.c:3: src/client/key.c:3: \
    src/client/asks.c:3: tests/unit/test_nap.c:2: src/base/slashes.c:3: src/base/later.c:3: \
    src/base/wrong_word.c:3: src/base/unlicensed.c:1: \
    src/base/riddle.c:3: src/broker/redis/run/riddle.lua:3: src/base/old_word.c:3: docs/page.md:1:
if grep -q -e fine.c -e right.h -e key.lua:3: -e quern/other.h:3: -e diary.md -e speak.c:4: \
    -e shared.c:4: -e riddle.lua:1: -e riddle.lua:2: "$root/said"; then
    fail "check_words looks into comments and strings where it should not"
fi

# Scripts for Redis: what is unknown, never used or set for nothing, where the script is whole.
if command -v luacheck >/dev/null; then
    clean_tree
    mkdir -p "$root/tree/src/broker/redis/lua" "$root/tree/src/broker/redis/run"
    printf 'local function greet(name)\n    return name\nend\nlocal function other() end\n' \
        >"$root/tree/src/broker/redis/lua/lib_greet.lua"
    printf -- '-- include: lib_greet.lua\nreturn greet(KEYS[1])\n' \
        >"$root/tree/src/broker/redis/run/fine.lua"
    printf -- '-- include: lib_greet.lua\nother()\nreturn 1\n' \
        >"$root/tree/src/broker/redis/run/other.lua"
    passes check_lua
    printf 'local function left() end\n' >>"$root/tree/src/broker/redis/lua/lib_greet.lua"
    printf 'local x = 1\n' >"$root/tree/src/broker/redis/lua/lib_lost.lua"
    printf -- '-- include: lib_greet.lua\nlocal unused = 1\nreturn gret(KEYS[1])\n' \
        >"$root/tree/src/broker/redis/run/slip.lua"
    printf 'return redis.call(\n' >"$root/tree/src/broker/redis/run/broken.lua"
    names check_lua src/broker/redis/run/slip.lua:2: \
        "src/broker/redis/run/slip.lua:3: accessing undefined" \
        "src/broker/redis/lua/lib_greet.lua:5: unused function 'left'" \
        "src/broker/redis/lua/lib_lost.lua:1: no script includes it" \
        src/broker/redis/run/broken.lua:
    if grep -q -e lib_greet.lua:4: -e fine.lua -e other.lua "$root/said"; then
        fail "check_lua refuses what is right"
    fi
fi

# A tree without sources is not a clean one.
rm -rf "$root/tree/src" "$root/tree/include" "$root/tree/examples" "$root/tree/tests"
for check in check_layers check_lengths check_words; do
    names "$check" "no sources"
done
names check_lua "no scripts"
