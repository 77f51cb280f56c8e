/* SPDX-License-Identifier: MIT */
/* prefetch.c - a small table of types and the mean length of their runs.
 *
 * Open addressing; nothing is ever removed, so a probe ends at the first free place. Out of memory
 * or out of places a type is simply not measured, and then not prefetched. */
#include "worker/fetch/prefetch.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/hash.h"
#include "base/text/str.h"
#include "task/limits.h"

enum { FULL_AT = QN_PREFETCH_TYPES_MAX * 3 / 4, GLIDE = 32 };

void qn_prefetch_set_slots(struct qn_prefetch *prefetch, uint32_t slots)
{
    prefetch->ahead_max = slots < QN_PREFETCH_MAX ? slots : QN_PREFETCH_MAX;
}

void qn_prefetch_finish(struct qn_prefetch *prefetch)
{
    for (size_t i = 0; i < QN_PREFETCH_TYPES_MAX; i++) {
        qn_free(prefetch->paces[i].type);
    }
}

/* Types are short and not chosen by an attacker who gains from collisions. */
static size_t first_place(const char *type)
{
    return (size_t)qn_hash_bytes(QN_HASH_START, type, strlen(type)) % QN_PREFETCH_TYPES_MAX;
}

/* Where the type is, or where it would be: there is always a free place. */
static size_t find_place(const struct qn_prefetch *prefetch, const char *type)
{
    size_t place = first_place(type);
    while (prefetch->paces[place].type != NULL && strcmp(prefetch->paces[place].type, type) != 0) {
        place = (place + 1) % QN_PREFETCH_TYPES_MAX;
    }
    return place;
}

void qn_prefetch_measure(struct qn_prefetch *prefetch, const char *type, int64_t run_ns)
{
    struct qn_type_pace *pace = &prefetch->paces[find_place(prefetch, type)];
    if (pace->type == NULL) {
        if (prefetch->type_count == FULL_AT) {
            return;
        }
        pace->type = qn_str_dup(type);
        if (pace->type == NULL) {
            return;
        }
        prefetch->type_count++;
    }
    pace->runs++;
    int64_t weight = pace->runs < GLIDE ? (int64_t)pace->runs : GLIDE;
    pace->mean_ns += (run_ns - pace->mean_ns) / weight;
}

static bool is_short(const struct qn_type_pace *pace)
{
    return pace->type != NULL && pace->runs >= QN_PREFETCH_SAMPLES_MIN &&
           pace->mean_ns <= QN_PREFETCH_MEAN_NS_MAX;
}

bool qn_prefetch_is_short(const struct qn_prefetch *prefetch, const char *type)
{
    return is_short(&prefetch->paces[find_place(prefetch, type)]);
}

uint32_t qn_prefetch_ahead(const struct qn_prefetch *prefetch, const char *type,
                           int32_t prefetch_max)
{
    if (prefetch_max < 0) {
        return 0;
    }
    if (prefetch_max > 0) {
        return (uint32_t)prefetch_max;
    }
    const struct qn_type_pace *pace = &prefetch->paces[find_place(prefetch, type)];
    if (!is_short(pace)) {
        return 0;
    }
    /* One after the other, as if there were a single CPU. */
    int64_t in_time = QN_PREFETCH_DEEP_NS / (pace->mean_ns + 1);
    int64_t deep = (int64_t)prefetch->ahead_max * QN_PREFETCH_DEEP;
    deep = deep > QN_PREFETCH_MAX ? deep : QN_PREFETCH_MAX; /* few slots need full batches, too */
    deep = deep < in_time ? deep : in_time;
    return deep > prefetch->ahead_max ? (uint32_t)deep : prefetch->ahead_max;
}
