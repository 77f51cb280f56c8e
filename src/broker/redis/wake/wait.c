/* SPDX-License-Identifier: MIT */
/* wait.c - the listener's sleep: until a key of arm's changes, a task is cancelled, a command for
 * workers comes, or wait is interrupted.
 *
 * One poll over the listener, the tracked connection (of which only the end is of interest) and an
 * eventfd. The end of either connection counts as a notice: arm makes a new pair. An idle listener
 * is pinged, so that a connection which died silently is detected.
 *
 * A cancellation is a bare task id, as Go sends it. In which queue it is, and what is to become of
 * the task (quern_cancel; nothing there: a retry, as with Go), is looked up among the queues that
 * this worker serves. The empty id is ours: it asks all workers to read their queues (wake). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"

enum {
    PING_AFTER_MS = 4000, /* of silence */
    PONG_WITHIN_MS = 4000,
    LOOK_AFTER_MS_MIN = 50, /* where there is no tracking */
    LOOK_AFTER_MS_MAX = 100,
    NOTICES_AT_ONCE = 1000 /* a flood of them must not outlast an interruption */
};
static const char ping[] = "*1\r\n$4\r\nPING\r\n";

/* --- Receiving ---------------------------------------------------------------------- */

/* With mutex held: anything may have changed. */
static void note_work(struct qn_redis_listener *listener, struct qn_wakeup *wakeup)
{
    wakeup->work = true;
    if (listener->notices != NULL) {
        listener->notices->all = true;
    }
}

/* With mutex held. */
static void take_cancellation(struct qn_redis_listener *listener, const struct qn_reply *id,
                              struct qn_wakeup *wakeup)
{
    if (id->size == 0) {
        note_work(listener, wakeup);
    } else if (id->size < sizeof listener->cancel_id && strlen(id->data) == id->size) {
        memcpy(listener->cancel_id, id->data, id->size + 1);
        listener->cancel_from = 0;
    }
}

/* With mutex held. Whether it is for this worker, its text says. */
static void take_command(const struct qn_reply *text, struct qn_wakeup *wakeup)
{
    if (text->type == QN_REPLY_TEXT && text->size < sizeof wakeup->command &&
        strlen(text->data) == text->size) {
        memcpy(wakeup->command, text->data, text->size + 1);
    }
}

/* Whether the notice is of one key with this end; for planted faults. */
static bool is_notice_of(const struct qn_reply *keys, const char *end)
{
    const struct qn_reply *key = qn_reply_at(keys, 0);
    size_t size = strlen(end);
    return keys->type == QN_REPLY_ARRAY && keys->count == 1 && key->size >= size &&
           memcmp(key->data + key->size - size, end, size) == 0;
}

/* The wake-up that a planted fault misses, because it was not armed. */
static bool is_missed(const struct qn_reply *keys)
{
    return (QN_BUG(PAUSE_NOT_ARMED) && is_notice_of(keys, ":paused")) ||
           (QN_BUG(EARLIER_DUE_NOT_ARMED) &&
            (is_notice_of(keys, ":scheduled") || is_notice_of(keys, ":quern:due")));
}

/* With mutex held: some keys have changed, or all of them (nil). */
static void take_keys(struct qn_redis_listener *listener, const struct qn_reply *keys,
                      struct qn_wakeup *wakeup)
{
    static const char root[] = QN_KEY_ROOT;
    const size_t root_size = sizeof root - 1;
    wakeup->work = true;
    if (listener->notices == NULL) {
        return;
    }
    listener->notices->all = listener->notices->all || keys->type != QN_REPLY_ARRAY;
    for (size_t i = 0; keys->type == QN_REPLY_ARRAY && i < keys->count; i++) {
        const struct qn_reply *key = qn_reply_at(keys, i);
        if (key->size > root_size) {
            qn_notices_add(listener->notices,
                           qn_notices_task_of_name(key->data + root_size, key->size - root_size));
        }
    }
}

static void take_message(struct qn_redis_listener *listener, const struct qn_reply *reply,
                         struct qn_wakeup *wakeup)
{
    if (strcmp(qn_reply_text(qn_reply_at(reply, 0)), "message") != 0) {
        return; /* the answer to a ping */
    }
    if (strcmp(qn_reply_text(qn_reply_at(reply, 1)), QN_KEY_CANCEL) == 0) {
        take_cancellation(listener, qn_reply_at(reply, 2), wakeup);
    } else if (strcmp(qn_reply_text(qn_reply_at(reply, 1)), QN_KEY_COMMAND) == 0) {
        take_command(qn_reply_at(reply, 2), wakeup);
    } else if (!is_missed(qn_reply_at(reply, 2))) {
        take_keys(listener, qn_reply_at(reply, 2), wakeup);
    }
}

