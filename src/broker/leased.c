/* SPDX-License-Identifier: MIT */
/* leased.c - a leased run in one block of memory: the struct first, then all that its task holds.
 */
#include "base/assert.h"
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
