/* SPDX-License-Identifier: MIT */
/* wait.c - looks a task up, and waits until it has ended.
 *
 * The broker is asked for notices of the task (qn_broker_watch), the task is read, and the thread
 * sleeps until a notice names it, so that the end is seen at once and a wait costs nothing
 * meanwhile, however many other tasks end. A read each second makes up for lost notices. A notice
 * may have another reason than the end (progress; a message that names no task), so after some
 * reads at once there is one in 100 ms.
 *
 * Where there can be no notices, the wait is a poll: after 1 ms, 2 ms, 4 ms and so on up to 50 ms,
 * later after 5 % of the time waited, up to a second. A broker that is away for a moment costs some
 * of those, no more.
 *
 * Once the task was seen, only its queue is read. A task that has ended and was not kept cannot be
 * distinguished from one that never existed, unless this wait has seen it before; then the text of
 * the error says so. */
#include <poll.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "base/text/str.h"
#include "broker/find.h"
#include "client/client.h"

enum {
    PAUSE_MS_SOON = 50, /* up to here each pause of a poll is twice the one before */
    PAUSE_MS_MAX = 1000,
    PAUSE_PART = 20, /* of the time waited */
    READ_MS_MAX = 1000,
    READ_BURST =
        8, /* this many notices are followed by a read at once: a task changes a few times */
    READ_EVERY_MS = 100 /* of the next one, and until another of the burst is allowed again */
};

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

/* A wait in progress. */
struct wait {
    quern_client *client;
    const char *id;
    char *queue;               /* where it was seen; NULL before */
    struct qn_waiting waiting; /* joined as soon as there is a queue */
    quern_error away;          /* why the latest read saw nothing; "": it did */
    bool polls;                /* there can be no notices */
    int64_t pause_ms;          /* of a poll, the next one */
    int64_t even_at_ns; /* when reads after notices are no more than one each READ_EVERY_MS */
};

static bool is_over(const quern_task_info *info)
{
    quern_task_state state = quern_task_info_state(info);
    return state == QUERN_TASK_COMPLETED || state == QUERN_TASK_ARCHIVED;
}

/* It was seen for the first time. */
static quern_status join(struct wait *wait, const char *queue, quern_error *err)
{
    wait->queue = qn_str_dup(queue);
    if (wait->queue == NULL) {
        return qn_error_nomem(err);
    }
    if (QN_BUG(LONG_QUEUE_CUT) && strlen(queue) > QN_NAME_SIZE_MAX) {
        wait->queue[QN_NAME_SIZE_MAX] = '\0';
    }
    qn_dispatch_join(&wait->client->dispatch, &wait->waiting, qn_notices_task(queue, wait->id));
    return QUERN_OK;
}

/* *ret_info stays NULL while there is no end to report. */
static quern_status read_task(struct wait *wait, quern_task_info **ret_info, quern_error *err)
{
    quern_task_info *info = NULL;
    quern_error *away = &wait->away;
    away->text[0] = '\0';
    quern_status status = qn_find_task(wait->client->broker, wait->queue, wait->id, &info, away);
    if (status == QUERN_E_NOT_FOUND && wait->queue != NULL) {
        return qn_error_set(err, QUERN_E_NOT_FOUND,
                            "task %s is gone: it is done and has no retention, or was deleted",
                            wait->id);
    }
    if (status != QUERN_OK) {
        bool recovers = qn_broker_may_recover(wait->client->broker, status);
        return recovers ? QUERN_OK : qn_error_set(err, status, "%s", away->text);
    }
    if (is_over(info)) {
        *ret_info = info;
        return QUERN_OK;
    }
    status = wait->queue == NULL ? join(wait, quern_task_info_queue(info), err) : QUERN_OK;
    quern_task_info_free(info);
    return status;
}

/* Whether there will be a notice of the next change. */
static bool watch(struct wait *wait)
{
    if (wait->polls) {
        return false;
    }
    qn_dispatch_reset(&wait->client->dispatch, &wait->waiting);
    quern_status status = qn_broker_watch(wait->client->broker, wait->queue, wait->id, NULL);
    wait->polls = status == QUERN_E_UNSUPPORTED;
    return status == QUERN_OK;
}

