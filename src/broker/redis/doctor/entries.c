/* SPDX-License-Identifier: MIT */
/* entries.c - the checks of the entries of schedulers in a queue (doctor_entries.lua): definitions
 * and rows belong together, definitions can be read, and schedulers find the queue. */
#include <stdio.h>
#include <string.h>

#include "broker/redis/doctor/doctor.h"
#include "broker/redis/doctor/doctor_entries_lua.h"
#include "broker/redis/schedule/definition.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schema/keys.h"

#define FINDING_ITEMS 4
#define TEXT_SIZE 400

struct check {
    struct qn_redis_doctor *doctor;
    const char *queue;
    int64_t count; /* definitions */
    bool is_repaired;
    quern_status status;
    quern_error *err;
};

static quern_status keep(struct check *check, const char *invariant, const char *name,
                         const char *text, bool repaired)
{
    char whole[TEXT_SIZE];
    if (name[0] != '\0') {
        (void)snprintf(whole, sizeof whole, "entry %.128s: %s", name, text);
        text = whole;
    }
    const quern_finding finding = {
        .invariant = invariant, .queue = check->queue, .text = text, .repaired = repaired};
    check->is_repaired = check->is_repaired || repaired;
    return qn_redis_findings_keep(&check->doctor->findings, &finding, check->err);
}

static quern_status check_rows(struct check *check)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, check->doctor->self, QN_CHANNEL_REST,
                   check->doctor->repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_doctor_entries, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, check->queue);
    qn_pipeline_text(&pipeline, check->doctor->repair ? "1" : "0");
    quern_status status = qn_pipeline_ask(&pipeline, &reply, check->err);
    if (status == QUERN_OK) {
        check->count = qn_reply_int(qn_reply_at(reply, 0), 0);
    }
    for (size_t i = 1; status == QUERN_OK && i + FINDING_ITEMS <= reply->count;
         i += FINDING_ITEMS) {
        status =
            keep(check, qn_reply_text(qn_reply_at(reply, i + 1)),
                 qn_reply_text(qn_reply_at(reply, i)), qn_reply_text(qn_reply_at(reply, i + 2)),
                 qn_reply_int(qn_reply_at(reply, i + 3), 0) == 1);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* Rows are the script's concern. */
static bool check_definition(const struct qn_schedule_entry *entry, void *user)
{
    struct check *check = user;
    if (entry->fault != NULL && strcmp(entry->fault, QN_FAULT_DEFINITION) == 0) {
        check->status =
            keep(check, "I10", entry->name,
                 "its definition cannot be read: remove the entry, or add it again", false);
    }
    return check->status == QUERN_OK;
}

/* Schedulers find a queue only by the set of those that have entries. */
static quern_status check_listed(struct check *check)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    bool repair = check->doctor->repair;
    qn_redis_begin(&pipeline, check->doctor->self, QN_CHANNEL_REST,
                   repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "SISMEMBER");
    qn_pipeline_text(&pipeline, QN_KEY_SCHEDULES);
    qn_pipeline_text(&pipeline, check->queue);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, check->err);
    bool is_missing = status == QUERN_OK && qn_reply_int(reply, 1) == 0;
    if (is_missing && repair) {
        qn_pipeline_command(&pipeline, "SADD");
        qn_pipeline_text(&pipeline, QN_KEY_SCHEDULES);
        qn_pipeline_text(&pipeline, check->queue);
        status = qn_pipeline_ask(&pipeline, &reply, check->err);
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && is_missing) {
        status = keep(check, "I10", "", "it has entries, but is not in " QN_KEY_SCHEDULES, repair);
    }
    /* A key of another type is a finding of its own (registries.c). */
    return status == QUERN_E_CORRUPT ? QUERN_OK : status;
}

quern_status qn_redis_entries_check(struct qn_redis_doctor *doctor,
                                    const struct qn_checked_queue *queue, quern_error *err)
{
    if (!queue->has_entries) {
        return QUERN_OK;
    }
    struct check check = {.doctor = doctor, .queue = queue->name, .err = err};
    const struct qn_entry_filter filter = {.queue = queue->name};
    quern_status status = check_rows(&check);
    if (status == QUERN_OK && check.count > 0) {
        status = check_listed(&check);
    }
    if (status == QUERN_OK) {
        status =
            qn_redis_schedule_list(&doctor->self->base, &filter, check_definition, &check, err);
        status = status == QUERN_OK ? check.status : status;
    }
    if (check.is_repaired) {
        qn_schedule_changed(doctor->self);
    }
    return status;
}
