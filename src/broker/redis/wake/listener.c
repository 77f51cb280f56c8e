/* SPDX-License-Identifier: MIT */
/* listener.c - opening, closing and describing what hears of news; arm.c and wait.c use it.
 *
 * A new listener subscribes before arm tells the tracked connection of it, and arm reads after
 * that: so there is no moment in which news could get lost. Without the channel of invalidations
 * the worker polls; without the channel of cancellations it hears of them when it extends. */
#include "broker/redis/wake/listener.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "redis/pipeline.h"

static const char setup[] = "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n"
                            "*2\r\n$9\r\nSUBSCRIBE\r\n$12\r\nasynq:cancel\r\n"
                            "*2\r\n$9\r\nSUBSCRIBE\r\n$20\r\n__redis__:invalidate\r\n";
enum { REPLY_ID, REPLY_CANCEL, REPLY_INVALIDATE, REPLY_COUNT };
enum { DUE_SPREAD_MS = 200 };

quern_status qn_watch_init(struct qn_watch *watch, const struct qn_endpoint *endpoint,
                           quern_error *err)
{
    *watch = (struct qn_watch){.tracked_fd = -1};
    (void)pthread_mutex_init(&watch->mutex, NULL);
    qn_connection_init(&watch->listener, endpoint);
    watch->listener.role = "listener";
    qn_random_init(&watch->random);
    watch->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return watch->interrupt_fd >= 0
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_CONNECT, "%s: no descriptor left", endpoint->address);
}

static void free_queues(char **queues, size_t count)
{
    for (size_t i = 0; queues != NULL && i < count; i++) {
        qn_free(queues[i]);
    }
    qn_free(queues);
}

void qn_watch_finish(struct qn_watch *watch)
{
    qn_connection_close(&watch->listener);
    qn_arena_finish(&watch->arena);
    free_queues(watch->queues, watch->queue_count);
    if (watch->interrupt_fd >= 0) {
        (void)close(watch->interrupt_fd);
    }
    (void)pthread_mutex_destroy(&watch->mutex);
}

static bool is_served(const struct qn_watch *watch, const char *const *queues, size_t queue_count)
{
    bool same = queue_count == watch->queue_count;
    for (size_t i = 0; same && i < queue_count; i++) {
        same = strcmp(queues[i], watch->queues[i]) == 0;
    }
    return same;
}

void qn_watch_serve(struct qn_watch *watch, const char *const *queues, size_t queue_count)
{
    (void)pthread_mutex_lock(&watch->mutex);
    if (queue_count > 0 && !is_served(watch, queues, queue_count)) {
        char **copy = qn_alloc_zero(queue_count, sizeof *copy);
        bool whole = copy != NULL;
        for (size_t i = 0; whole && i < queue_count; i++) {
            copy[i] = qn_strdup(queues[i]);
            whole = copy[i] != NULL;
        }
        if (whole) {
            free_queues(watch->queues, watch->queue_count);
            watch->queues = copy;
            watch->queue_count = queue_count;
        } else {
            free_queues(copy, queue_count);
        }
    }
    (void)pthread_mutex_unlock(&watch->mutex);
}

void qn_watch_note_host(struct qn_watch *watch, const char *host)
{
    (void)pthread_mutex_lock(&watch->mutex);
    (void)snprintf(watch->host, sizeof watch->host, "%s", host);
    (void)pthread_mutex_unlock(&watch->mutex);
}

const char *qn_watch_host(struct qn_watch *watch, struct qn_arena *arena)
{
    (void)pthread_mutex_lock(&watch->mutex);
    const char *host = qn_arena_strdup(arena, watch->host);
    (void)pthread_mutex_unlock(&watch->mutex);
    return host;
}

void qn_watch_note_refusal(struct qn_watch *watch, const char *command, const char *words)
{
    watch->polls = true;
    if (watch->refusal[0] == '\0') {
        (void)snprintf(watch->refusal, sizeof watch->refusal, "%s: %s", command, words);
    }
}

static quern_status set_up(struct qn_watch *watch, int64_t deadline_mono_ns, quern_error *err)
{
    struct qn_reply *replies[REPLY_COUNT] = {NULL};
    bool sent = false;
    quern_status status = qn_connection_write(&watch->listener, setup, sizeof setup - 1,
                                              deadline_mono_ns, &sent, err);
    for (size_t i = 0; status == QUERN_OK && i < REPLY_COUNT; i++) {
        status =
            qn_connection_read(&watch->listener, &watch->arena, deadline_mono_ns, &replies[i], err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    watch->listener_id = qn_reply_int(replies[REPLY_ID], 0);
    watch->polls = false;
    watch->refusal[0] = '\0';
    if (watch->listener_id == 0) {
        bool said = replies[REPLY_ID]->type == QN_REPLY_ERROR;
        qn_watch_note_refusal(watch, "CLIENT ID", said ? replies[REPLY_ID]->data : "no id");
    }
    if (replies[REPLY_INVALIDATE]->type == QN_REPLY_ERROR) {
        qn_watch_note_refusal(watch, "SUBSCRIBE __redis__:invalidate",
                              replies[REPLY_INVALIDATE]->data);
    }
    return QUERN_OK;
}

quern_status qn_watch_listen(struct qn_watch *watch, quern_error *err)
{
    struct qn_connection *listener = &watch->listener;
    if (listener->fd >= 0) {
        return QUERN_OK;
    }
    int64_t deadline_mono_ns =
        qn_clock_mono_ns() + listener->endpoint->command_timeout_ms * INT64_C(1000000);
    qn_arena_reset(&watch->arena); /* what the last one was saying when it ended */
    quern_status status = qn_connection_open(listener, deadline_mono_ns, err);
    if (status == QUERN_OK) {
        status = set_up(watch, deadline_mono_ns, err);
    }
    qn_arena_reset(&watch->arena);
    watch->heard_at_mono_ns = qn_clock_mono_ns();
    watch->pinged = false;
    qn_watch_kick(watch);
    return status;
}

void qn_watch_compare(struct qn_watch *watch, bool work, int64_t next_due_at_ms, int64_t now_ms)
{
    (void)pthread_mutex_lock(&watch->mutex);
    /* Two reckonings of one moment differ by the way of an answer. What was due then is gone. */
    int64_t spread_ms = DUE_SPREAD_MS;
    int64_t known_ms = watch->due_at_ms < now_ms - spread_ms ? INT64_MAX : watch->due_at_ms;
    bool earlier = next_due_at_ms < known_ms - spread_ms;
    if (watch->at_rest && (work || earlier)) {
        watch->at_rest = false; /* said once */
        watch->surprised = true;
        qn_watch_kick(watch);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
}

void qn_watch_kick(struct qn_watch *watch)
{
    const uint64_t one = 1;
    ssize_t written = write(watch->interrupt_fd, &one, sizeof one);
    (void)written; /* a full counter is a kick, too */
}

void qn_watch_refusal(struct qn_watch *watch, char refusal[QN_REFUSAL_SIZE])
{
    (void)pthread_mutex_lock(&watch->mutex);
    (void)snprintf(refusal, QN_REFUSAL_SIZE, "%s", watch->refusal);
    (void)pthread_mutex_unlock(&watch->mutex);
}
