/* SPDX-License-Identifier: MIT */
/* filter.c - decides which tasks match the filter of an operator. */
#include <string.h>

#include "broker/redis/inspect/inspect.h"

static bool type_fits(const char *wanted, const char *type)
{
    size_t size = strlen(wanted);
    if (size > 0 && wanted[size - 1] == '*') {
        return strncmp(type, wanted, size - 1) == 0;
    }
    return strcmp(type, wanted) == 0;
}

static bool holds(const void *data, size_t size, const char *text, size_t text_size)
{
    return text_size == 0 || (size >= text_size && memmem(data, size, text, text_size) != NULL);
}

bool qn_filter_fits(const quern_task_filter *filter, const quern_task_info *info)
{
    const struct qn_task *task = &info->task;
    if (filter->state != 0 && filter->state != (int32_t)task->state) {
        return false;
    }
    if (filter->id != NULL && strcmp(filter->id, task->id) != 0) {
        return false;
    }
    if (filter->type != NULL && !type_fits(filter->type, task->type)) {
        return false;
    }
    if (filter->group != NULL && (task->group == NULL || strcmp(filter->group, task->group) != 0)) {
        return false;
    }
    size_t text_size = filter->text == NULL ? 0 : strlen(filter->text);
    return holds(task->payload, task->payload_size, filter->text, text_size) ||
           holds(info->error, strlen(info->error), filter->text, text_size);
}

/* The tasks of one group of aggregating tasks have a key of their own. */
bool qn_filter_reads(const quern_task_filter *filter)
{
    bool by_group = filter->group != NULL && filter->state != QUERN_TASK_AGGREGATING;
    bool by_text = filter->text != NULL && filter->text[0] != '\0';
    return filter->type != NULL || by_group || by_text;
}
