/* SPDX-License-Identifier: MIT */
/* round.c - writes to the nodes and reads from them.
 *
 * No node waits for another. Nodes to which there is a connection are written to first, as opening
 * one takes time; then the replies are read in the order in which they come. A node all of whose
 * commands are hasty has NODE_MS for each step, and longer while a large reply arrives. After that
 * it is noted as silent (silence.h), and its commands get an error reply: `lost` if they may have
 * been done. Other commands wait until the deadline of the run, but are not sent to a node that is
 * known to be silent: there their effect would be unknown. */
#include "redis/cluster/round.h"

#include <poll.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/peer.h"
#include "redis/cluster/silence.h"
#include "redis/cluster/unsent.h"
#include "redis/open.h"

#define OPEN_MS 2000 /* for a connection to a node: another may have taken its place meanwhile */
#define NODE_MS 500  /* for hasty commands */
#define LOOK_MS 100

/* What a hasty command gets in place of the reply of its node. */
static const char unreached_text[] = "CLUSTERDOWN the node cannot be reached";
static const char unanswered_text[] = "CLUSTERDOWN the node does not answer";
static const struct qn_reply unreached = {
    .type = QN_REPLY_ERROR, .data = unreached_text, .size = sizeof unreached_text - 1};
static const struct qn_reply unanswered = {
    .type = QN_REPLY_ERROR, .data = unanswered_text, .size = sizeof unanswered_text - 1};

static struct qn_cluster *cluster_of(const struct qn_route *route)
{
    return route->pipeline->channel->cluster;
}

int64_t qn_round_end(const struct qn_route *route)
{
    return qn_peer_end(&cluster_of(route)->model->peer, route->begun_mono_ns,
                       route->pipeline->deadline_ns);
}

void qn_round_note_unmet(struct qn_route *route, quern_status status, const quern_error *error)
{
    if (status != QUERN_E_TIMEOUT || qn_clock_mono_ns() < qn_round_end(route)) {
        route->unmet = status;
        route->unmet_error = *error;
    }
}

static bool is_out(const struct qn_pipeline_command *command, int node)
{
    return command->reply == NULL && command->at == node;
}

static bool is_for(const struct qn_pipeline_command *command, int node)
{
    return qn_round_wants(command) && command->goes_to == node;
}

static bool any_out(const struct qn_pipeline *pipeline, int node)
{
    for (size_t i = 0; i < pipeline->command_count; i++) {
        if (is_out(&pipeline->commands[i], node)) {
            return true;
        }
    }
    return false;
}

/* Whether nothing that this node has, or is to have, may wait for it. */
static bool is_hasty(const struct qn_pipeline *pipeline, int node)
{
    for (size_t i = 0; i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        if ((is_out(command, node) || is_for(command, node)) && !command->hasty) {
            return false;
        }
    }
    return true;
}

static int64_t hasty_ms(const struct qn_route *route)
{
    return NODE_MS + route->pipeline->patience_ms;
}

/* Until when to wait for the next step of a node. */
static int64_t step_end(const struct qn_route *route, int node, int64_t patient_ms)
{
    int64_t end_ns = route->pipeline->deadline_ns;
    int64_t ms = is_hasty(route->pipeline, node) ? hasty_ms(route) : patient_ms;
    int64_t step_ns = qn_clock_mono_ns() + ms * QN_NS_PER_MS;
    return ms > 0 && step_ns < end_ns ? step_ns : end_ns;
}

static bool is_absence(quern_status status)
{
    return status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT;
}

/* Where memory is out the error is not named. */
static void set_absent(struct qn_route *route, struct qn_pipeline_command *command,
                       const quern_error *error)
{
    command->absent = true;
    if (error->code != QUERN_OK && error->code != QUERN_E_TIMEOUT) {
        command->reason = qn_arena_copy(route->pipeline->arena, error, sizeof *error);
    }
}

void qn_round_leave_out(struct qn_route *route, struct qn_pipeline_command *command,
                        const quern_error *error)
{
    set_absent(route, command, error);
    command->reply = (struct qn_reply *)(uintptr_t)&unreached; /* replies are only read */
}

/* Its commands that are not hasty are tried again. */
static void put_off_all(struct qn_route *route, int node, const quern_error *error)
{
    struct qn_pipeline *pipeline = route->pipeline;
    for (size_t i = route->first; i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (is_for(command, node) && command->hasty) {
            qn_round_leave_out(route, command, error);
        } else if (is_for(command, node)) {
            route->again = true;
        }
    }
    route->fault.worse = node;
    route->later = true;
}

/* Nothing was sent: it may be tried again, unless another try would end as this one did. */
static quern_status put_off(struct qn_route *route, int node, quern_status status,
                            const quern_error *error)
{
    if (!is_absence(status) && status != QUERN_E_BUSY) {
        return status;
    }
    if (is_absence(status)) {
        qn_silence_note(cluster_of(route), node, error);
    }
    put_off_all(route, node, error);
    route->stale = route->stale || !qn_silence_is(cluster_of(route), node);
    qn_round_note_unmet(route, status, error);
    return QUERN_OK;
}

