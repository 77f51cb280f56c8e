/* SPDX-License-Identifier: MIT */
/* open.c - connects, and shakes hands (handshake.c), both within the time for connecting.
 *
 * A server that is down, loading or a replica is left for the next one of the list at once. A wrong
 * password or a server of another kind is a mistake, and no other server hides it. */
#include "redis/open.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/connect.h"
#include "redis/handshake.h"

#define GREETED_WITHIN_MS 2000
#define FRESH_MS 300 /* for so long the answer of sentinels is good */
/* While sentinels replace the master: a pause of the caller's may be longer than that takes. */
#define REPLACED_WITHIN_MS 2000
#define ASK_AGAIN_MS 200 /* meanwhile, beside the thread that gets their messages */

static quern_status connect_and_greet(struct qn_connection *connection, int64_t deadline_mono_ns,
                                      quern_error *err)
{
    quern_status status = qn_connect(&connection->socket, deadline_mono_ns, err);
    if (status == QUERN_OK) {
        status = qn_decode_init(&connection->decoder, connection->endpoint->peer.address, err);
    }
    if (status == QUERN_OK) {
        connection->opened_count++;
        status = qn_handshake(connection, deadline_mono_ns, err);
    }
    return status;
}

/* Another connection to the same server, for as long as it takes to greet. */
static bool answers_elsewhere(const struct qn_connection *silent, int64_t deadline_mono_ns)
{
    struct qn_connection other;
    qn_connection_init_at(&other, silent->endpoint);
    int64_t until_ns = qn_clock_mono_ns() + GREETED_WITHIN_MS * QN_NS_PER_MS;
    until_ns = until_ns < deadline_mono_ns ? until_ns : deadline_mono_ns;
    bool answers = connect_and_greet(&other, until_ns, NULL) == QUERN_OK;
    qn_connection_finish(&other);
    return answers;
}

/* `left`: how many servers, this one included, share the time until the deadline. */
static quern_status try_endpoint(struct qn_connection *connection, size_t left,
                                 int64_t deadline_mono_ns, quern_error *err)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t connect_by_ns =
        now_mono_ns + connection->endpoint->peer.connect_timeout_ms * QN_NS_PER_MS;
    int64_t share_by_ns = now_mono_ns + (deadline_mono_ns - now_mono_ns) / (int64_t)left;
    quern_status status = connect_and_greet(
        connection, connect_by_ns < share_by_ns ? connect_by_ns : share_by_ns, err);
    if (status != QUERN_OK) {
        qn_connection_close(connection);
    } else {
        connection->answers_elsewhere = answers_elsewhere;
    }
    return status;
}

/* Whether another server, or the same one later, may be better. */
static bool may_pass(quern_status status)
{
    return status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT || status == QUERN_E_BUSY;
}

static void use(struct qn_connection *connection, const struct qn_server_choice *choice)
{
    qn_endpoint_unref(connection->endpoint);
    connection->endpoint = choice->endpoint;
    connection->generation = choice->generation;
    connection->socket.peer = &choice->endpoint->peer;
}

/* Whether another master may have been chosen while this one was connected to: a frozen one that
 * goes on takes itself for the master until the sentinels reach it, and what it stores is lost. */
static bool is_outdated(struct qn_failover *failover, const struct qn_server_choice *choice,
                        int64_t asked_mono_ns, int64_t deadline_mono_ns)
{
    struct qn_server_choice now;
    if (failover->find == NULL || qn_clock_mono_ns() - asked_mono_ns < FRESH_MS * QN_NS_PER_MS) {
        return false;
    }
    qn_failover_doubt(failover, choice->generation);
    if (qn_failover_choose(failover, deadline_mono_ns, &now, NULL) != QUERN_OK) {
        return true;
    }
    qn_endpoint_unref(now.endpoint);
    return now.generation != choice->generation;
}

/* Whether the sentinels have named another master while this one was tried: no attempt was made at
 * that one yet. */
static bool is_replaced(const struct qn_failover *failover, const struct qn_server_choice *choice)
{
    return !qn_failover_is_current(failover, choice->generation);
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* The server to connect to. Where the sentinels are about to replace it, this waits for the new
 * one for a while. */
static quern_status choose(struct qn_failover *failover, int64_t deadline_mono_ns,
                           struct qn_server_choice *ret_choice, quern_error *err)
{
    int64_t begun_mono_ns = qn_clock_mono_ns();
    int64_t end_ns = earlier(deadline_mono_ns, begun_mono_ns + REPLACED_WITHIN_MS * QN_NS_PER_MS);
    quern_status status = qn_failover_choose(failover, deadline_mono_ns, ret_choice, err);
    while (status == QUERN_E_BUSY && failover->find != NULL) {
        struct qn_server_choice old = qn_failover_current(failover);
        int64_t until_ns = qn_peer_end(&old.endpoint->peer, begun_mono_ns, end_ns);
        int64_t now_mono_ns = qn_clock_mono_ns();
        qn_endpoint_unref(old.endpoint);
        if (now_mono_ns >= until_ns) {
            break;
        }
        qn_failover_wait(failover, old.generation,
                         earlier(until_ns, now_mono_ns + ASK_AGAIN_MS * QN_NS_PER_MS));
        status = qn_failover_choose(failover, deadline_mono_ns, ret_choice, err);
    }
    return status;
}

quern_status qn_open_connection(struct qn_connection *connection, int64_t deadline_mono_ns,
                                quern_error *err)
{
    struct qn_failover *failover = connection->failover;
    if (connection->socket.fd >= 0) {
        return QUERN_OK;
    }
    if (failover == NULL) {
        return try_endpoint(connection, 1, deadline_mono_ns, err);
    }
    quern_error error = {0};
    size_t cycle = qn_failover_cycle(failover);
    quern_status status = QUERN_E_CONNECT;
    bool again = failover->find != NULL; /* once more, if the master is replaced meanwhile */
    for (size_t left = cycle; left > 0 && may_pass(status); left--) {
        struct qn_server_choice choice;
        status = choose(failover, deadline_mono_ns, &choice, &error);
        if (status != QUERN_OK) {
            break; /* the source does not know either */
        }
        int64_t asked_mono_ns = qn_clock_mono_ns();
        use(connection, &choice);
        status = try_endpoint(connection, left, deadline_mono_ns, &error);
        if (status == QUERN_OK && is_outdated(failover, &choice, asked_mono_ns, deadline_mono_ns)) {
            qn_connection_close(connection);
            status = qn_error_set(&error, QUERN_E_BUSY, "%s: the sentinels replace this master",
                                  connection->endpoint->peer.address);
        } else if (status == QUERN_OK) {
            qn_failover_answer(failover, choice.generation);
        } else if (may_pass(status)) {
            qn_failover_fail(failover, &choice, &error);
        } else {
            qn_failover_refuse(failover, &choice, &error);
        }
        if (again && is_replaced(failover, &choice)) {
            again = false;
            left++;
        }
    }
    if (status != QUERN_OK && cycle > 1 && may_pass(status)) {
        qn_error_prefix(&error, "none of %zu servers can be used, the last", cycle);
    }
    return status == QUERN_OK ? status : qn_error_set(err, status, "%s", error.text);
}
