#!/bin/sh
# quern.hpp keeps its promises as C++17 and as C++20, without a warning; each of its parts compiles
# alone (hpp.cpp).
set -eu
if [ -z "$CXX" ]; then
    echo "no C++ compiler"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
for header in "$QUERN_SOURCE"/include/quern/*.hpp; do
    # shellcheck disable=SC2086 # a list of options
    echo "#include \"$header\"" | $CXX -x c++ -std=c++17 $warnings -fsyntax-only \
        -I"$QUERN_SOURCE/include" -
done
for standard in c++17 c++20; do
    # shellcheck disable=SC2086 # lists of options
    $CXX "-std=$standard" $warnings $CFLAGS -I"$QUERN_SOURCE/include" \
        "$QUERN_SOURCE/tests/abi/hpp.cpp" -o "$work/hpp" "$QUERN_LIBRARY" -pthread \
        "-Wl,-rpath,$(dirname "$QUERN_LIBRARY")"
    "$work/hpp" "$work/$standard.db"
done
