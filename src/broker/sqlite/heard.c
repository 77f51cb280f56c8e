/* SPDX-License-Identifier: MIT */
/* heard.c - see heard.h. A short list, in no order: workers of other hosts. */
#include "broker/sqlite/heard.h"

#include "base/alloc.h"

void qn_heard_begin(struct qn_heard *heard)
{
    size_t kept = 0;
    for (size_t i = 0; i < heard->count; i++) {
        if (heard->records[i].pass == heard->pass) {
            heard->records[kept++] = heard->records[i];
        }
    }
    heard->count = kept;
    heard->pass++;
}

static struct qn_heard_record *find(struct qn_heard *heard, int64_t worker_no)
{
    for (size_t i = 0; i < heard->count; i++) {
        if (heard->records[i].worker_no == worker_no) {
            return &heard->records[i];
        }
    }
    return NULL;
}

static bool reserve(struct qn_heard *heard)
{
    if (heard->count < heard->capacity) {
        return true;
    }
    size_t capacity = heard->capacity == 0 ? 8 : heard->capacity * 2;
    struct qn_heard_record *records =
        qn_realloc(heard->records, capacity * sizeof heard->records[0]);
    if (records == NULL) {
        return false;
    }
    heard->records = records;
    heard->capacity = capacity;
    return true;
}

bool qn_heard_note(struct qn_heard *heard, int64_t worker_no, int64_t heartbeat_at_ms,
                   int64_t now_boot_ms, int64_t *ret_age_ms)
{
    struct qn_heard_record *record = find(heard, worker_no);
    *ret_age_ms = 0;
    if (record == NULL) {
        if (!reserve(heard)) {
            return false;
        }
        record = &heard->records[heard->count++];
        *record = (struct qn_heard_record){.worker_no = worker_no,
                                           .heartbeat_at_ms = heartbeat_at_ms,
                                           .since_boot_ms = now_boot_ms};
    }
    if (record->heartbeat_at_ms != heartbeat_at_ms) {
        record->heartbeat_at_ms = heartbeat_at_ms;
        record->since_boot_ms = now_boot_ms;
    }
    record->pass = heard->pass;
    *ret_age_ms = now_boot_ms - record->since_boot_ms;
    return true;
}

void qn_heard_finish(struct qn_heard *heard)
{
    qn_free(heard->records);
    *heard = (struct qn_heard){0};
}
