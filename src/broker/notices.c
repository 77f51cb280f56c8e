/* SPDX-License-Identifier: MIT */
/* notices.c - marks of tasks that have changed. */
#include "broker/notices.h"

#include <string.h>

#include "base/text/hash.h"

static const char separator[] = "}:t:";

void qn_notices_clear(struct qn_notices *notices)
{
    notices->all = false;
    notices->count = 0;
}

bool qn_notices_empty(const struct qn_notices *notices)
{
    return !notices->all && notices->count == 0;
}

void qn_notices_add(struct qn_notices *notices, uint64_t task)
{
    if (notices->count < QN_NOTICES_MAX) {
        notices->tasks[notices->count++] = task;
    } else {
        notices->all = true;
    }
}

uint64_t qn_notices_task(const char *queue, const char *id)
{
    uint64_t hash = qn_hash_bytes(QN_HASH_START, queue, strlen(queue));
    hash = qn_hash_bytes(hash, separator, sizeof separator - 1);
    return qn_hash_bytes(hash, id, strlen(id));
}

uint64_t qn_notices_task_of_name(const char *name, size_t size)
{
    return qn_hash_bytes(QN_HASH_START, name, size);
}
