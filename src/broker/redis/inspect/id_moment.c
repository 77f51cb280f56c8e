/* SPDX-License-Identifier: MIT */
/* id_moment.c - the moment in an id: a UUIDv7 begins with 48 bits of milliseconds. */
#include "broker/redis/inspect/id_moment.h"

#include <string.h>

#include "base/text/number.h"

static int64_t hex_value(const char *text, size_t count)
{
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = text[i] == '\0' ? NULL : strchr(digits, text[i]);
        if (digit == NULL) {
            return 0;
        }
        value = value * 16 + (digit - digits);
    }
    return value;
}

int64_t qn_id_moment_ms(const struct qn_task_entry *entry)
{
    if (entry->id_size != 36 || entry->id[8] != '-' || entry->id[13] != '-' ||
        entry->id[14] != '7') {
        return 0;
    }
    int64_t high = hex_value(entry->id, 8);
    return high == 0 ? 0 : qn_moment_ms_of(high << 16 | hex_value(entry->id + 9, 4));
}
