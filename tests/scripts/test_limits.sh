#!/bin/sh
# The numbers in the comments of public headers, and those that pages repeat, are the limits of the
# library. Each line of the table: an expression, a file, and its text there with %s for the number.
# Comments are compared without their line breaks.
set -eu
cd "$QUERN_SOURCE"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/table" <<'END'
QN_PAYLOAD_SIZE_MAX >> 20|include/quern/task.h|at most %s MiB, or payload_size_max of the client
QN_PAYLOAD_SIZE_MAX >> 20|include/quern/client.h|0: %s MiB; at most
QN_PAYLOAD_SIZE_LIMIT >> 20|include/quern/client.h|MiB; at most %s MiB
QN_PAYLOAD_SIZE_LIMIT >> 20|include/quern/run.h|QUERN_E_INVALID (more than %s MiB)
QN_NAME_SIZE_MAX|include/quern/task.h|have 1 to %s bytes of valid UTF-8
QN_NAME_SIZE_MAX|include/quern/mux.h|(1 to %s bytes, copied)
QN_NAME_SIZE_MAX + 1|include/quern/client.h|char id[%s];
QN_NAME_SIZE_MAX - 1|include/quern/worker.h|its host name; at most %s bytes
QN_HEADER_COUNT_MAX|include/quern/task.h|at most %s, no two with the same name
QN_NOTE_SIZE_MAX|include/quern/run.h|a note of at most %s bytes of UTF-8
QN_HISTORY_DAYS|include/quern/inspector.h|Fills `days` entries (1 to %s)
QN_ERROR_TEXT_SIZE_MAX|include/quern/mux.hpp|why.size() < %s ? static_cast<int>(why.size()) : %s;
QN_CONCURRENCY_MAX|include/quern/worker.h|runs at a time, 1 to %s; 0: one per CPU
QN_WEIGHT_MAX|include/quern/worker.h|share of starts, 1 to %s; 0: 1
QN_ENQUEUE_MAX / 1000|include/quern/client.h|after the %s 024 tasks around it
QN_CHARGE_WINDOW_MS / 3600000|src/broker/sqlite/schema/schema.sql|after %s h it is forgotten
END

{
    cat <<'END'
#include <stdio.h>
#include "task/limits.h"
#define SHOW(number) printf("%lld\n", (long long)(number));
int main(void) {
END
    sed 's/\([^|]*\)|.*/SHOW(\1)/' "$work/table"
    echo 'return 0; }'
} >"$work/limits.c"
"${CC:-cc}" -std=c11 -Isrc -o "$work/limits" "$work/limits.c"
"$work/limits" >"$work/numbers"

failed=0
while IFS='|' read -r expression file text && read -r number <&3; do
    wanted=$(printf '%s' "$text" | sed "s/%s/$number/g")
    if ! tr '\n' ' ' <"$file" | sed -E 's/ +(\*|--) / /g; s/ +/ /g' | grep -qF -- "$wanted"; then
        echo "FAILED: $file does not have: $wanted ($expression)" >&2
        failed=1
    fi
done <"$work/table" 3<"$work/numbers"
exit $failed