/* With mutex held. */
static bool has_order(const struct qn_redis_listener *listener, const struct qn_wakeup *wakeup)
{
    return listener->cancel_id[0] != '\0' || wakeup->command[0] != '\0';
}

/* With mutex held: reads the received messages, up to a cancellation or a command. */
static void receive_of(struct qn_redis_listener *listener, struct qn_redis_ear *ear,
                       struct qn_wakeup *wakeup)
{
    struct qn_reply *reply = NULL;
    int left = NOTICES_AT_ONCE;
    do {
        quern_status status =
            qn_connection_try_receive(&ear->connection, &ear->arena, &reply, NULL);
        if (status != QUERN_OK) {
            note_work(listener, wakeup); /* it is closed now: arm has to make a new one */
            break;
        }
        if (reply == NULL) {
            break;
        }
        ear->received_at_mono_ns = qn_clock_mono_ns();
        ear->pinged = false;
        take_message(listener, reply, wakeup);
        qn_arena_reset(&ear->arena);
        if (listener->notices != NULL && listener->notices->count == QN_NOTICES_MAX) {
            break; /* await returns them first */
        }
    } while (!has_order(listener, wakeup) && --left > 0);
}

/* With mutex held: the same of all that are connected. */
static void receive(struct qn_redis_listener *listener, struct qn_wakeup *wakeup)
{
    for (size_t i = 0; i < listener->ear_count && !has_order(listener, wakeup); i++) {
        if (listener->ears[i]->connection.socket.fd >= 0) {
            receive_of(listener, listener->ears[i], wakeup);
        }
    }
}

/* With mutex held: pings a silent ear, and gives it up if it does not answer. Returns when to look
 * again. */
static int64_t keep_alive_of(struct qn_redis_listener *listener, struct qn_redis_ear *ear,
                             int64_t now_mono_ns, struct qn_wakeup *wakeup)
{
    int64_t ping_at_ns = ear->received_at_mono_ns + PING_AFTER_MS * QN_NS_PER_MS;
    int64_t lost_at_ns = ping_at_ns + PONG_WITHIN_MS * QN_NS_PER_MS;
    if (ear->pinged && now_mono_ns >= lost_at_ns) {
        qn_connection_close(&ear->connection);
        note_work(listener, wakeup);
    } else if (!ear->pinged && now_mono_ns >= ping_at_ns) {
        ear->pinged = true;
        ear->received_at_mono_ns = now_mono_ns - PING_AFTER_MS * QN_NS_PER_MS;
        lost_at_ns = now_mono_ns + PONG_WITHIN_MS * QN_NS_PER_MS;
        /* A full socket means that it does not read: then nothing will come, either. */
        if (qn_connection_send(&ear->connection, ping, sizeof ping - 1, now_mono_ns, NULL) !=
            QUERN_OK) {
            note_work(listener, wakeup);
        }
    }
    return ear->pinged ? lost_at_ns : ping_at_ns;
}

/* With mutex held: all that are connected. */
static int64_t keep_alive(struct qn_redis_listener *listener, int64_t now_mono_ns,
                          struct qn_wakeup *wakeup)
{
    int64_t first_ns = INT64_MAX;
    for (size_t i = 0; i < listener->ear_count; i++) {
        if (listener->ears[i]->connection.socket.fd >= 0) {
            int64_t at_ns = keep_alive_of(listener, listener->ears[i], now_mono_ns, wakeup);
            first_ns = at_ns < first_ns ? at_ns : first_ns;
        }
    }
    return first_ns;
}

/* --- Cancellations ------------------------------------------------------------------ */

/* The lookup: in these queues, from this one on. */
struct lookup {
    char id[QN_NAME_SIZE_MAX + 1];
    size_t from;
    struct qn_names queues; /* in the arena of the pipeline */
};

/* Asks for state and wish of the id in each of the queues. */
static quern_status ask_queues(struct qn_redis *self, struct qn_pipeline *pipeline,
                               struct lookup *lookup, quern_error *err)
{
    struct qn_redis_listener *listener = &self->listener;
    (void)pthread_mutex_lock(&listener->mutex);
    (void)stpcpy(lookup->id, listener->cancel_id);
    lookup->from = listener->cancel_from;
    (void)pthread_mutex_unlock(&listener->mutex);
    lookup->queues = qn_redis_served_queues(&self->served, pipeline->arena);
    if (lookup->queues.items == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = lookup->from; i < lookup->queues.count; i++) {
        qn_pipeline_command(pipeline, "HMGET");
        qn_keys_add_task(pipeline, lookup->queues.items[i], lookup->id, strlen(lookup->id));
        qn_pipeline_text(pipeline, "state");
        qn_pipeline_text(pipeline, "quern_cancel");
    }
    return qn_pipeline_run(pipeline, err);
}

