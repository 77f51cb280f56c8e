/* SPDX-License-Identifier: MIT */
/* supervisor.c - the thread that watches over the choice of the server.
 *
 * Every sentinel publishes +switch-master when it learns of another master, and +sdown before, when
 * it has lost the old one; we subscribe at the first one that answers. A message is only a reason
 * to ask, again and again for a while, as the sentinel that leads a failover knows the new master
 * some seconds before the others; what counts is the answer (sentinel.h). A subscription that was
 * lost is made again at another sentinel; until there is one, they are asked each second. */
#include "redis/failover/supervisor.h"

#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "redis/open.h"

enum {
    CONNECT_MS = 500,
    PROBE_MS_MIN = 1000, /* of the preferred server; doubles while it is away */
    PROBE_MS_MAX = 60000,
    ASK_MS = 5000,        /* sentinels, beside their messages: they may be lost */
    ASK_ALONE_MS = 1000,  /* without a subscription */
    ASK_AGAIN_MS = 200,   /* after a message ... */
    AGAIN_FOR_MS = 10000, /* ... for so long, or until there is another master */
    LOST_MS = 100,        /* after the end of a subscription: its sentinel may be gone */
    MESSAGES_MAX = 100    /* taken at once */
};

static const char subscribe[] = "*4\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n$6\r\n+sdown\r\n"
                                "$6\r\n+odown\r\n";
static const char ping[] = "*1\r\n$4\r\nPING\r\n";

static int64_t in_ms(int64_t ms)
{
    return qn_clock_mono_ns() + ms * QN_NS_PER_MS;
}

