#!/bin/sh
# libquern exports exactly the symbols of symbols.txt, all of them quern_*, shared or static, and
# needs no library beyond the ones it is made for.
#
# After a deliberate change: nm -D --defined-only build/dev/libquern.so |
#     awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
set -eu
here=$QUERN_SOURCE/tests/abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A sanitizer adds names of its own, and the version of the symbols is a symbol, too.
nm -D --defined-only "$QUERN_LIBRARY" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    grep -v -e '^__asan_' -e '^__odr_asan' -e '^__ubsan_' -e '^__tsan_' | sort >"$work/exported"
if ! diff -u "$here/symbols.txt" "$work/exported"; then
    echo "FAILED: exported symbols differ from tests/abi/symbols.txt (- listed, + exported)" >&2
    exit 1
fi
if grep -v '^quern_[a-z]' "$work/exported"; then
    echo "FAILED: an exported symbol does not start with quern_" >&2
    exit 1
fi

# The archive defines no other name that could be in the way of a program's own.
nm -g --defined-only "$QUERN_ARCHIVE" | awk 'NF == 3 { print $3 }' |
    grep -v -e '^__asan_' -e '^__odr_asan' -e '^__ubsan_' -e '^__tsan_' | sort >"$work/defined"
if ! diff -u "$here/symbols.txt" "$work/defined"; then
    echo "FAILED: libquern.a defines other symbols than tests/abi/symbols.txt" >&2
    exit 1
fi

readelf -d "$QUERN_LIBRARY" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$work/needed"
if grep -v -e '^libsqlite3\.' -e '^libcrypto\.' -e '^libssl\.' \
    -e '^libprotobuf-c\.' -e '^libhiredis\.' -e '^libinih\.' \
    -e '^libc\.' -e '^libm\.' -e '^ld-linux' -e '^libasan\.' -e '^libubsan\.' -e '^libtsan\.' \
    -e '^libgcc_s\.' "$work/needed"; then
    echo "FAILED: libquern needs a library that it should not" >&2
    exit 1
fi
# Before 1.0 the soname and the version of the symbols change with each minor version, then with
# each major one.
version=$(sed -n 's/^#define QUERN_VERSION "\(.*\)"/\1/p' "$QUERN_SOURCE/include/quern/version.h")
soversion=${version%%.*}
if [ "$soversion" = 0 ]; then
    soversion=${version%.*}
fi
readelf -d "$QUERN_LIBRARY" | grep -qF "(SONAME)" &&
    readelf -d "$QUERN_LIBRARY" | grep -qF "[libquern.so.$soversion]" || {
    echo "FAILED: the soname is not libquern.so.$soversion" >&2
    exit 1
}
if nm -D --defined-only "$QUERN_LIBRARY" | grep -e ' quern_' | grep -v "@@QUERN_$soversion\$"; then
    echo "FAILED: a symbol has not the version QUERN_$soversion" >&2
    exit 1
fi
