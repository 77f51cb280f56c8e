#!/bin/sh
# A build without a word about it is hardened and does not name its folder; one for debugging is
# not. The whole release is looked at by scripts/check_hardening, in `make check-full`.
set -eu
. "$QUERN_SOURCE/tests/lib_test.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CFLAGS CXXFLAGS LDFLAGS

export CCACHE_DISABLE=1 # it may hand out objects that were compiled in another folder
cmake -S "$QUERN_SOURCE" -B "$work/usual" -G Ninja -DCMAKE_C_COMPILER="$CC" -DQUERN_TESTS=OFF \
    -DQUERN_EXAMPLES=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$work/log" 2>&1 ||
    fail "configure: $(cat "$work/log")"
commands=$work/usual/compile_commands.json
for flag in -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=3 -ffile-prefix-map; do
    grep -q -e "$flag" "$commands" || fail "the usual build is without $flag"
done
for flag in -z,relro -z,now -z,noexecstack; do
    grep -q -e "$flag" "$work/usual/build.ninja" || fail "the usual build is linked without $flag"
done
object=CMakeFiles/quern_objects.dir/src/base/text/str.c.o
cmake --build "$work/usual" --target "$object" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
if strings -a "$work/usual/$object" | grep -F -e "$QUERN_SOURCE" -e "$work"; then
    fail "an object names the folder of the build"
fi

# What is not hardened is found out.
if grep -q '^CMAKE_BUILD_TYPE:.*=Debug' "$QUERN_BUILD/CMakeCache.txt" &&
    grep -q -e -D_FORTIFY_SOURCE "$QUERN_BUILD/compile_commands.json"; then
    fail "a build for debugging is hardened"
fi
if grep -q -e -fsanitize "$QUERN_BUILD/build.ninja" &&
    "$QUERN_SOURCE/scripts/check_hardening" "$QUERN_BUILD" 2>"$work/log"; then
    fail "check_hardening takes a build with sanitizers for a hardened one"
fi
