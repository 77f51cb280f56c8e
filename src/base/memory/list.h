/* SPDX-License-Identifier: MIT */
/* list.h - intrusive doubly linked list: the node lives in the element. Not thread-safe. */
#ifndef QN_BASE_MEMORY_LIST_H
#define QN_BASE_MEMORY_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct qn_list {
    struct qn_list *next;
    struct qn_list *prev;
};

#define QN_CONTAINER_OF(node, type, member)                                                        \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void qn_list_init(struct qn_list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool qn_list_empty(const struct qn_list *list)
{
    return list->next == list;
}

static inline void qn_list_append(struct qn_list *list, struct qn_list *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

static inline void qn_list_prepend(struct qn_list *list, struct qn_list *node)
{
    node->next = list->next;
    node->prev = list;
    list->next->prev = node;
    list->next = node;
}

/* Leaves the node pointing at itself, so that removing it twice is harmless. */
static inline void qn_list_remove(struct qn_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    qn_list_init(node);
}

/* Takes the first node out; NULL when the list is empty. */
static inline struct qn_list *qn_list_shift(struct qn_list *list)
{
    struct qn_list *node = list->next;
    if (node == list) {
        return NULL;
    }
    qn_list_remove(node);
    return node;
}

#endif
