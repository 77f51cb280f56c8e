/* SPDX-License-Identifier: MIT */
/* set.c - a set of members of a group: a block of memory, and a leased run for each member. */
#include "base/assert.h"
#include "base/memory/alloc.h"
#include "broker/block.h"
#include "broker/ops.h"

struct qn_group_set *qn_group_set_new(const struct qn_group_set *terms, size_t capacity)
{
    size_t size = sizeof *terms + capacity * sizeof *terms->members;
    size += qn_block_text_size(terms->queue) + qn_block_text_size(terms->group);
    size += qn_block_text_size(terms->name);
    struct qn_group_set *set = qn_alloc_zero(1, size);
    if (set == NULL) {
        return NULL;
    }
    *set = *terms;
    set->members = (struct qn_leased **)(void *)(set + 1);
    set->count = 0;
    char *at = (char *)(set->members + capacity);
    set->queue = qn_block_put_text(&at, terms->queue);
    set->group = qn_block_put_text(&at, terms->group);
    set->name = qn_block_put_text(&at, terms->name);
    QN_ASSERT(at == (char *)set + size);
    return set;
}

void qn_group_set_free(struct qn_group_set *set)
{
    if (set == NULL) {
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        qn_leased_free(set->members[i]);
    }
    qn_free(set);
}
