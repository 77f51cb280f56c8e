/* SPDX-License-Identifier: MIT */
/* heard.c - see heard.h. Each look makes a new list beside that of the look before; both are in the
 * order of the numbers, so however many records somebody has planted, a look goes along them once.
 */
#include "broker/sqlite/upkeep/heard.h"

#include "base/memory/alloc.h"

void qn_heard_begin(struct qn_heard *heard)
{
    struct qn_heard_list before = heard->before;
    heard->before = heard->now;
    heard->now = before;
    heard->now.count = 0;
    heard->at = 0;
}

static bool reserve(struct qn_heard_list *list)
{
    if (list->count < list->capacity) {
        return true;
    }
    size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
    struct qn_heard_record *records = qn_realloc(list->records, capacity * sizeof list->records[0]);
    if (records == NULL) {
        return false;
    }
    list->records = records;
    list->capacity = capacity;
    return true;
}

const struct qn_heard_record *qn_heard_note(struct qn_heard *heard, int64_t worker_no,
                                            int64_t heartbeat_at_ms, int64_t now_boot_ms)
{
    const struct qn_heard_list *before = &heard->before;
    if (!reserve(&heard->now)) {
        return NULL;
    }
    struct qn_heard_record *record = &heard->now.records[heard->now.count++];
    *record = (struct qn_heard_record){
        .worker_no = worker_no, .heartbeat_at_ms = heartbeat_at_ms, .since_boot_ms = now_boot_ms};
    while (heard->at < before->count && before->records[heard->at].worker_no < worker_no) {
        heard->at++;
    }
    if (heard->at < before->count && before->records[heard->at].worker_no == worker_no) {
        const struct qn_heard_record *last = &before->records[heard->at];
        bool same = last->heartbeat_at_ms == heartbeat_at_ms;
        record->since_boot_ms = same ? last->since_boot_ms : now_boot_ms;
        record->changed = !same || last->changed;
    }
    return record;
}

void qn_heard_finish(struct qn_heard *heard)
{
    qn_free(heard->before.records);
    qn_free(heard->now.records);
    *heard = (struct qn_heard){0};
}
