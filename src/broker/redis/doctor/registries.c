/* SPDX-License-Identifier: MIT */
/* registries.c - the keys that all queues share: reports those that have another type than their
 * own. The check goes on without them: a list of queues that cannot be read lists all of them. */
#include <stdio.h>
#include <string.h>

#include "broker/redis/doctor/doctor.h"
#include "broker/redis/schema/keys.h"

static const struct {
    const char *key;
    const char *type;
} registries[] = {
    {QN_KEY_QUEUES, "set"},    {QN_KEY_SERVERS, "zset"},    {QN_KEY_WORKERS, "zset"},
    {QN_KEY_RECORDS, "hash"},  {QN_KEY_SCHEDULERS, "zset"}, {QN_KEY_SCHEDULES, "set"},
    {QN_KEY_SCHEDULE, "hash"},
};

static quern_status check_type(struct qn_redis_doctor *doctor, size_t index, const char *type,
                               quern_error *err)
{
    char text[128];
    if (strcmp(type, registries[index].type) == 0 || strcmp(type, "none") == 0) {
        return QUERN_OK;
    }
    if (strcmp(registries[index].key, QN_KEY_QUEUES) == 0) {
        doctor->lists_no_queues = true;
    }
    (void)snprintf(text, sizeof text, "%s is a %.32s and must be a %s", registries[index].key, type,
                   registries[index].type);
    const quern_finding finding = {.invariant = "I9", .text = text};
    return qn_redis_findings_keep(&doctor->findings, &finding, err);
}

quern_status qn_redis_registries_check(struct qn_redis_doctor *doctor, quern_error *err)
{
    const size_t count = sizeof registries / sizeof registries[0];
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < count; i++) {
        qn_pipeline_command(&pipeline, "TYPE");
        qn_pipeline_text(&pipeline, registries[i].key);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *reply = NULL;
        status = qn_pipeline_reply(&pipeline, i, &reply, err);
        if (status == QUERN_OK) {
            status = check_type(doctor, i, qn_reply_text(reply), err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}
