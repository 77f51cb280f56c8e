/* SPDX-License-Identifier: MIT */
/* surplus.c - takes leave of children that are too many, as of those of an old zygote. */
#include "pool/prefork/inside/surplus.h"

#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/window.h"

static struct qn_prefork_child *child_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct qn_prefork_child, node);
}

static size_t count_staying(struct qn_prefork *prefork)
{
    size_t count = 0;
    for (struct qn_list *node = prefork->children.next; node != &prefork->children;
         node = node->next) {
        count += child_of(node)->retiring ? 0 : 1;
    }
    return count;
}

/* Up to `count` of them; returns how many more there are to be. */
static size_t retire(struct qn_prefork *prefork, size_t count, bool busy)
{
    for (struct qn_list *node = prefork->children.next; node != &prefork->children && count > 0;
         node = node->next) {
        struct qn_prefork_child *child = child_of(node);
        if (!child->retiring && (busy || child->count == 0)) {
            qn_window_take_all(child);
            qn_children_retire(child);
            count--;
        }
    }
    return count;
}

void qn_surplus_retire(struct qn_prefork *prefork)
{
    size_t count = prefork->live > prefork->options.size ? count_staying(prefork) : 0;
    if (count > prefork->options.size) {
        size_t left = retire(prefork, count - prefork->options.size, false);
        (void)retire(prefork, left, true);
    }
}
