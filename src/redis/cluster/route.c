/* SPDX-License-Identifier: MIT */
/* route.c - sends each command of a pipeline to the node that owns its slot.
 *
 * A round writes once to each node and then reads all replies, so that the nodes work at the same
 * time. What a node refused without doing it is sent again in a further round:
 * - it does not know the script (NOSCRIPT): with its text;
 * - it does not own the slot (MOVED): after one thread has asked for a newer map;
 * - the slot is being moved (ASK, TRYAGAIN), or its node is down or not yet ready: after a pause,
 *   until the deadline. ASKING is never sent: a script must find all keys of its queue at one node.
 * Nothing else is sent twice: where the reply to a command that writes is lost the pipeline fails,
 * as on one server. A server that sends us around is followed HOPS_MAX times. */
#include "redis/cluster/route.h"

#include <poll.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/peer.h"
#include "redis/cluster/command_key.h"
#include "redis/cluster/unsent.h"
#include "redis/open.h"

#define HOPS_MAX 16 /* of MOVED, in one run */
#define HOPS_FREE 3 /* the first of them without a pause */
#define PAUSE_MS_FIRST 4
#define PAUSE_MS_MAX 250
#define OPEN_MS 2000 /* for a connection to a node: another may have taken its place meanwhile */

struct route {
    struct qn_pipeline *pipeline;
    size_t first;
    int64_t begun_mono_ns;
    unsigned hops;                 /* in this run */
    unsigned pauses;               /* the same */
    struct qn_cluster_fault fault; /* of the map that this round uses */
    bool stale;                    /* the map is at fault */
    bool later;                    /* something needs a pause */
    bool again;                    /* something has to be sent again */
    quern_status unmet;            /* why the latest command that was not sent could not be */
    quern_error unmet_error;
};

static struct qn_cluster *cluster_of(const struct route *route)
{
    return route->pipeline->channel->cluster;
}

static int64_t end_of(const struct route *route)
{
    return qn_peer_end(&cluster_of(route)->model->peer, route->begun_mono_ns,
                       route->pipeline->deadline_ns);
}

static void note_unmet(struct route *route, quern_status status, const quern_error *error)
{
    if (status != QUERN_E_TIMEOUT || qn_clock_mono_ns() < end_of(route)) {
        route->unmet = status;
        route->unmet_error = *error;
    }
}

static bool is_wanted(const struct qn_pipeline_command *command)
{
    return command->reply == NULL && command->at < 0;
}

static bool is_out(const struct qn_pipeline_command *command, int node)
{
    return command->reply == NULL && command->at == node;
}

/* --- Where a command goes ------------------------------------------------------------ */

static size_t key_at(const struct qn_pipeline *pipeline, const struct qn_pipeline_command *command)
{
    return qn_command_key_at(pipeline->args + command->first_arg, command->arg_count,
                             command->script != NULL);
}

/* A node for commands without a key: one that this run uses anyway, or any. -1: none is known. */
static int any_node(const struct route *route)
{
    const struct qn_pipeline *pipeline = route->pipeline;
    for (size_t i = route->first; i < pipeline->command_count; i++) {
        if (pipeline->commands[i].goes_to >= 0) {
            return pipeline->commands[i].goes_to;
        }
    }
    return qn_channel_any_node(pipeline->channel, route->fault.worse);
}