/* The first queried queue in which the task runs, with the requested fate; the number of queues:
 * none. */
static size_t find_running(const struct qn_pipeline *pipeline, enum qn_cancel *ret_cancel)
{
    for (size_t i = 0; i < pipeline->command_count; i++) {
        const struct qn_reply *reply = pipeline->commands[i].reply;
        if (strcmp(qn_reply_text(qn_reply_at(reply, 0)), "active") == 0) {
            bool archive = strcmp(qn_reply_text(qn_reply_at(reply, 1)), "archive") == 0;
            *ret_cancel = archive ? QN_CANCEL_ARCHIVE : QN_CANCEL_RETRY;
            return i;
        }
    }
    return pipeline->command_count;
}

/* The first queue where it runs becomes the wake-up, and the next wait asks the queues behind it.
 * The cancellation is done with when none of them is left. */
static void end_cancellation(struct qn_redis_listener *listener, const struct qn_pipeline *pipeline,
                             const struct lookup *lookup, struct qn_wakeup *wakeup)
{
    enum qn_cancel cancel = QN_CANCEL_NONE;
    size_t running = find_running(pipeline, &cancel);
    size_t queue = lookup->from + running;
    if (cancel != QN_CANCEL_NONE) {
        wakeup->cancel = cancel;
        (void)snprintf(wakeup->queue, sizeof wakeup->queue, "%s", lookup->queues.items[queue]);
        (void)snprintf(wakeup->id, sizeof wakeup->id, "%s", lookup->id);
    }
    (void)pthread_mutex_lock(&listener->mutex);
    if (cancel != QN_CANCEL_NONE) {
        listener->cancel_from = queue + 1;
    }
    if (running + 1 >= pipeline->command_count) {
        listener->cancel_id[0] = '\0';
    }
    (void)pthread_mutex_unlock(&listener->mutex);
}

