/* SPDX-License-Identifier: MIT */
/* leased.c - a leased run in one block of memory: the struct first, then all that its task holds;
 * and whether it came too late. */
#include "base/assert.h"
#include "base/bug.h"
#include "base/memory/slab.h"
#include "broker/block.h"
#include "broker/broker.h"

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

static bool is_over(int64_t at_ms, int64_t now_ms)
{
    return at_ms > 0 && at_ms <= now_ms;
}

const char *qn_leased_why_late(const struct qn_leased *leased, int64_t now_ms)
{
    if (is_over(leased->task.deadline_at_ms, now_ms) && !QN_BUG(DEADLINE_IGNORED)) {
        return "deadline exceeded";
    }
    if (is_over(leased->task.start_by_at_ms, now_ms) && !QN_BUG(EXPIRED_RUNS)) {
        return "expired: not started in time";
    }
    return NULL;
}
