/* SPDX-License-Identifier: MIT */
/* task_list.h - the inside of a list of tasks. */
#ifndef QN_INSPECT_TASK_LIST_H
#define QN_INSPECT_TASK_LIST_H

#include "quern/inspector.h"

struct quern_task_list {
    quern_task_info **items;
    size_t count;
    size_t capacity;
    bool no_memory;
    /* Of a search. */
    char *cursor; /* NULL: it is over */
    uint64_t searched;
    uint64_t total;
};

/* Adds a copy. False: memory is out, which it notes. For brokers: user is the list. */
bool qn_task_list_add(const quern_task_info *info, void *user);

#endif