static quern_status look_up_cancellation(struct qn_redis *self, struct qn_wakeup *wakeup,
                                         quern_error *err)
{
    struct qn_pipeline pipeline;
    struct lookup lookup;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_KEEPER, QN_PIPELINE_READS);
    quern_status status = ask_queues(self, &pipeline, &lookup, err);
    if (status == QUERN_OK) {
        end_cancellation(&self->listener, &pipeline, &lookup, wakeup);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- Waiting ------------------------------------------------------------------------ */

struct sleep {
    int64_t until_mono_ns;
    int64_t poll_at_mono_ns; /* 0: no need */
};

static int timeout_ms(int64_t now_mono_ns, int64_t until_mono_ns)
{
    int64_t left_ns = until_mono_ns - now_mono_ns;
    return left_ns <= 0 ? 0 : (int)((left_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS);
}

/* With mutex held: this tracked connection has ended, if it is still the one. */
static void note_end(struct qn_redis_listener *listener, int tracked_fd, struct qn_wakeup *wakeup)
{
    for (size_t i = 0; i < listener->ear_count; i++) {
        if (listener->ears[i]->tracked_fd == tracked_fd) {
            listener->ears[i]->tracked_fd = -1; /* reported once */
            note_work(listener, wakeup);
        }
    }
}

/* With mutex held, but not while it sleeps. */
static void sleep_until_notice(struct qn_redis_listener *listener, int64_t until_mono_ns,
                               struct qn_wakeup *wakeup)
{
    struct pollfd fds[1 + 2 * QN_EARS_MAX] = {{.fd = listener->interrupt_fd, .events = POLLIN}};
    nfds_t count = 1;
    int timeout = timeout_ms(qn_clock_mono_ns(), until_mono_ns);
    for (size_t i = 0; i < listener->ear_count; i++) {
        const struct qn_redis_ear *ear = listener->ears[i];
        fds[count++] = (struct pollfd){.fd = ear->tracked_fd, .events = POLLRDHUP};
        fds[count++] = (struct pollfd){.fd = ear->connection.socket.fd, .events = POLLIN};
        timeout = qn_socket_has_bytes(&ear->connection.socket) ? 0 : timeout;
    }
    (void)pthread_mutex_unlock(&listener->mutex);
    int ready = poll(fds, count, timeout);
    if (ready > 0 && fds[0].revents != 0) {
        uint64_t kicks;
        ssize_t got = read(listener->interrupt_fd, &kicks, sizeof kicks);
        (void)got;
    }
    (void)pthread_mutex_lock(&listener->mutex);
    for (nfds_t i = 1; ready > 0 && i < count; i += 2) {
        if (fds[i].revents != 0) {
            note_end(listener, fds[i].fd, wakeup);
        }
    }
}

/* With mutex held: one look and, if it brought nothing, one sleep. True: that was all. */
static bool wait_once(struct qn_redis_listener *listener, struct sleep *sleep,
                      struct qn_wakeup *wakeup)
{
    if (atomic_exchange(&listener->interrupted, false)) {
        return true;
    }
    if (!has_order(listener, wakeup)) {
        receive(listener, wakeup);
    }
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (qn_wake_state_polls(&listener->state) && sleep->poll_at_mono_ns == 0) {
        uint64_t spread = LOOK_AFTER_MS_MAX - LOOK_AFTER_MS_MIN + 1;
        int64_t after_ms = LOOK_AFTER_MS_MIN + (int64_t)qn_random_below(&listener->random, spread);
        sleep->poll_at_mono_ns = now_mono_ns + after_ms * QN_NS_PER_MS;
    }
    if (qn_wake_state_has_missed(&listener->state) ||
        (sleep->poll_at_mono_ns != 0 && now_mono_ns >= sleep->poll_at_mono_ns)) {
        qn_wake_state_change(&listener->state, QN_WAKE_TAKEN);
        note_work(listener, wakeup);
    }
    if (wakeup->work || has_order(listener, wakeup) || now_mono_ns >= sleep->until_mono_ns) {
        return true;
    }
    int64_t until_mono_ns = keep_alive(listener, now_mono_ns, wakeup);
    if (sleep->until_mono_ns < until_mono_ns) {
        until_mono_ns = sleep->until_mono_ns;
    }
    if (sleep->poll_at_mono_ns != 0 && sleep->poll_at_mono_ns < until_mono_ns) {
        until_mono_ns = sleep->poll_at_mono_ns;
    }
    if (!wakeup->work) {
        sleep_until_notice(listener, until_mono_ns, wakeup);
    }
    return wakeup->work;
}

/* With mutex held. On a cluster arm connects the others; until it does, and where it has no need
 * to, one of them receives cancellations. */
static quern_status connect_first(struct qn_redis_listener *listener, quern_error *err)
{
    struct qn_redis_ear *ear = NULL;
    int node = 0;
    if (listener->cluster != NULL &&
        (listener->ear_count > 0 || qn_cluster_masters(listener->cluster, &node, 1) == 0)) {
        return QUERN_OK;
    }
    return qn_redis_listener_connect(listener, node, &ear, err);
}

/* Until there is something to return or the time is up. *ret_asked: a cancellation has to be looked
 * up.
 */
static quern_status wait_for_notices(struct qn_redis_listener *listener, struct sleep *sleep,
                                     struct qn_wakeup *wakeup, bool *ret_asked, quern_error *err)
{
    (void)pthread_mutex_lock(&listener->mutex);
    quern_status status = QUERN_OK;
    bool done = false;
    while (status == QUERN_OK && !done) {
        if (qn_redis_listener_leave(listener)) {
            note_work(listener, wakeup);
        }
        status = qn_wake_state_is_unpaired(&listener->state)
                     ? qn_error_set(err, QUERN_E_CONNECT, "%s", listener->refusal)
                     : connect_first(listener, err);
        done = status != QUERN_OK || wait_once(listener, sleep, wakeup);
    }
    *ret_asked = listener->cancel_id[0] != '\0';
    (void)pthread_mutex_unlock(&listener->mutex);
    return status;
}

quern_status qn_redis_wait(struct qn_broker *broker, int64_t timeout_ms,
                           struct qn_wakeup *ret_wakeup, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_wakeup wakeup = {0};
    struct sleep sleep = {.until_mono_ns = qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS};
    quern_status status;
    bool asked;
    do {
        status = wait_for_notices(&self->listener, &sleep, &wakeup, &asked, err);
        if (status == QUERN_OK && asked) {
            status = look_up_cancellation(self, &wakeup, err);
        }
        /* One that is not for us is no reason to stop waiting, unless they never end. */
    } while (status == QUERN_OK && asked && !wakeup.work && wakeup.cancel == QN_CANCEL_NONE &&
             qn_clock_mono_ns() < sleep.until_mono_ns);
    if (status == QUERN_OK) {
        *ret_wakeup = wakeup;
    }
    return status;
}

void qn_redis_interrupt(struct qn_broker *broker)
{
    struct qn_redis_listener *listener = &qn_redis_of(broker)->listener;
    int saved = errno;
    atomic_store(&listener->interrupted, true);
    qn_redis_listener_kick(listener);
    errno = saved;
}

void qn_redis_wake(struct qn_broker *broker)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_command(&pipeline, "PUBLISH");
    qn_pipeline_text(&pipeline, QN_KEY_CANCEL);
    qn_pipeline_text(&pipeline, "");
    /* A failed send is no error: every worker polls each second (poll.c). */
    quern_status status = qn_pipeline_run(&pipeline, NULL);
    (void)status;
    qn_pipeline_end(&pipeline);
}
