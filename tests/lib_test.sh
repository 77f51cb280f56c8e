# SPDX-License-Identifier: MIT
# lib_test.sh - what tests in shell share; sourced.

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

# skip REASON - for CTest, and for the list at the end of scripts/check.
skip()
{
    echo "skipped: $*"
    exit 77
}

# enter_namespace "$@" - runs the test again in a mount namespace of its own, as "$0 inside FOLDER",
# with a temporary folder, and ends as that run did; in that run it does nothing.
enter_namespace()
{
    [ "${1-}" != inside ] || return 0
    folder=$(mktemp -d)
    trap 'rm -rf --one-file-system "$folder"' EXIT
    for flags in -m -rm; do
        if unshare $flags true 2>/dev/null; then
            unshare $flags "$0" inside "$folder"
            exit
        fi
    done
    skip "no mount namespace can be made here"
}

# readme_program FILE - writes README's program.
readme_program()
{
    awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$QUERN_SOURCE/README.md" >"$1"
}
