/* SPDX-License-Identifier: MIT */
/* size.c - how many children a pool has, and how many it is to have.
 *
 * The thread of the pool starts those that are missing, and takes leave of those that are too many
 * (inside/surplus.c), while others run items. */
#include "base/assert.h"
#include "pool/prefork/inside/children.h"
#include "pool/prefork/prefork.h"

void qn_prefork_count(struct qn_prefork *prefork, struct qn_pool_counts *ret_counts)
{
    struct qn_pool_counts counts = {0};
    (void)pthread_mutex_lock(&prefork->mutex);
    for (struct qn_list *node = prefork->children.next; node != &prefork->children;
         node = node->next) {
        const struct qn_prefork_child *child = QN_CONTAINER_OF(node, struct qn_prefork_child, node);
        counts.alive++;
        counts.sleeping += child->is_ready && child->count == 0 ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&prefork->mutex);
    *ret_counts = counts;
}

void qn_prefork_resize(struct qn_prefork *prefork, uint32_t size)
{
    QN_ASSERT(size > 0);
    (void)pthread_mutex_lock(&prefork->mutex);
    prefork->options.size = size;
    qn_children_wake(prefork);
    (void)pthread_mutex_unlock(&prefork->mutex);
}