static void pause_ms(int64_t ms, int64_t left_ms)
{
    (void)poll(NULL, 0, (int)(left_ms < ms ? left_ms : ms));
}

static void pause_of_poll(struct wait *wait, int64_t waited_ms, int64_t left_ms)
{
    pause_ms(wait->pause_ms, left_ms);
    int64_t part_ms = waited_ms / PAUSE_PART;
    int64_t soon_ms = wait->pause_ms * 2 < PAUSE_MS_SOON ? wait->pause_ms * 2 : PAUSE_MS_SOON;
    int64_t next_ms = part_ms > soon_ms ? part_ms : soon_ms;
    wait->pause_ms = next_ms < PAUSE_MS_MAX ? next_ms : PAUSE_MS_MAX;
}

/* Before the read that a notice is followed by. */
static void pace(struct wait *wait, int64_t left_ms)
{
    const int64_t every_ns = READ_EVERY_MS * QN_NS_PER_MS;
    int64_t now_ns = qn_clock_mono_ns();
    if (wait->even_at_ns < now_ns) {
        wait->even_at_ns = now_ns;
    }
    int64_t early_ns = wait->even_at_ns - now_ns - (READ_BURST - 1) * every_ns;
    if (early_ns > 0 && !QN_BUG(READ_UNPACED)) {
        pause_ms((early_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS, left_ms);
    }
    wait->even_at_ns += every_ns;
}

static void await_notice(struct wait *wait, int64_t left_ms)
{
    int64_t now_ns = qn_clock_mono_ns();
    bool has_limit = left_ms < READ_MS_MAX || QN_BUG(LOST_NOTICE_UNREAD);
    int64_t most_ms = has_limit ? left_ms : READ_MS_MAX;
    bool noticed = qn_dispatch_await(&wait->client->dispatch, &wait->waiting, wait->client->broker,
                                     now_ns + most_ms * QN_NS_PER_MS);
    int64_t waited_ms = (qn_clock_mono_ns() - now_ns) / QN_NS_PER_MS;
    if (noticed && waited_ms < left_ms) {
        pace(wait, left_ms - waited_ms);
    }
}

static quern_status wait_for_end(struct wait *wait, int64_t timeout_ms, quern_task_info **ret_info,
                                 quern_error *err)
{
    int64_t began_ns = qn_clock_mono_ns();
    quern_task_info *info = NULL;
    for (;;) {
        bool was_seen = wait->queue != NULL;
        bool watched = was_seen && watch(wait);
        quern_status status = read_task(wait, &info, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (info != NULL) {
            *ret_info = info;
            return QUERN_OK;
        }
        int64_t waited_ms = (qn_clock_mono_ns() - began_ns) / QN_NS_PER_MS;
        int64_t left_ms = timeout_ms < 0 ? INT64_MAX : timeout_ms - waited_ms;
        if (left_ms <= 0) {
            return qn_error_set(
                err, QUERN_E_TIMEOUT, "task %s has not ended after %lld ms%s%s", wait->id,
                (long long)timeout_ms,
                wait->away.text[0] == '\0' ? "" : "; the broker is away: ", wait->away.text);
        }
        if (watched) {
            await_notice(wait, left_ms);
        } else if (was_seen || wait->queue == NULL) {
            pause_of_poll(wait, waited_ms, left_ms);
        } /* else it was seen for the first time, and is read again, watched */
    }
}

quern_status quern_client_wait(quern_client *client, const char *id, int64_t timeout_ms,
                               quern_task_info **ret_info, quern_error *err)
{
    quern_status status = enter(client, id, ret_info, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct wait wait = {.client = client, .id = id, .pause_ms = 1};
    if (timeout_ms < QUERN_TIMEOUT_NEVER || timeout_ms > QN_DURATION_MS_MAX) {
        status = qn_error_set(err, QUERN_E_INVALID, "timeout_ms: must be 0 to 100 years, or %d",
                              QUERN_TIMEOUT_NEVER);
    } else {
        status = wait_for_end(&wait, timeout_ms, ret_info, err);
    }
    if (wait.queue != NULL) {
        qn_dispatch_leave(&client->dispatch, &wait.waiting);
        qn_free(wait.queue);
    }
    qn_client_leave(client);
    return status;
}
