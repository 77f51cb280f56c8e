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
$CC -std=c11 -fsyntax-only -I"$QUERN_SOURCE/include" "$QUERN_SOURCE/tests/abi/option_sizes.c"
