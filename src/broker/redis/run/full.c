/* SPDX-License-Identifier: MIT */
/* full.c - adds the server's limit to the error that its memory is full.
 *
 * It is requested only when that has happened, as the limit can change at any time. Without
 * permission for INFO, or without a reply, the error stays without it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/redis.h"

#define LINE_START "\nmaxmemory:"
#define SIZE_TEXT_MAX 32

/* 3145728: "3 MB"; 1610612736: "1.5 GB". As Redis, which counts in powers of two. */
static void format_size(uint64_t bytes, char out[SIZE_TEXT_MAX])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    double size = (double)bytes;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        unit++;
    }
    (void)snprintf(out, SIZE_TEXT_MAX, "%.4g %s", size, units[unit]);
}

static uint64_t ask_limit(struct qn_redis *self)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    uint64_t limit = 0;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "INFO");
    qn_pipeline_limit(&pipeline, QN_REPLY_BRIEF_MAX);
    qn_pipeline_text(&pipeline, "memory");
    if (qn_pipeline_run(&pipeline, NULL) == QUERN_OK &&
        qn_pipeline_reply(&pipeline, 0, &reply, NULL) == QUERN_OK) {
        const char *line = strstr(qn_reply_text(reply), LINE_START);
        limit = line == NULL ? 0 : strtoull(line + strlen(LINE_START), NULL, 10);
    }
    qn_pipeline_end(&pipeline);
    return limit;
}

void qn_redis_full_explain(struct qn_redis *self, quern_error *err)
{
    if (err == NULL || err->code != QUERN_E_FULL || strstr(err->text, "(OOM)") == NULL) {
        return;
    }
    char size[SIZE_TEXT_MAX];
    uint64_t limit = ask_limit(self);
    if (limit > 0) {
        format_size(limit, size);
        (void)qn_error_set(err, QUERN_E_FULL, "%s: the server's memory is full (maxmemory %s)",
                           qn_failover_address(&self->failover), size);
    }
}
