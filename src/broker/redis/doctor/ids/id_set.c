/* SPDX-License-Identifier: MIT */
/* id_set.c - sets of ids as hashes, so that a check of a million tasks needs 8 MB. Two ids with
 * the same hash only cost a second look. */
#include "broker/redis/doctor/ids/id_set.h"

#include <stdlib.h>

#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "base/text/hash.h"

/* With a last mix. */
static uint64_t hash_of(const char *id, size_t size)
{
    uint64_t hash = qn_hash_bytes(QN_HASH_START, id, size);
    return (hash ^ (hash >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
}

bool qn_id_set_add(struct qn_id_set *set, const char *id, size_t size)
{
    uint64_t *items = qn_vec_grow(set->items, set->count, &set->capacity, sizeof *items);
    if (items == NULL) {
        return false;
    }
    set->items = items;
    set->items[set->count++] = hash_of(id, size);
    return true;
}

static int compare_hashes(const void *left, const void *right)
{
    const uint64_t *a = left;
    const uint64_t *b = right;
    return (*a > *b) - (*a < *b);
}

void qn_id_set_sort(struct qn_id_set *set)
{
    if (set->count > 0) {
        qsort(set->items, set->count, sizeof set->items[0], compare_hashes);
    }
}

bool qn_id_set_has(const struct qn_id_set *set, const char *id, size_t size)
{
    uint64_t hash = hash_of(id, size);
    return set->count > 0 &&
           bsearch(&hash, set->items, set->count, sizeof set->items[0], compare_hashes) != NULL;
}

bool qn_id_set_twins(const struct qn_id_set *set, struct qn_id_set *ret_twins)
{
    struct qn_id_set twins = {0};
    for (size_t i = 1; i < set->count; i++) {
        uint64_t item = set->items[i];
        if (item != set->items[i - 1] ||
            (twins.count > 0 && twins.items[twins.count - 1] == item)) {
            continue;
        }
        if (!qn_id_set_add(&twins, "", 0)) {
            qn_id_set_finish(&twins);
            return false;
        }
        twins.items[twins.count - 1] = item;
    }
    *ret_twins = twins;
    return true;
}

void qn_id_set_finish(struct qn_id_set *set)
{
    qn_free(set->items);
    *set = (struct qn_id_set){0};
}
