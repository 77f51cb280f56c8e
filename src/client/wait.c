/* SPDX-License-Identifier: MIT */
/* wait.c - looks a task up, and waits until it is over.
 *
 * No broker announces the end of a single task, so the wait is a poll: at once, then after 1 ms, 2
 * ms, 4 ms and so on up to POLL_MS_MAX, each of which reads one task by its id. Nothing is held
 * meanwhile. Once it was seen, only its queue is read. A task that is over and was not kept cannot
 * be told from one that never was: only if this wait has seen it before does it know better, and
 * says so in the text. A broker that is away for a moment costs some polls, no more. */
#include <poll.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/find.h"
#include "client/client.h"

#define POLL_MS_MAX 50

static quern_status enter(quern_client *client, const char *id, quern_task_info **ret_info,
                          quern_error *err)
{
    quern_status status = qn_client_enter(client, err);
    if (status == QUERN_OK && (id == NULL || ret_info == NULL)) {
        qn_client_leave(client);
        status = qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                              id == NULL ? "id" : "ret_info");
    }
    return status;
}

quern_status quern_client_find(quern_client *client, const char *queue, const char *id,
                               quern_task_info **ret_info, quern_error *err)
{
    quern_status status = enter(client, id, ret_info, err);
    if (status == QUERN_OK) {
        status = qn_find_task(client->broker, queue, id, ret_info, err);
        qn_client_leave(client);
    }
    return status;
}

/* A wait under way. */
struct vigil {
    quern_client *client;
    const char *id;
    char queue[QN_NAME_SIZE_MAX + 1]; /* where it was seen; "" before */
    quern_error *err;
};

static bool is_over(const quern_task_info *info)
{
    quern_task_state state = quern_task_info_state(info);
    return state == QUERN_TASK_COMPLETED || state == QUERN_TASK_ARCHIVED;
}

/* *ret_info stays NULL while there is no end to report. */
static quern_status look(struct vigil *vigil, quern_task_info **ret_info)
{
    quern_task_info *info = NULL;
    const char *queue = vigil->queue[0] == '\0' ? NULL : vigil->queue;
    quern_status status = qn_find_task(vigil->client->broker, queue, vigil->id, &info, vigil->err);
    if (status == QUERN_E_NOT_FOUND && queue != NULL) {
        return qn_error_set(vigil->err, QUERN_E_NOT_FOUND,
                            "task %s is gone: it is done and has no retention, or was deleted",
                            vigil->id);
    }
    if (status != QUERN_OK) {
        return qn_broker_may_recover(vigil->client->broker, status) ? QUERN_OK : status;
    }
    (void)snprintf(vigil->queue, sizeof vigil->queue, "%s", quern_task_info_queue(info));
    if (is_over(info)) {
        *ret_info = info;
    } else {
        quern_task_info_free(info);
    }
    return QUERN_OK;
}

static quern_status watch(struct vigil *vigil, int64_t timeout_ms, quern_task_info **ret_info)
{
    int64_t began_ns = qn_clock_mono_ns();
    for (int64_t pause_ms = 1;;
         pause_ms = pause_ms * 2 < POLL_MS_MAX ? pause_ms * 2 : POLL_MS_MAX) {
        quern_task_info *info = NULL;
        quern_status status = look(vigil, &info);
        if (status != QUERN_OK) {
            return status;
        }
        if (info != NULL) {
            *ret_info = info;
            return QUERN_OK;
        }
        int64_t left_ms = pause_ms;
        if (timeout_ms >= 0) {
            left_ms = timeout_ms - (qn_clock_mono_ns() - began_ns) / QN_NS_PER_MS;
        }
        if (left_ms <= 0) {
            return qn_error_set(vigil->err, QUERN_E_TIMEOUT, "task %s is not over after %lld ms",
                                vigil->id, (long long)timeout_ms);
        }
        (void)poll(NULL, 0, (int)(left_ms < pause_ms ? left_ms : pause_ms));
    }
}

quern_status quern_client_wait(quern_client *client, const char *id, int64_t timeout_ms,
                               quern_task_info **ret_info, quern_error *err)
{
    quern_status status = enter(client, id, ret_info, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct vigil vigil = {.client = client, .id = id, .err = err};
    if (timeout_ms < QUERN_TIMEOUT_NEVER || timeout_ms > QN_DURATION_MS_MAX) {
        status = qn_error_set(err, QUERN_E_INVALID, "timeout_ms: must be 0 to 100 years, or %d",
                              QUERN_TIMEOUT_NEVER);
    } else {
        status = watch(&vigil, timeout_ms, ret_info);
    }
    qn_client_leave(client);
    return status;
}
