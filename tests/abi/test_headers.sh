#!/bin/sh
# Every public header compiles alone, as each C since C99 and each C++ since C++11, without a
# warning; and the public structs have the sizes that were released (option_sizes.c).
set -eu
headers=$(cd "$QUERN_SOURCE/include" && ls quern/*.h)
[ -n "$headers" ]

# compile COMPILER LANGUAGE STANDARD HEADER...
compile()
{
    compiler=$1 language=$2 standard=$3
    shift 3
    for header; do
        printf '#include "%s"\ntypedef int not_empty;\n' "$header" |
            $compiler -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Wshadow \
                -Wconversion -Wundef -Werror -fsyntax-only -I"$QUERN_SOURCE/include" - ||
            {
                echo "FAILED: $header as $standard" >&2
                exit 1
            }
    done
}

for standard in c99 c11 c17 c2x; do
    # shellcheck disable=SC2086 # a list of names
    compile "$CC" c "$standard" $headers
done
if [ -n "$CXX" ]; then
    for standard in c++11 c++14 c++17 c++20; do
        # shellcheck disable=SC2086 # a list of names
        compile "$CXX" c++ "$standard" $headers
    done
fi

# A backoff is an initialiser: returned as an outcome, it does not compile.
misuse()
{
    for backoff in DEFAULT ASYNQ "FIXED(500)" "EXPONENTIAL(500, 0)"; do
        text="static quern_retry_policy policy = QUERN_BACKOFF_$backoff;
            int used(void); int used(void) { return policy.kind; }"
        wrong="quern_outcome handler(void); quern_outcome handler(void)
            { return QUERN_BACKOFF_$backoff; }"
        printf '#include "quern/quern.h"\n%s\n' "$text" |
            "$@" -Wall -Wextra -Werror -fsyntax-only -I"$QUERN_SOURCE/include" -
        if printf '#include "quern/quern.h"\n%s\n' "$wrong" |
            "$@" -fsyntax-only -I"$QUERN_SOURCE/include" - 2>/dev/null; then
            echo "FAILED: QUERN_BACKOFF_$backoff compiles as an outcome: $*" >&2
            exit 1
        fi
    done
}

misuse "$CC" -x c -std=c11
[ -z "$CXX" ] || misuse "$CXX" -x c++ -std=c++17
$CC -std=c11 -fsyntax-only -I"$QUERN_SOURCE/include" "$QUERN_SOURCE/tests/abi/option_sizes.c"