/* Sleeps until there is something on fd (-1: none), or the time is up. False: stop. */
static bool sleep_ms(const struct qn_supervisor *supervisor, int fd, int64_t ms)
{
    struct pollfd fds[] = {{.fd = supervisor->stop_fd, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};
    (void)poll(fds, fd < 0 ? 1 : 2, (int)ms);
    return (fds[0].revents & POLLIN) == 0;
}

/* --- A list --------------------------------------------------------------------------- */

/* Whether the preferred server can be used: it is a master, and is not loading its data. */
static bool is_healthy(struct qn_endpoint *endpoint)
{
    struct qn_connection connection;
    struct qn_arena arena = {0};
    struct qn_reply *reply = NULL;
    int64_t deadline_mono_ns = in_ms(CONNECT_MS);
    qn_connection_init_at(&connection, endpoint);
    connection.role = "probe";
    quern_status status = qn_open_connection(&connection, deadline_mono_ns, NULL);
    if (status == QUERN_OK) {
        status = qn_connection_send(&connection, ping, sizeof ping - 1, deadline_mono_ns, NULL);
    }
    if (status == QUERN_OK) {
        status = qn_connection_receive(&connection, &arena, deadline_mono_ns, &reply, NULL);
    }
    bool healthy = status == QUERN_OK && reply->type == QN_REPLY_TEXT;
    qn_connection_finish(&connection);
    qn_arena_finish(&arena);
    return healthy;
}

static void watch_list(struct qn_supervisor *supervisor)
{
    struct qn_failover *failover = supervisor->failover;
    /* Of its own, as the list's is marked as abandoned while another one is current. */
    struct qn_endpoint *preferred = qn_failover_preferred_copy(failover);
    int64_t pause_ms = PROBE_MS_MIN;
    while (preferred != NULL && sleep_ms(supervisor, -1, pause_ms)) {
        bool away = !qn_failover_is_preferred(failover);
        bool back = away && is_healthy(preferred);
        if (back) {
            qn_failover_switch_to(failover, 0);
        }
        pause_ms = away && !back ? 2 * pause_ms : PROBE_MS_MIN;
        pause_ms = pause_ms < PROBE_MS_MAX ? pause_ms : PROBE_MS_MAX;
    }
    qn_endpoint_unref(preferred);
}

/* --- Sentinels ------------------------------------------------------------------------ */

struct subscription {
    struct qn_connection connection;
    struct qn_arena arena;
    bool exists; /* the connection is one to a sentinel */
    bool pinged; /* and nothing has come since */
    int64_t ping_at_ns;
};

static void unsubscribe(struct subscription *subscription)
{
    if (subscription->exists) {
        qn_connection_finish(&subscription->connection);
    }
    qn_arena_finish(&subscription->arena);
    subscription->exists = false;
}

static bool subscribe_at(struct subscription *subscription, struct qn_endpoint *node)
{
    struct qn_reply *reply = NULL;
    int64_t deadline_mono_ns = in_ms(CONNECT_MS);
    qn_connection_init_at(&subscription->connection, node);
    subscription->connection.role = "sentinel";
    subscription->exists = true;
    quern_status status = qn_open_connection(&subscription->connection, deadline_mono_ns, NULL);
    if (status == QUERN_OK) {
        status = qn_connection_send(&subscription->connection, subscribe, sizeof subscribe - 1,
                                    deadline_mono_ns, NULL);
    }
    if (status == QUERN_OK) {
        status = qn_connection_receive(&subscription->connection, &subscription->arena,
                                       deadline_mono_ns, &reply, NULL);
    }
    bool done = status == QUERN_OK && reply->type == QN_REPLY_ARRAY;
    qn_arena_reset(&subscription->arena);
    if (!done) {
        unsubscribe(subscription);
    }
    return done;
}

/* At the first one that answers; none, or the thread is to end: `exists` stays false. */
static void subscribe_somewhere(struct qn_supervisor *supervisor, struct subscription *subscription)
{
    bool done = false;
    for (size_t i = 0; !done && i < QN_SENTINELS_MAX && sleep_ms(supervisor, -1, 0); i++) {
        struct qn_endpoint *node = qn_sentinel_list_at(&supervisor->sentinels->list, i);
        if (node == NULL) {
            return;
        }
        done = subscribe_at(subscription, node);
        qn_endpoint_unref(node);
    }
}

/* Takes the messages that have come. Whether one of them is of another master. */
static bool take_messages(struct subscription *subscription)
{
    bool switched = false;
    struct qn_reply *reply = NULL;
    for (int i = 0; subscription->exists && i < MESSAGES_MAX; i++) {
        if (qn_connection_try_receive(&subscription->connection, &subscription->arena, &reply,
                                      NULL) != QUERN_OK) {
            unsubscribe(subscription);
            return true; /* it may have been lost */
        }
        if (reply == NULL) {
            break;
        }
        subscription->pinged = false;
        switched = switched || strcmp(qn_reply_text(qn_reply_at(reply, 0)), "message") == 0;
        qn_arena_reset(&subscription->arena);
    }
    return switched;
}

/* Now and then: gives the subscription up if the last ping was not answered, or if the others know
 * this sentinel no more: it may learn nothing of them any more; else sends a ping. */
static void check_alive(struct qn_supervisor *supervisor, struct subscription *subscription)
{
    if (qn_clock_mono_ns() < subscription->ping_at_ns) {
        return;
    }
    subscription->ping_at_ns = in_ms(ASK_MS);
    if (subscription->exists &&
        (subscription->pinged ||
         !qn_sentinel_list_has(&supervisor->sentinels->list, subscription->connection.endpoint))) {
        unsubscribe(subscription);
    }
    subscription->pinged = subscription->exists;
    if (subscription->exists && qn_connection_send(&subscription->connection, ping, sizeof ping - 1,
                                                   in_ms(CONNECT_MS), NULL) != QUERN_OK) {
        unsubscribe(subscription);
    }
}

/* Whether there is another master now. */
static bool ask(struct qn_supervisor *supervisor)
{
    uint64_t before = atomic_load(&supervisor->failover->generation);
    quern_status status = qn_sentinels_find(supervisor->sentinels, in_ms(ASK_MS), NULL);
    (void)status; /* the next attempt to connect asks again, and reports it */
    return !qn_failover_is_current(supervisor->failover, before);
}

static void watch_sentinels(struct qn_supervisor *supervisor)
{
    struct subscription subscription = {.exists = false};
    int64_t ask_at_ns = 0;
    int64_t again_until_ns = 0;
    bool goes_on = true;
    while (goes_on) {
        if (qn_clock_mono_ns() >= ask_at_ns) {
            check_alive(supervisor, &subscription);
            if (!subscription.exists) {
                subscribe_somewhere(supervisor, &subscription);
            }
            bool switched = sleep_ms(supervisor, -1, 0) && ask(supervisor);
            again_until_ns = switched ? 0 : again_until_ns;
            ask_at_ns = in_ms(qn_clock_mono_ns() < again_until_ns ? ASK_AGAIN_MS
                              : subscription.exists               ? ASK_MS
                                                                  : ASK_ALONE_MS);
        }
        int64_t left_ms = (ask_at_ns - qn_clock_mono_ns()) / QN_NS_PER_MS + 1;
        int fd = subscription.exists ? subscription.connection.socket.fd : -1;
        goes_on = sleep_ms(supervisor, fd, left_ms > 0 ? left_ms : 0);
        if (goes_on && take_messages(&subscription)) {
            again_until_ns = in_ms(AGAIN_FOR_MS);
            ask_at_ns = subscription.exists ? 0 : in_ms(LOST_MS);
        }
    }
    unsubscribe(&subscription);
}

/* --- The thread ----------------------------------------------------------------------- */

static void *run(void *user)
{
    struct qn_supervisor *supervisor = user;
    if (supervisor->sentinels != NULL) {
        watch_sentinels(supervisor);
    } else {
        watch_list(supervisor);
    }
    return NULL;
}

quern_status qn_supervisor_start(struct qn_supervisor *supervisor, struct qn_failover *failover,
                                 struct qn_sentinels *sentinels, quern_error *err)
{
    *supervisor =
        (struct qn_supervisor){.failover = failover, .sentinels = sentinels, .stop_fd = -1};
    if (sentinels == NULL && qn_failover_cycle(failover) == 1) {
        return QUERN_OK;
    }
    supervisor->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    supervisor->runs =
        supervisor->stop_fd >= 0 &&
        qn_thread_start_small(&supervisor->thread, "quern-failover", run, supervisor);
    if (!supervisor->runs) {
        if (supervisor->stop_fd >= 0) {
            (void)close(supervisor->stop_fd);
        }
        return qn_error_set(err, QUERN_E_CONNECT, "%s: no descriptor or thread left",
                            qn_failover_address(failover));
    }
    return QUERN_OK;
}

void qn_supervisor_stop(struct qn_supervisor *supervisor)
{
    if (!supervisor->runs) {
        return;
    }
    const uint64_t one = 1;
    ssize_t written = write(supervisor->stop_fd, &one, sizeof one);
    (void)written;
    (void)pthread_join(supervisor->thread, NULL);
    (void)close(supervisor->stop_fd);
    supervisor->runs = false;
}
