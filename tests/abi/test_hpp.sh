#!/bin/sh
# quern.hpp keeps its promises as C++17 and as C++20 (hpp.cpp, which the build compiles without a
# warning); each of its parts compiles alone.
set -eu
. "$QUERN_SOURCE/tests/lib_test.sh"
[ -n "$CXX" ] || skip "no C++ compiler"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
for header in "$QUERN_SOURCE"/include/quern/*.hpp; do
    # shellcheck disable=SC2086 # a list of options
    echo "#include \"$header\"" | $CXX -x c++ -std=c++17 $warnings -fsyntax-only \
        -I"$QUERN_SOURCE/include" -
done
for standard in 17 20; do
    "$QUERN_BUILD/tests/abi_hpp_$standard" "$work/$standard.db"
done
