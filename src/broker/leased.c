/* SPDX-License-Identifier: MIT */
/* leased.c - a leased run in one block of memory: the struct first, then all that its task holds;
 * and a set of members of a group. */
#include "base/assert.h"
#include "base/memory/alloc.h"
#include "base/memory/slab.h"
#include "broker/block.h"
#include "broker/ops.h"

struct qn_leased *qn_leased_copy(struct qn_slab *slab, const struct qn_leased *leased)
{
    size_t size = sizeof *leased + qn_block_task_size(&leased->task);
    struct qn_leased *copy = qn_slab_alloc(slab, size + 1); /* so that empty blocks lie inside */
    if (copy == NULL) {
        return NULL;
    }
    *copy = *leased;
    char *at = (char *)(copy + 1);
    qn_block_put_task(&at, &copy->task);
    QN_ASSERT(at == (char *)copy + size);
    return copy;
}

void qn_leased_free(struct qn_leased *leased)
{
    qn_slab_free(leased);
}

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
