/* SPDX-License-Identifier: MIT */
/* wait.c - looks a task up, and waits until it is over.
 *
 * The broker is asked for notices of the task (qn_broker_watch), the task is read, and the thread
 * sleeps until a notice comes, so that the end is seen at once and a wait costs nothing meanwhile.
 * Notices of a file name no task: where many tasks end, the pauses between two looks grow up to
 * 250 ms. A poll each second makes up for missed notices. Where there can be no notices, the wait
 * is a poll: after 1 ms, 2 ms, 4 ms and so on up to 50 ms, later after 5 % of the time waited, up
 * to a second. A broker that is away for a moment costs some of those, no more.
 *
 * Once the task was seen, only its queue is read. A task that has ended and was not kept cannot be
 * distinguished from one that never existed, unless this wait has seen it before; then the text of
 * the error says so. */
#include <poll.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/find.h"
#include "client/client.h"

enum {
    PAUSE_MS_SOON = 50, /* up to here each pause of a poll is twice the one before */
    PAUSE_MS_MAX = 1000,
    PAUSE_PART = 20, /* of the time waited */
    LOOK_MS_MAX = 1000,
    NEWS_AT_ONCE = 8,   /* this many news bring a look at once: a task changes a few times */
    NEWS_PAUSE_MS = 10, /* before the next look, and twice as long each time ... */
    NEWS_PAUSE_MS_MAX = 250
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
struct vigil {
    quern_client *client;
    const char *id;
    char queue[QN_SERVED_NAME_SIZE_MAX + 1]; /* where it was seen; "" before */
    quern_error away;                        /* why the latest look saw nothing; "": it did */
    bool polls;                              /* there can be no news */
    int64_t pause_ms;                        /* of a poll, the next one */
    size_t news_count;
    int64_t news_pause_ms; /* the latest */
};

static bool is_over(const quern_task_info *info)
{
    quern_task_state state = quern_task_info_state(info);
    return state == QUERN_TASK_COMPLETED || state == QUERN_TASK_ARCHIVED;
}

/* *ret_info stays NULL while there is no end to report. */
static quern_status look(struct vigil *vigil, quern_task_info **ret_info, quern_error *err)
{
    quern_task_info *info = NULL;
    const char *queue = vigil->queue[0] == '\0' ? NULL : vigil->queue;
    quern_error *away = &vigil->away;
    away->text[0] = '\0';
    quern_status status = qn_find_task(vigil->client->broker, queue, vigil->id, &info, away);
    if (status == QUERN_E_NOT_FOUND && queue != NULL) {
        return qn_error_set(err, QUERN_E_NOT_FOUND,
                            "task %s is gone: it is done and has no retention, or was deleted",
                            vigil->id);
    }
    if (status != QUERN_OK) {
        bool recovers = qn_broker_may_recover(vigil->client->broker, status);
        return recovers ? QUERN_OK : qn_error_set(err, status, "%s", away->text);
    }
    (void)snprintf(vigil->queue, sizeof vigil->queue, "%s", quern_task_info_queue(info));
    if (is_over(info)) {
        *ret_info = info;
    } else {
        quern_task_info_free(info);
    }
    return QUERN_OK;
}

/* Whether there will be news of the next change. */
static bool watch(struct vigil *vigil)
{
    if (vigil->polls || vigil->queue[0] == '\0') {
        return false;
    }
    quern_status status = qn_broker_watch(vigil->client->broker, vigil->queue, vigil->id, NULL);
    vigil->polls = status == QUERN_E_UNSUPPORTED;
    return status == QUERN_OK;
}

static void pause_ms(int64_t ms, int64_t left_ms)
{
    (void)poll(NULL, 0, (int)(left_ms < ms ? left_ms : ms));
}

static void pause_of_poll(struct vigil *vigil, int64_t waited_ms, int64_t left_ms)
{
    pause_ms(vigil->pause_ms, left_ms);
    int64_t part_ms = waited_ms / PAUSE_PART;
    int64_t soon_ms = vigil->pause_ms * 2 < PAUSE_MS_SOON ? vigil->pause_ms * 2 : PAUSE_MS_SOON;
    int64_t next_ms = part_ms > soon_ms ? part_ms : soon_ms;
    vigil->pause_ms = next_ms < PAUSE_MS_MAX ? next_ms : PAUSE_MS_MAX;
}

/* Until there is more news than `seen`. Where there is news all the time, of progress or, on
 * SQLite, of other tasks, the task is not looked at each time. */
static void await_news(struct vigil *vigil, uint64_t seen, int64_t left_ms)
{
    if (vigil->news_count >= NEWS_AT_ONCE) {
        vigil->news_pause_ms = vigil->news_pause_ms * 2 < NEWS_PAUSE_MS_MAX
                                   ? vigil->news_pause_ms * 2
                                   : NEWS_PAUSE_MS_MAX;
        pause_ms(vigil->news_pause_ms, left_ms);
    }
    int64_t most_ms = left_ms < LOOK_MS_MAX ? left_ms : LOOK_MS_MAX;
    struct qn_news *news = &vigil->client->news;
    qn_news_await(news, vigil->client->broker, seen, qn_clock_mono_ns() + most_ms * QN_NS_PER_MS);
    vigil->news_count += qn_news_count(news) != seen ? 1 : 0;
}

static quern_status wait_for_end(struct vigil *vigil, int64_t timeout_ms,
                                 quern_task_info **ret_info, quern_error *err)
{
    int64_t began_ns = qn_clock_mono_ns();
    bool was_seen = false; /* by the look before */
    for (;;) {
        uint64_t seen = qn_news_count(&vigil->client->news);
        bool watched = was_seen && watch(vigil);
        quern_task_info *info = NULL;
        quern_status status = look(vigil, &info, err);
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
                err, QUERN_E_TIMEOUT, "task %s is not over after %lld ms%s%s", vigil->id,
                (long long)timeout_ms,
                vigil->away.text[0] == '\0' ? "" : "; the broker is away: ", vigil->away.text);
        }
        if (watched) {
            await_news(vigil, seen, left_ms);
        } else if (was_seen || vigil->queue[0] == '\0') {
            pause_of_poll(vigil, waited_ms, left_ms);
        }
        was_seen = vigil->queue[0] != '\0';
    }
}

quern_status quern_client_wait(quern_client *client, const char *id, int64_t timeout_ms,
                               quern_task_info **ret_info, quern_error *err)
{
    quern_status status = enter(client, id, ret_info, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct vigil vigil = {
        .client = client, .id = id, .pause_ms = 1, .news_pause_ms = NEWS_PAUSE_MS / 2};
    if (timeout_ms < QUERN_TIMEOUT_NEVER || timeout_ms > QN_DURATION_MS_MAX) {
        status = qn_error_set(err, QUERN_E_INVALID, "timeout_ms: must be 0 to 100 years, or %d",
                              QUERN_TIMEOUT_NEVER);
    } else {
        status = wait_for_end(&vigil, timeout_ms, ret_info, err);
    }
    qn_client_leave(client);
    return status;
}