static void put_off_silent(struct qn_route *route, int node)
{
    quern_error error = {0};
    quern_status status = qn_silence_reason(cluster_of(route), node, &error);
    put_off_all(route, node, &error);
    if (route->unmet == QUERN_OK) {
        qn_round_note_unmet(route, status, &error);
    }
}

/* What is out at this node is wanted again. */
static void forget_at(struct qn_pipeline *pipeline, int node)
{
    for (size_t i = 0; i < pipeline->command_count; i++) {
        if (is_out(&pipeline->commands[i], node)) {
            pipeline->commands[i].at = -1;
        }
    }
}

/* After a failure of a node that has commands. True: the run goes on without it. Reads may be asked
 * again; hasty writes are lost. */
static bool go_on(struct qn_route *route, int node, quern_status status, const quern_error *error)
{
    struct qn_pipeline *pipeline = route->pipeline;
    bool hasty = is_hasty(pipeline, node);
    bool reads = pipeline->kind == QN_PIPELINE_READS;
    if (!is_absence(status) || (!hasty && !reads)) {
        return false;
    }
    if (status == QUERN_E_TIMEOUT && hasty) {
        qn_silence_note(cluster_of(route), node, error);
    }
    for (size_t i = 0; hasty && i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (is_out(command, node) && (!reads || status == QUERN_E_TIMEOUT)) {
            command->reply = (struct qn_reply *)(uintptr_t)&unanswered;
            set_absent(route, command, error);
            command->lost = true;
        }
    }
    route->again = route->again || any_out(pipeline, node);
    forget_at(pipeline, node);
    route->fault.worse = node;
    route->later = true;
    route->stale = route->stale || !qn_silence_is(cluster_of(route), node);
    if (route->unmet == QUERN_OK) {
        route->unmet = status;
        route->unmet_error = *error;
    }
    return true;
}

/* The nodes of the commands that are out, or wanted, each once. */
static int *list_nodes(const struct qn_route *route, bool out, size_t *ret_count)
{
    const struct qn_pipeline *pipeline = route->pipeline;
    size_t count = 0;
    int *nodes = qn_arena_alloc(pipeline->arena, pipeline->command_count * sizeof *nodes + 1);
    for (size_t i = out ? 0 : route->first; nodes != NULL && i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        int node = command->reply != NULL    ? -1
                   : out                     ? command->at
                   : qn_round_wants(command) ? command->goes_to
                                             : -1;
        bool known = node < 0;
        for (size_t k = 0; !known && k < count; k++) {
            known = nodes[k] == node;
        }
        if (!known) {
            nodes[count++] = node;
        }
    }
    *ret_count = count;
    return nodes;
}

/* Keeps the first failure that ends the run. */
static void keep_first(quern_status *first, quern_error *err, quern_status status,
                       const quern_error *error)
{
    if (*first == QUERN_OK && status != QUERN_OK) {
        *first = status;
        if (err != NULL) {
            *err = *error;
        }
    }
}

/* --- Writing ------------------------------------------------------------------------- */

static quern_status open_node(struct qn_route *route, struct qn_connection *connection, int node,
                              quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    if (connection->socket.fd >= 0 && !any_out(pipeline, node) &&
        qn_connection_is_stale(connection)) {
        qn_connection_close(connection);
    }
    connection->socket.timeout_ms = (pipeline->deadline_ns - route->begun_mono_ns) / 1000000;
    return qn_open_connection(connection, step_end(route, node, OPEN_MS), err);
}

static void set_at(struct qn_route *route, int node)
{
    struct qn_pipeline *pipeline = route->pipeline;
    for (size_t i = route->first; i < pipeline->command_count; i++) {
        if (is_for(&pipeline->commands[i], node)) {
            pipeline->commands[i].at = node;
        }
    }
}

static quern_status write_node(struct qn_route *route, int node, quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    struct qn_connection *connection = qn_channel_connection(pipeline->channel, node);
    size_t size = 0;
    if (connection == NULL) {
        return qn_error_nomem(err);
    }
    if (qn_unsent_waits(pipeline, route->first, node)) {
        route->again = true; /* when what is out there has been read */
        return QUERN_OK;
    }
    quern_status status = open_node(route, connection, node, err);
    if (status != QUERN_OK) {
        return put_off(route, node, status, err);
    }
    char *data = qn_unsent_format(pipeline, route->first, node, &size);
    if (data == NULL) {
        return qn_error_nomem(err);
    }
    uint64_t sent_before = connection->socket.sent_bytes;
    bool is_new = !any_out(pipeline, node);
    int64_t end_ns = step_end(route, node, 0);
    set_at(route, node);
    status = qn_connection_send(connection, data, size, end_ns, err);
    pipeline->maybe_done = pipeline->maybe_done || connection->socket.sent_bytes > sent_before;
    if (is_absence(status) && is_new && connection->socket.sent_bytes == sent_before) {
        forget_at(pipeline, node);
        return put_off(route, node, status, err);
    }
    return status != QUERN_OK && go_on(route, node, status, err) ? QUERN_OK : status;
}

