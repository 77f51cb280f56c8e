/* SPDX-License-Identifier: MIT */
/* refuse.c - says why an operation on the trash was refused. Apart from trash.c, since brokers call
 * it. */
#include "base/error.h"
#include "base/text/plural.h"
#include "broker/trash/trash.h"
#include "task/limits.h"

quern_status qn_trash_refuse_full(const char *queue, struct qn_trash_use use, quern_error *err)
{
    return qn_error_set(
        err, QUERN_E_STATE,
        "the trash of queue %s is full: %llu %s of %d, %llu MiB of %d; empty it, or "
        "delete for good",
        queue, (unsigned long long)use.count, qn_plural(use.count, "task", "tasks"),
        QN_TRASH_SIZE_MAX, (unsigned long long)(use.bytes >> 20), (int)(QN_TRASH_BYTES_MAX >> 20));
}

quern_status qn_trash_refuse(enum qn_trash_result result, const char *queue, const char *id,
                             quern_error *err)
{
    switch (result) {
    case QN_TRASH_DONE:
        return QUERN_OK;
    case QN_TRASH_MISSING:
        break;
    case QN_TRASH_EXISTS:
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot restore task %s: queue %s has a task with this id", id, queue);
    case QN_TRASH_LOCKED:
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot restore task %s: another task holds its unique lock", id);
    case QN_TRASH_FULL:
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot restore task %s: it was archived, and the archive is full", id);
    }
    return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in the trash of queue %s", id, queue);
}
