#!/bin/sh
# An installed quern can be used: by pkg-config with the shared and the static library, and by
# CMake's find_package, from C and C++. Installs below a temporary directory, then moves it, since
# nothing installed may know where it was built.
set -eu
. "$QUERN_SOURCE/tests/lib_test.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=$QUERN_SOURCE/tests/package/program.c
handlers=$QUERN_SOURCE/examples/handlers.c

DESTDIR=$work/stage cmake --install "$QUERN_BUILD" --prefix /opt/quern >"$work/log" ||
    fail "install: $(cat "$work/log")"
mv "$work/stage/opt/quern" "$work/prefix"
prefix=$work/prefix
if grep -rlF -e "$QUERN_SOURCE" -e "$work/stage" "$prefix/include" "$prefix"/lib*/pkgconfig \
    "$prefix"/lib/cmake "$prefix"/lib/*/cmake 2>/dev/null; then
    fail "these files name the folder of the build"
fi

libraries=$(dirname "$(find "$prefix" -name libquern.so)")
PKG_CONFIG_PATH=$libraries/pkgconfig
LD_LIBRARY_PATH=$libraries
export PKG_CONFIG_PATH LD_LIBRARY_PATH
[ "$(pkg-config --modversion quern)" = "$("$prefix/bin/quern" --version | sed 's/.* //')" ] ||
    fail "pkg-config and the program name different versions"

# Bash finds it there by the name of the program, and it completes a verb.
bash -euc '. "$1"; complete -p quern >&2
    COMP_WORDS=(quern enq) COMP_CWORD=1; _quern; [[ ${COMPREPLY[*]} == enqueue ]]' \
    - "$prefix/share/bash-completion/completions/quern" 2>"$work/log" ||
    fail "bash completion: $(cat "$work/log")"
for file in zsh/site-functions/_quern fish/vendor_completions.d/quern.fish; do
    grep -q enqueue "$prefix/share/$file" || fail "$file: not as it should be"
done

# runs NAME - the program does its task, on a database of its own.
runs()
{
    "$work/$1" "$work/$1.db" >"$work/said" || fail "$1 does not run"
    [ "$(cat "$work/said")" = 1 ] || fail "$1 says: $(cat "$work/said")"
}

# serves OBJECT [NEEDED] - the installed program runs tasks by the handlers of this shared object,
# also if it needs libquern.so.
serves()
{
    said=$(objdump -p "$work/$1" | grep -c 'NEEDED *libquern') || true
    [ "$said" = "${2-0}" ] || fail "$1: needs libquern $said times"
    served="$prefix/bin/quern --broker $work/served.db"
    rm -rf "$work"/served.db*
    { $served enqueue greet World --id a --retention 1h &&
        $served enqueue divide '6 0' --id b --retry-max never; } >"$work/log" 2>&1 ||
        fail "enqueue: $(cat "$work/log")"
    code=0
    ASAN_OPTIONS=detect_odr_violation=0 $served work --drain --pool prefork \
        --handlers "$work/$1" >"$work/log" 2>&1 || code=$?
    [ "$code" = 3 ] || fail "work --handlers $1: $code: $(cat "$work/log")"
    [ "$($served task inspect a --result)" = "hello, World" ] ||
        fail "$1: greet: $(cat "$work/log")"
    $served task inspect b | grep -q SIGFPE ||
        fail "$1: divide: $(cat "$work/log")"
}

# shellcheck disable=SC2046,SC2086 # flags are lists of words
{
    $CC $CFLAGS -shared -fPIC -o "$work/handlers.so" "$handlers" $(pkg-config --cflags quern)
    serves handlers.so
    $CC $CFLAGS -shared -fPIC -Wl,--no-as-needed -o "$work/linked.so" "$handlers" \
        $(pkg-config --cflags --libs quern)
    serves linked.so 1
    $CC $CFLAGS -o "$work/shared" "$program" $(pkg-config --cflags --libs quern)
    runs shared
    # All of quern from the archive, its libraries as the system has them.
    $CC $CFLAGS -o "$work/static" "$program" $(pkg-config --cflags quern) \
        $(pkg-config --static --libs quern | sed "s|-lquern|$libraries/libquern.a|")
    runs static
    # Functions of a program may be named like ours inside.
    printf 'int qn_alloc;\nvoid qn_free(void);\nvoid qn_free(void)\n{\n    __builtin_trap();\n}\n' \
        >"$work/own.c"
    $CC $CFLAGS -o "$work/own" "$program" "$work/own.c" $(pkg-config --cflags quern) \
        $(pkg-config --static --libs quern | sed "s|-lquern|$libraries/libquern.a|")
    runs own
    if ldd "$work/static" | grep -q libquern; then
        fail "the static program needs libquern.so"
    fi
    if [ -n "$CXX" ]; then
        $CXX -x c++ $CFLAGS -o "$work/cxx" "$program" -x none $(pkg-config --cflags --libs quern)
        runs cxx
    fi
}

if [ -n "$CXX" ]; then
    cmake -S "$QUERN_SOURCE/tests/package" -B "$work/cmake" -G Ninja \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
        -DCMAKE_C_FLAGS="$CFLAGS" -DCMAKE_CXX_FLAGS="$CFLAGS" -DHANDLERS="$handlers" \
        >"$work/log" 2>&1 &&
        cmake --build "$work/cmake" >>"$work/log" 2>&1 || fail "find_package: $(cat "$work/log")"
    for name in shared_c static_c shared_cxx; do
        runs "cmake/$name"
    done
    serves cmake/handlers.so
    serves cmake/linked_handlers.so 1
fi

# As a part of another project: the same name for the library, and nothing else is built.
mkdir "$work/whole"
cat >"$work/whole/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(whole LANGUAGES C)
add_subdirectory($QUERN_SOURCE part)
add_executable(program $program)
target_link_libraries(program PRIVATE quern::quern)
END
cmake -S "$work/whole" -B "$work/parts" -G Ninja -DCMAKE_C_COMPILER="$CC" >"$work/log" 2>&1 ||
    fail "add_subdirectory: $(cat "$work/log")"
if grep -oE 'part/(tests|examples)/[^ ]*\.o:' "$work/parts/build.ninja" | head -n 3 | grep .; then
    fail "add_subdirectory builds what is quern's own"
fi
grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$work/parts/CMakeCache.txt" ||
    fail "add_subdirectory changes the build type of the project"
