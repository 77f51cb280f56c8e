/* SPDX-License-Identifier: MIT */
/* task_list.c - a list of tasks. Each is a snapshot of its own, so one can be taken out. */
#include "inspect/task_list.h"

#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "broker/task_info.h"
#include "quern/search.h"

bool qn_task_list_add(const quern_task_info *info, void *user)
{
    quern_task_list *list = user;
    quern_task_info **items =
        qn_vec_grow(list->items, list->count, &list->capacity, sizeof(quern_task_info *));
    if (items == NULL) {
        list->no_memory = true;
        return false;
    }
    list->items = items;
    quern_task_info *copy = qn_task_info_copy(info);
    if (copy == NULL) {
        list->no_memory = true;
        return false;
    }
    list->items[list->count++] = copy;
    return true;
}

size_t quern_task_list_size(const quern_task_list *list)
{
    return list->count;
}

const quern_task_info *quern_task_list_at(const quern_task_list *list, size_t index)
{
    return index < list->count ? list->items[index] : NULL;
}

void quern_task_list_free(quern_task_list *list)
{
    if (list != NULL) {
        for (size_t i = 0; i < list->count; i++) {
            quern_task_info_free(list->items[i]);
        }
        qn_free(list->items);
        qn_free(list->cursor);
        qn_free(list);
    }
}

const char *quern_task_list_cursor(const quern_task_list *list)
{
    return list->cursor;
}

uint64_t quern_task_list_searched(const quern_task_list *list)
{
    return list->searched;
}

uint64_t quern_task_list_total(const quern_task_list *list)
{
    return list->total;
}
