/* SPDX-License-Identifier: MIT */
/* short_id.c - how much of a UUID is enough.
 *
 * Our ids (version 7) begin with 12 digits of the time in milliseconds and 3 of a counter. Without
 * the counter a task of the same millisecond, stored a moment later, would begin like one that was
 * shown and is done by then. Go's (version 4) are random from the first digit on. */
#include "cli/output/short_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message/id.h"

#define VERSION_AT 14 /* in the text */
#define RANDOM_SIZE QN_ID_SHORT_SIZE_MIN
#define RANDOM_SIZE_SAFE 13

static bool is_uuid(const char *id)
{
    return qn_id_uuid_size(id) == QN_ID_TEXT_SIZE - 1;
}

static int compare(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static size_t size_min(const char *id, bool is_all)
{
    if (id[VERSION_AT] == '7') {
        return QN_SHORT_ID_TIMED_SIZE;
    }
    return is_all ? RANDOM_SIZE : RANDOM_SIZE_SAFE;
}

/* How many characters two ids have in common at the start; 0 for the same id twice, which no size
 * distinguishes. */
static size_t common_size(const char *left, const char *right)
{
    size_t size = 0;
    while (left[size] == right[size] && left[size] != '\0') {
        size++;
    }
    return left[size] == right[size] ? 0 : size;
}

size_t qn_short_id_size(const char **ids, size_t count, bool is_all)
{
    size_t size = 0;
    if (count > 1) {
        qsort(ids, count, sizeof *ids, compare);
    }
    for (size_t i = 0; i < count; i++) {
        if (is_uuid(ids[i])) {
            size_t wanted = size_min(ids[i], is_all);
            size_t common = i > 0 ? common_size(ids[i - 1], ids[i]) : 0;
            wanted = common >= wanted ? common + 1 : wanted;
            size = wanted > size ? wanted : size;
        }
    }
    return size;
}

bool qn_short_id_is_enough(const char *id, size_t size)
{
    return id[VERSION_AT] != '7' || size >= QN_SHORT_ID_TIMED_SIZE;
}

void qn_short_id_cell(struct qn_table *table, const char *id, size_t size)
{
    char text[QN_ID_TEXT_SIZE];
    if (!is_uuid(id) || size >= sizeof text) {
        qn_table_text(table, id);
        return;
    }
    (void)snprintf(text, size + 1, "%s", id);
    qn_table_text(table, text);
}