/* Sets goes_to of each wanted command; -1: no node is known for it. */
static quern_status choose_nodes(struct route *route, quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    size_t count = pipeline->command_count - route->first;
    uint16_t *slots = qn_arena_alloc(pipeline->arena, count * sizeof *slots + 1);
    int *nodes = qn_arena_alloc(pipeline->arena, count * sizeof *nodes + 1);
    if (slots == NULL || nodes == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[route->first + i];
        size_t at = command->first_arg + key_at(pipeline, command);
        slots[i] =
            at == command->first_arg ? 0 : qn_slots_of(pipeline->args[at], pipeline->arg_sizes[at]);
    }
    route->fault = (struct qn_cluster_fault){.better = -1, .worse = route->fault.worse};
    route->fault.epoch = qn_cluster_owners(cluster_of(route), slots, nodes, count);
    for (size_t i = 0; i < count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[route->first + i];
        bool has_key = key_at(pipeline, command) > 0;
        if (is_wanted(command)) {
            command->goes_to = command->named >= 0 ? command->named : has_key ? nodes[i] : -1;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[route->first + i];
        if (is_wanted(command) && command->goes_to < 0 && key_at(pipeline, command) == 0) {
            command->goes_to = any_node(route);
        }
        if (is_wanted(command) && command->goes_to < 0) {
            route->stale = route->again = true;
            /* The first map is had at once, if a node answers. */
            route->later = route->fault.epoch > 0 || route->unmet != QUERN_OK;
        }
    }
    return QUERN_OK;
}

/* --- Writing ------------------------------------------------------------------------- */

/* Nothing was sent: it may be tried again, unless another try would end as this one did. */
static quern_status put_off(struct route *route, int node, quern_status status,
                            const quern_error *error)
{
    struct qn_pipeline *pipeline = route->pipeline;
    if (status != QUERN_E_CONNECT && status != QUERN_E_TIMEOUT && status != QUERN_E_BUSY) {
        return status;
    }
    static const struct qn_reply down = {
        .type = QN_REPLY_ERROR, .data = "CLUSTERDOWN the node cannot be reached", .size = 38};
    for (size_t i = route->first; i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (!is_wanted(command) || command->goes_to != node) {
            continue;
        }
        route->again = route->again || !command->hasty;
        command->reply = command->hasty ? (struct qn_reply *)(uintptr_t)&down : NULL;
    }
    route->fault.worse = node;
    route->stale = route->later = true;
    note_unmet(route, status, error);
    return QUERN_OK;
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

static quern_status open_node(struct route *route, struct qn_connection *connection, int node,
                              quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    int64_t until_ns = qn_clock_mono_ns() + OPEN_MS * INT64_C(1000000);
    if (connection->socket.fd >= 0 && !any_out(pipeline, node) &&
        qn_connection_is_stale(connection)) {
        qn_connection_close(connection);
    }
    connection->socket.timeout_ms = (pipeline->deadline_ns - route->begun_mono_ns) / 1000000;
    return qn_open_connection(
        connection, until_ns < pipeline->deadline_ns ? until_ns : pipeline->deadline_ns, err);
}

static void set_at(struct route *route, int node)
{
    struct qn_pipeline *pipeline = route->pipeline;
    for (size_t i = route->first; i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (is_wanted(command) && command->goes_to == node) {
            command->at = node;
        }
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

static quern_status write_node(struct route *route, int node, quern_error *err)
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
    set_at(route, node);
    status = qn_connection_send(connection, data, size, pipeline->deadline_ns, err);
    pipeline->maybe_done = pipeline->maybe_done || connection->socket.sent_bytes > sent_before;
    if (status == QUERN_E_CONNECT && is_new && connection->socket.sent_bytes == sent_before) {
        forget_at(pipeline, node);
        status = put_off(route, node, status, err);
    }
    return status;
}

/* After a loss: reads may be asked again. True: they will be. */
static bool take_back(struct route *route, int node, quern_status status, const quern_error *error)
{
    struct qn_pipeline *pipeline = route->pipeline;
    bool lost = status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT;
    if (pipeline->kind != QN_PIPELINE_READS || !lost) {
        return false;
    }
    forget_at(pipeline, node);
    route->fault.worse = node;
    route->stale = route->later = route->again = true;
    if (route->unmet == QUERN_OK) {
        route->unmet = status;
        route->unmet_error = *error;
    }
    return true;
}

/* Calls `step` for each node of the commands, in the order of their first one, with a place for its
 * error. All are dealt with, the first failure is returned. */
static quern_status each_node(struct route *route, bool out,
                              quern_status (*step)(struct route *, int, quern_error *),
                              quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    quern_status first = QUERN_OK;
    bool *done = qn_arena_alloc(pipeline->arena, QN_SLOT_NODES_MAX * sizeof *done);
    if (done == NULL) {
        return qn_error_nomem(err);
    }
    memset(done, 0, QN_SLOT_NODES_MAX * sizeof *done);
    for (size_t i = out ? 0 : route->first; i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        int node = command->reply != NULL ? -1 : out ? command->at : command->goes_to;
        if (node < 0 || done[node] || (!out && !is_wanted(command))) {
            continue;
        }
        done[node] = true;
        quern_error error = {0};
        quern_status status = step(route, node, &error);
        if (status != QUERN_OK && !take_back(route, node, status, &error) && first == QUERN_OK) {
            first = status;
            if (err != NULL) {
                *err = error;
            }
        }
    }
    return first;
}

/* --- Reading ------------------------------------------------------------------------- */

static quern_status follow(struct route *route, struct qn_pipeline_command *command,
                           const struct qn_slot_place *place, quern_error *err)
{
    const char *address = qn_cluster_endpoint(cluster_of(route), command->at)->peer.address;
    int node = qn_cluster_node_at(cluster_of(route), place, command->at);
    if (node < 0) {
        return qn_error_set(err, QUERN_E_BROKER, "%s: names too many nodes (MOVED)", address);
    }
    route->fault.better = node;
    route->stale = route->again = true;
    command->refusal = command->reply;
    command->reply = NULL;
    command->at = -1;
    return QUERN_OK;
}

/* What is to become of a command by its reply. */
static quern_status judge(struct route *route, struct qn_pipeline_command *command,
                          quern_error *err)
{
    struct qn_slot_place place;
    if (command->reply->type != QN_REPLY_ERROR) {
        return QUERN_OK;
    }
    if (qn_unsent_lacks_script(route->pipeline, command)) {
        command->at = -1;
        route->again = true;
        return QUERN_OK;
    }
    switch (qn_slots_advice(command->reply, &place)) {
    case QN_SLOT_MOVED:
        return follow(route, command, &place, err);
    case QN_SLOT_BAD:
        return qn_error_set(err, QUERN_E_BROKER, "%s: sends us to no place: %.60s",
                            qn_cluster_endpoint(cluster_of(route), command->at)->peer.address,
                            command->reply->data);
    case QN_SLOT_WAIT:
        if (!command->hasty) {
            command->refusal = command->reply;
            command->reply = NULL;
            command->at = -1;
            route->later = route->again = true;
        }
        return QUERN_OK;
    case QN_SLOT_FINE:
    default:
        return QUERN_OK;
    }
}

static quern_status read_node(struct route *route, int node, quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    struct qn_connection *connection = qn_channel_connection(pipeline->channel, node);
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (is_out(command, node)) {
            qn_connection_limit(connection, command->reply_size_max);
            status = connection->socket.fd < 0
                         ? qn_error_set(err, QUERN_E_CONNECT, "%s: connection lost",
                                        connection->endpoint->peer.address)
                         : qn_connection_receive(connection, pipeline->arena, pipeline->deadline_ns,
                                                 &command->reply, err);
        }
    }
    return status == QUERN_OK ? qn_connection_expect_no_more(connection, err) : status;
}

static quern_status judge_all(struct route *route, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = route->first; status == QUERN_OK && i < route->pipeline->command_count; i++) {
        if (route->pipeline->commands[i].reply != NULL) {
            status = judge(route, &route->pipeline->commands[i], err);
        }
    }
    return status;
}

static quern_status write_all(struct route *route, quern_error *err)
{
    route->stale = route->later = route->again = false;
    quern_status status = choose_nodes(route, err);
    return status == QUERN_OK ? each_node(route, false, write_node, err) : status;
}

/* The time is up: what a node refused is the reply. */
static quern_status give_up(struct route *route, quern_error *err)
{
    struct qn_pipeline *pipeline = route->pipeline;
    bool all = true;
    for (size_t i = route->first; i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (command->reply == NULL) {
            command->reply = command->refusal;
            all = all && command->reply != NULL;
        }
    }
    if (all) {
        return QUERN_OK;
    }
    if (route->unmet != QUERN_OK) {
        if (err != NULL) {
            *err = route->unmet_error;
        }
        return route->unmet;
    }
    return qn_error_set(err, QUERN_E_BUSY, "%s: no node owns the slot of the queue",
                        cluster_of(route)->model->peer.address);
}

static void pause_before(struct route *route)
{
    unsigned shift = route->pauses < 6 ? route->pauses : 6;
    uint64_t max_ms = (uint64_t)PAUSE_MS_FIRST << shift;
    max_ms = max_ms < PAUSE_MS_MAX ? max_ms : PAUSE_MS_MAX;
    int64_t left_ms = (end_of(route) - qn_clock_mono_ns()) / 1000000;
    int64_t ms = 1 + (int64_t)qn_random_below(&route->pipeline->channel->random, max_ms);
    route->pauses++;
    (void)poll(NULL, 0, (int)(ms < left_ms ? ms : left_ms < 0 ? 0 : left_ms));
}

/* Before the next round: a newer map, a pause. */
static quern_status prepare_again(struct route *route, quern_error *err)
{
    route->hops += route->fault.better >= 0 ? 1 : 0;
    if (route->hops > HOPS_MAX) {
        return qn_error_set(err, QUERN_E_BROKER,
                            "%s: the nodes send us from one to the other (MOVED, %d times)",
                            cluster_of(route)->model->peer.address, HOPS_MAX);
    }
    if (route->later || route->hops > HOPS_FREE) {
        pause_before(route);
    }
    if (!route->stale && (!route->later || route->pauses % 4 != 0)) {
        return QUERN_OK;
    }
    quern_error error = {0};
    quern_status status =
        qn_cluster_refresh(cluster_of(route), &route->fault, end_of(route), &error);
    if (status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT || status == QUERN_E_BUSY) {
        note_unmet(route, status, &error);
        status = QUERN_OK;
    }
    if (status != QUERN_OK && err != NULL) {
        *err = error;
    }
    return status;
}

/* A fault of the map that this run need not wait for. */
static void refresh_for_others(struct route *route)
{
    int64_t until_ns = qn_clock_mono_ns() + OPEN_MS * INT64_C(1000000);
    int64_t end_ns = end_of(route);
    if (route->stale) {
        quern_status status = qn_cluster_refresh(cluster_of(route), &route->fault,
                                                 until_ns < end_ns ? until_ns : end_ns, NULL);
        (void)status; /* the next run finds the fault again */
    }
}

static struct route begin(struct qn_pipeline *pipeline, size_t first)
{
    return (struct route){.pipeline = pipeline,
                          .first = first,
                          .begun_mono_ns = qn_clock_mono_ns(),
                          .fault = {.better = -1, .worse = -1}};
}

quern_status qn_route_send(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    struct route route = begin(pipeline, first);
    return write_all(&route, err);
}

quern_status qn_route_run(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    struct route route = begin(pipeline, first);
    while (true) {
        quern_status written = write_all(&route, err);
        quern_error *to = written == QUERN_OK ? err : NULL;
        quern_status status = each_node(&route, true, read_node, to);
        status = written == QUERN_OK ? status : written;
        status = status == QUERN_OK ? judge_all(&route, err) : status;
        if (status != QUERN_OK || !route.again) {
            refresh_for_others(&route);
            return status;
        }
        if (qn_clock_mono_ns() >= end_of(&route)) {
            return give_up(&route, err);
        }
        status = prepare_again(&route, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
}

void qn_route_drop(struct qn_pipeline *pipeline)
{
    struct qn_channel *channel = pipeline->channel;
    for (size_t i = 0; i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        if (command->reply == NULL && command->at >= 0 && channel->nodes[command->at] != NULL) {
            qn_connection_close(channel->nodes[command->at]);
        }
    }
}
