#!/bin/sh
# The program in README.md is examples/hello.c, word for word (without its opening comment), and it
# compiles and links as a reader would do it.
set -eu
. "$QUERN_SOURCE/tests/lib_test.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

readme_program "$work/hello.c"
[ -s "$work/hello.c" ] || {
    echo "FAILED: README.md holds no C program" >&2
    exit 1
}
sed -n '/^#include/,$p' "$QUERN_SOURCE/examples/hello.c" | diff -u - "$work/hello.c" || {
    echo "FAILED: README.md and examples/hello.c differ" >&2
    exit 1
}
# shellcheck disable=SC2086 # flags are a list of words
$CC $CFLAGS -std=c11 -Wall -Wextra -Werror -o "$work/hello" "$work/hello.c" \
    -I"$QUERN_SOURCE/include" "$QUERN_LIBRARY"