static bool is_open(const struct qn_route *route, int node)
{
    const struct qn_connection *connection = qn_channel_connection(route->pipeline->channel, node);
    return connection != NULL && connection->socket.fd >= 0;
}

quern_status qn_round_write(struct qn_route *route, quern_error *err)
{
    size_t count = 0;
    quern_status first = QUERN_OK;
    int *nodes = list_nodes(route, false, &count);
    if (nodes == NULL) {
        return qn_error_nomem(err);
    }
    for (int opens = 0; opens <= 1; opens++) {
        for (size_t i = 0; i < count; i++) {
            quern_error error = {0};
            if (nodes[i] < 0 || (opens == 0 && !is_open(route, nodes[i]))) {
                continue;
            }
            if (qn_silence_is(cluster_of(route), nodes[i])) {
                put_off_silent(route, nodes[i]);
            } else {
                keep_first(&first, err, write_node(route, nodes[i], &error), &error);
            }
            nodes[i] = -1;
        }
    }
    return first;
}

/* --- Reading ------------------------------------------------------------------------- */

static quern_status read_node(struct qn_route *route, int node, int64_t end_ns, quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    struct qn_connection *connection = qn_channel_connection(pipeline->channel, node);
    quern_status status = QUERN_OK;
    connection->lenient_until_mono_ns = QN_BUG(LARGE_IS_SILENT) ? 0 : pipeline->deadline_ns;
    connection->lenient_bytes = 0;
    for (size_t i = 0; status == QUERN_OK && i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (is_out(command, node)) {
            qn_connection_limit(connection, command->reply_size_max);
            status = connection->socket.fd < 0
                         ? qn_error_set(err, QUERN_E_CONNECT, "%s: connection lost",
                                        connection->endpoint->peer.address)
                         : qn_connection_receive(connection, pipeline->arena, end_ns,
                                                 &command->reply, err);
        }
    }
    connection->lenient_until_mono_ns = 0;
    status = status == QUERN_OK ? qn_connection_expect_no_more(connection, err) : status;
    return status != QUERN_OK && go_on(route, node, status, err) ? QUERN_OK : status;
}

/* Whether something of its replies, or its end, is there already. */
static bool is_ready(const struct qn_connection *connection, const struct pollfd *poller)
{
    return connection->socket.fd < 0 || poller->revents != 0 ||
           qn_decode_has_unread(&connection->decoder) || qn_socket_has_bytes(&connection->socket);
}

/* Waits until one of the nodes has something. Returns its place, or `count`. */
static size_t await_any(const struct qn_route *route, const int *nodes, size_t count,
                        struct pollfd *pollers, int64_t until_mono_ns)
{
    struct qn_channel *channel = route->pipeline->channel;
    int64_t left_ms = LOOK_MS;
    for (size_t i = 0; i < count; i++) {
        const struct qn_connection *connection = qn_channel_connection(channel, nodes[i]);
        pollers[i] = (struct pollfd){.fd = connection->socket.fd, .events = POLLIN};
        left_ms = is_ready(connection, &pollers[i]) ? 0 : left_ms;
    }
    while (left_ms >= 0) {
        (void)poll(pollers, count, (int)left_ms);
        for (size_t i = 0; i < count; i++) {
            if (is_ready(qn_channel_connection(channel, nodes[i]), &pollers[i])) {
                return i;
            }
        }
        int64_t left_ns = until_mono_ns - qn_clock_mono_ns();
        bool is_over = left_ns <= 0 || qn_clock_mono_ns() >= qn_round_end(route);
        left_ms = is_over                            ? -1
                  : left_ns / QN_NS_PER_MS < LOOK_MS ? left_ns / QN_NS_PER_MS + 1
                                                     : LOOK_MS;
    }
    return count;
}

quern_status qn_round_read(struct qn_route *route, quern_error *err)
{
    size_t count = 0;
    quern_status first = QUERN_OK;
    int64_t until_ns = qn_clock_mono_ns() + hasty_ms(route) * QN_NS_PER_MS;
    int *nodes = list_nodes(route, true, &count);
    struct pollfd *pollers = qn_arena_alloc(route->pipeline->arena, count * sizeof *pollers + 1);
    if (nodes == NULL || pollers == NULL) {
        return qn_error_nomem(err);
    }
    while (count > 0) {
        quern_error error = {0};
        size_t at = count > 1 ? await_any(route, nodes, count, pollers, until_ns) : 0;
        bool is_late = at == count; /* from now on one after the other */
        at = is_late ? 0 : at;
        int64_t end_ns = is_late && is_hasty(route->pipeline, nodes[at])
                             ? qn_clock_mono_ns()
                             : step_end(route, nodes[at], 0);
        keep_first(&first, err, read_node(route, nodes[at], end_ns, &error), &error);
        nodes[at] = nodes[--count];
    }
    return first;
}
