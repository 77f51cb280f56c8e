/* SPDX-License-Identifier: MIT */
/* heartbeat_age.c - see heartbeat_age.h. Each look makes a new list beside that of the look before;
 * both are in the order of the numbers, so even with very many planted records, a scan reads them
 * once. */
#include "broker/sqlite/upkeep/heartbeat_age.h"

#include "base/memory/alloc.h"
#include "base/memory/vec.h"

void qn_heartbeat_age_begin(struct qn_heartbeat_ages *ages)
{
    struct qn_heartbeat_age_list before = ages->before;
    ages->before = ages->now;
    ages->now = before;
    ages->now.count = 0;
    ages->at = 0;
}

const struct qn_heartbeat_age *qn_heartbeat_age_note(struct qn_heartbeat_ages *ages,
                                                     int64_t worker_no, int64_t heartbeat_at_ms,
                                                     int64_t now_boot_ms)
{
    const struct qn_heartbeat_age_list *before = &ages->before;
    struct qn_heartbeat_age_list *now = &ages->now;
    struct qn_heartbeat_age *records =
        qn_vec_grow(now->records, now->count, &now->capacity, sizeof *records);
    if (records == NULL) {
        return NULL;
    }
    now->records = records;
    struct qn_heartbeat_age *record = &records[now->count++];
    *record = (struct qn_heartbeat_age){
        .worker_no = worker_no, .heartbeat_at_ms = heartbeat_at_ms, .since_boot_ms = now_boot_ms};
    while (ages->at < before->count && before->records[ages->at].worker_no < worker_no) {
        ages->at++;
    }
    if (ages->at < before->count && before->records[ages->at].worker_no == worker_no) {
        const struct qn_heartbeat_age *last = &before->records[ages->at];
        bool same = last->heartbeat_at_ms == heartbeat_at_ms;
        record->since_boot_ms = same ? last->since_boot_ms : now_boot_ms;
        record->changed = !same || last->changed;
    }
    return record;
}

void qn_heartbeat_age_finish(struct qn_heartbeat_ages *ages)
{
    qn_free(ages->before.records);
    qn_free(ages->now.records);
    *ages = (struct qn_heartbeat_ages){0};
}
