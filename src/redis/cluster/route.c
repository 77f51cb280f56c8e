/* SPDX-License-Identifier: MIT */
/* route.c - sends each command of a pipeline to the node that owns its slot.
 *
 * A round (round.c) writes once to each node and then reads all replies, so that the nodes work at
 * the same time. What a node refused without doing it is sent again in a further round:
 * - it does not know the script (NOSCRIPT): with its text;
 * - it does not own the slot (MOVED): after one thread has asked for a newer map;
 * - the slot is being moved (ASK, TRYAGAIN), or its node is down or not yet ready: after a pause,
 *   until the deadline. ASKING is never sent: a script must find all keys of its queue at one node.
 * Nothing else is sent twice: where the reply to a command that writes is lost the pipeline fails,
 * as on one server. Nodes that send us from one to the other do not agree yet: they are asked after
 * pauses, until the deadline; hasty commands HOPS_MAX times. */
#include "redis/cluster/route.h"

#include <poll.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "redis/cluster/command_key.h"
#include "redis/cluster/round.h"
#include "redis/cluster/unsent.h"

#define HOPS_MAX 16 /* of MOVED, in one run, for hasty commands */
#define HOPS_FREE 3 /* the first of them without a pause */
#define PAUSE_MS_FIRST 4
#define PAUSE_MS_MAX 250
#define OPEN_MS 2000 /* for a newer map that others need */

static struct qn_cluster *cluster_of(const struct qn_route *route)
{
    return route->pipeline->channel->cluster;
}

/* --- Where a command goes ------------------------------------------------------------ */

static size_t key_at(const struct qn_pipeline *pipeline, const struct qn_pipeline_command *command)
{
    return qn_command_key_at(pipeline->args + command->first_arg, command->arg_count,
                             command->script != NULL);
}

/* A node for commands without a key: one that this run uses anyway, or any. -1: none is known. */
static int any_node(const struct qn_route *route)
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
static quern_status choose_nodes(struct qn_route *route, quern_error *err)
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
        if (qn_round_wants(command)) {
            command->goes_to = command->named >= 0 ? command->named : has_key ? nodes[i] : -1;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[route->first + i];
        if (qn_round_wants(command) && command->goes_to < 0 && key_at(pipeline, command) == 0) {
            command->goes_to = any_node(route);
        }
        if (qn_round_wants(command) && command->goes_to < 0) {
            route->stale = true;
            /* The first map is had at once, if a node answers. */
            route->later = route->fault.epoch > 0 || route->unmet != QUERN_OK;
            if (command->hasty && route->later) {
                qn_round_leave_out(route, command, &route->unmet_error);
            } else {
                route->again = true;
            }
        }
    }
    return QUERN_OK;
}

/* --- What a node refused -------------------------------------------------------------- */

/* Of the node that replied. */
static const char *address_of(const struct qn_route *route,
                              const struct qn_pipeline_command *command)
{
    return route->pipeline->channel->nodes[command->at]->endpoint->peer.address;
}

static quern_status follow(struct qn_route *route, struct qn_pipeline_command *command,
                           const struct qn_slot_place *place, quern_error *err)
{
    if (command->hasty && route->hops >= HOPS_MAX) {
        route->stale = true;
        return QUERN_OK; /* it is the reply */
    }
    int node = qn_cluster_node_at(cluster_of(route), place, command->at);
    if (node < 0) {
        return qn_error_set(err, QUERN_E_BROKER, "%s: names too many nodes (MOVED)",
                            address_of(route, command));
    }
    route->fault.better = node;
    route->stale = route->again = true;
    command->refusal = command->reply;
    command->reply = NULL;
    command->at = -1;
    return QUERN_OK;
}

/* What is to become of a command by its reply. */
static quern_status judge(struct qn_route *route, struct qn_pipeline_command *command,
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
                            address_of(route, command), command->reply->data);
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

static quern_status judge_all(struct qn_route *route, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = route->first; status == QUERN_OK && i < route->pipeline->command_count; i++) {
        if (route->pipeline->commands[i].reply != NULL) {
            status = judge(route, &route->pipeline->commands[i], err);
        }
    }
    return status;
}

static quern_status write_all(struct qn_route *route, quern_error *err)
{
    route->stale = route->later = route->again = false;
    quern_status status = choose_nodes(route, err);
    return status == QUERN_OK ? qn_round_write(route, err) : status;
}

/* The time is up: what a node refused is the reply. */
static quern_status give_up(struct qn_route *route, quern_error *err)
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

static void pause_before(struct qn_route *route)
{
    unsigned shift = route->pauses < 6 ? route->pauses : 6;
    uint64_t max_ms = (uint64_t)PAUSE_MS_FIRST << shift;
    max_ms = max_ms < PAUSE_MS_MAX ? max_ms : PAUSE_MS_MAX;
    int64_t left_ms = (qn_round_end(route) - qn_clock_mono_ns()) / 1000000;
    int64_t ms = 1 + (int64_t)qn_random_below(&route->pipeline->channel->random, max_ms);
    route->pauses++;
    (void)poll(NULL, 0, (int)(ms < left_ms ? ms : left_ms < 0 ? 0 : left_ms));
}

/* Before the next round: a newer map, a pause. */
static quern_status prepare_again(struct qn_route *route, quern_error *err)
{
    route->hops += route->fault.better >= 0 ? 1 : 0;
    if (route->later || route->hops > HOPS_FREE) {
        pause_before(route);
    }
    if (!route->stale && (!route->later || route->pauses % 4 != 0)) {
        return QUERN_OK;
    }
    quern_error error = {0};
    quern_status status =
        qn_cluster_refresh(cluster_of(route), &route->fault, qn_round_end(route), &error);
    if (status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT || status == QUERN_E_BUSY) {
        qn_round_note_unmet(route, status, &error);
        status = QUERN_OK;
    }
    if (status != QUERN_OK && err != NULL) {
        *err = error;
    }
    return status;
}

/* A fault of the map that this run need not wait for. */
static void refresh_for_others(struct qn_route *route)
{
    int64_t until_ns = qn_clock_mono_ns() + OPEN_MS * INT64_C(1000000);
    int64_t end_ns = qn_round_end(route);
    if (route->stale) {
        quern_status status = qn_cluster_refresh(cluster_of(route), &route->fault,
                                                 until_ns < end_ns ? until_ns : end_ns, NULL);
        (void)status; /* the next run finds the fault again */
    }
}

static struct qn_route begin(struct qn_pipeline *pipeline, size_t first)
{
    return (struct qn_route){.pipeline = pipeline,
                             .first = first,
                             .begun_mono_ns = qn_clock_mono_ns(),
                             .fault = {.better = -1, .worse = -1}};
}

quern_status qn_route_send(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    struct qn_route route = begin(pipeline, first);
    return write_all(&route, err);
}

quern_status qn_route_run(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    struct qn_route route = begin(pipeline, first);
    while (true) {
        quern_status written = write_all(&route, err);
        quern_error *to = written == QUERN_OK ? err : NULL;
        quern_status status = qn_round_read(&route, to);
        status = written == QUERN_OK ? status : written;
        status = status == QUERN_OK ? judge_all(&route, err) : status;
        if (status != QUERN_OK || !route.again) {
            refresh_for_others(&route);
            return status;
        }
        if (qn_clock_mono_ns() >= qn_round_end(&route)) {
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
