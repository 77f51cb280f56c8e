/* SPDX-License-Identifier: MIT */
/* server.c - reports settings of the server that endanger tasks, and notes about it. Facts that the
 * user may not read are left out. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/str.h"
#include "broker/redis/doctor/doctor.h"

#define TEXT_SIZE 400
#define LISTPACK_VALUE_ADVISED 1024

/* --- From server_info ------------------------------------------------------------------------ */

struct checking {
    struct qn_redis_doctor *doctor;
    quern_error *err;
    quern_status status;
};

static void keep(struct checking *checking, const char *invariant, const char *text)
{
    if (checking->status == QUERN_OK) {
        const quern_finding finding = {.invariant = invariant, .text = text};
        checking->status =
            qn_redis_findings_keep(&checking->doctor->findings, &finding, checking->err);
    }
}

static void check_info(const char *name, const char *text, void *user)
{
    struct checking *checking = user;
    char line[TEXT_SIZE];
    if (qn_str_starts_with(name, "warning_")) {
        keep(checking, "server", text);
    } else if (strcmp(name, "durability") == 0) {
        (void)snprintf(line, sizeof line, "durability %s", text);
        keep(checking, qn_str_starts_with(text, "D0") ? "server" : "note", line);
    } else if (strcmp(name, "memory_policy") == 0 && strcmp(text, "noeviction") != 0) {
        (void)snprintf(line, sizeof line,
                       "maxmemory-policy is %s: set it to noeviction, before a limit is set", text);
        keep(checking, "note", line);
    }
}

/* --- The server --------------------------------------------------------------------------------
 * */

static bool is_local(const struct qn_endpoint *endpoint)
{
    return endpoint->peer.host[0] == '\0' || strcmp(endpoint->peer.host, "localhost") == 0 ||
           strcmp(endpoint->peer.host, "::1") == 0 ||
           qn_str_starts_with(endpoint->peer.host, "127.");
}

static void check_password(struct checking *checking)
{
    struct qn_endpoint *endpoint = qn_failover_current(&checking->doctor->self->failover).endpoint;
    if (endpoint->password[0] == '\0' && endpoint->peer.host[0] != '\0') {
        keep(checking, is_local(endpoint) ? "note" : "server",
             "the server requires no password: every client can change tasks");
    }
    qn_endpoint_unref(endpoint);
}

static void check_small_value(struct checking *checking, const char *name, int64_t value)
{
    char text[TEXT_SIZE];
    if (value < LISTPACK_VALUE_ADVISED) {
        (void)snprintf(text, sizeof text,
                       "%s is %lld; with %d a small task takes some 40 %% less memory", name,
                       (long long)value, LISTPACK_VALUE_ADVISED);
        keep(checking, "note", text);
    }
}

static quern_status check_listpack(struct checking *checking, quern_error *err)
{
    /* The name since Redis 7.0, and the one before, which the newer servers know, too. */
    static const char *const names[] = {"hash-max-listpack-value", "hash-max-ziplist-value"};
    const size_t count = sizeof names / sizeof *names;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, checking->doctor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < count; i++) {
        qn_pipeline_command(&pipeline, "CONFIG");
        qn_pipeline_text(&pipeline, "GET");
        qn_pipeline_text(&pipeline, names[i]);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *reply;
        if (qn_pipeline_reply(&pipeline, i, &reply, NULL) == QUERN_OK && reply->count > 0) {
            check_small_value(checking, names[i],
                              qn_reply_int(qn_reply_at(reply, 1), LISTPACK_VALUE_ADVISED));
            break;
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_server_check(struct qn_redis_doctor *doctor, quern_error *err)
{
    struct checking checking = {.doctor = doctor, .err = err};
    quern_status status = qn_redis_server_info(&doctor->self->base, check_info, &checking, err);
    if (status == QUERN_OK) {
        check_password(&checking);
        status = check_listpack(&checking, err);
    }
    return status == QUERN_OK ? checking.status : status;
}
