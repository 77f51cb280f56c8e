/* SPDX-License-Identifier: MIT */
/* group_rest.c - the groups whose aggregator failed, and how long each rests. */
#include "schedule/group/group_rest.h"

#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/text/hash.h"

enum { DOUBLINGS_MAX = 6 };

static uint64_t key_of(const char *queue, const char *group)
{
    uint64_t hash = qn_hash_part(QN_HASH_START, queue, strlen(queue));
    return qn_hash_part(hash, group, strlen(group));
}

/* `count`: it is not there. */
static size_t find(const struct qn_group_rests *rests, uint64_t group)
{
    size_t i = 0;
    while (i < rests->count && rests->items[i].group != group) {
        i++;
    }
    return i;
}

static size_t make_room(struct qn_group_rests *rests)
{
    if (rests->count < QN_GROUP_RESTS_MAX) {
        return rests->count++;
    }
    size_t first = 0;
    for (size_t i = 1; i < rests->count; i++) {
        first = rests->items[i].until_mono_ns < rests->items[first].until_mono_ns ? i : first;
    }
    return first;
}

int64_t qn_group_rests_fail(struct qn_group_rests *rests, const char *queue, const char *group,
                            int64_t now_mono_ns)
{
    uint64_t key = key_of(queue, group);
    size_t place = find(rests, key);
    if (place == rests->count) {
        place = make_room(rests);
        rests->items[place] = (struct qn_group_rest){.group = key};
    }
    struct qn_group_rest *rest = &rests->items[place];
    uint32_t doublings = rest->failures < DOUBLINGS_MAX ? rest->failures : DOUBLINGS_MAX;
    int64_t ms = (int64_t)QN_GROUP_REST_MS_MIN << doublings;
    ms = ms > QN_GROUP_REST_MS_MAX ? QN_GROUP_REST_MS_MAX : ms;
    rest->failures++;
    rest->until_mono_ns = now_mono_ns + (QN_BUG(GROUP_NOT_RESTED) ? 0 : ms * QN_NS_PER_MS);
    return ms;
}

void qn_group_rests_forget(struct qn_group_rests *rests, const char *queue, const char *group)
{
    size_t place = find(rests, key_of(queue, group));
    if (place < rests->count) {
        rests->items[place] = rests->items[--rests->count];
    }
}

int64_t qn_group_rests_until(const struct qn_group_rests *rests, const char *queue,
                             const char *group, int64_t now_mono_ns)
{
    if (rests->count == 0) {
        return 0;
    }
    size_t place = find(rests, key_of(queue, group));
    bool rested = place == rests->count || rests->items[place].until_mono_ns <= now_mono_ns;
    return rested ? 0 : rests->items[place].until_mono_ns;
}
