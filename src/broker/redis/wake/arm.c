/* SPDX-License-Identifier: MIT */
/* arm.c - arms the wake-up: reads, over the tracked connection, every key that could bring work.
 *
 * Each key that is read wakes the listener once when it changes, also when Go's clients or scripts
 * change it. One write carries the order to redirect, where the pair is new, and the script that
 * reads (pair.c). If the listener dies later, wait finds out, and that wakes, too.
 *
 * If the pair cannot be had while the pump has a connection (the server has no room for more
 * clients, for example), the pump's connection reads, nothing wakes us, and wait fails. */
#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/node.h"
#include "broker/redis/wake/arm_lua.h"
#include "broker/redis/wake/pair.h"
#include "redis/cluster/silence.h"

enum {
    PAIR_AFTER_MS_MIN = 2500, /* until it is tried again */
    PAIR_AFTER_MS_MAX = 5000,
    LATER_MS = 100,   /* until a queue is looked at again that cannot answer */
    UNHEARD_MS = 1000 /* until queues are that can, but whose node has no listener of ours */
};

/* The queues of one server; on a cluster of one queue, as each is at a node of its own. */
static void add_call(struct qn_redis *self, struct qn_pipeline *pipeline, struct qn_names queues)
{
    static const char *const keys[] = {"pending",    "paused",    "scheduled",   "retry",
                                       QN_KEY_DUE,   QN_KEY_SKIP, QN_KEY_BRAKED, QN_KEY_LIMITS,
                                       QN_KEY_LANES, QN_KEY_IDLE, "active"};
    size_t key_count = sizeof keys / sizeof keys[0] - (self->awaits_ends ? 0 : 1);
    qn_pipeline_script(pipeline, &qn_lua_arm, queues.count * key_count);
    for (size_t i = 0; i < queues.count * key_count; i++) {
        qn_keys_add(pipeline, queues.items[i / key_count], keys[i % key_count]);
    }
    qn_pipeline_text(pipeline, qn_redis_served_host(&self->served, pipeline->arena));
    qn_pipeline_int(pipeline, (int64_t)key_count);
}

/* The connections and commands of one attempt. */
struct attempt {
    struct qn_pipeline pipeline;
    struct qn_redis_pair pairs[QN_EARS_MAX];
    size_t pair_count;
    size_t calls_from;        /* the first command that reads */
    int nodes[QN_QUEUES_MAX]; /* where each queue is thought to be; -1: nowhere */
    int owners[QN_EARS_MAX];  /* each of these once */
    size_t owner_count;
};

static void build_arm(struct qn_redis *self, struct attempt *attempt, struct qn_names queues)
{
    struct qn_pipeline *pipeline = &attempt->pipeline;
    for (size_t i = 0; i < attempt->pair_count; i++) {
        qn_redis_pair_redirect(pipeline, &attempt->pairs[i]);
    }
    attempt->calls_from = pipeline->command_count;
    if (self->cluster == NULL) {
        add_call(self, pipeline, queues);
    }
    for (size_t i = 0; self->cluster != NULL && i < queues.count; i++) {
        add_call(self, pipeline, (struct qn_names){&queues.items[i], 1});
        qn_pipeline_hasty(pipeline);
    }
}

struct armed {
    bool paired; /* the connections that listen are as they were */
    bool work;
    bool full; /* a queue gives nothing until one of its runs ends */
    int64_t next_due_at_ms;
};

static void note_due(struct armed *armed, int64_t at_ms)
{
    armed->next_due_at_ms = at_ms < armed->next_due_at_ms ? at_ms : armed->next_due_at_ms;
}

static quern_status read_call(const struct qn_redis *self, const struct qn_pipeline *pipeline,
                              size_t index, struct armed *armed, quern_error *err)
{
    const struct qn_reply *reply;
    quern_status status = qn_pipeline_reply(pipeline, index, &reply, err);
    if (status == QUERN_E_BUSY && pipeline->commands[index].hasty) {
        /* The queue is being moved, or its node is down: it is looked at again soon. */
        note_due(armed, qn_clock_wall_ms(self->base.clock) + LATER_MS);
        return QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_expect(pipeline, reply->type == QN_REPLY_ARRAY && reply->count == 3,
                                    qn_lua_arm.name, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    int64_t until_us = qn_reply_span_us(qn_reply_at(reply, 1), -1);
    armed->work = armed->work || qn_reply_int(qn_reply_at(reply, 0), 0) != 0;
    armed->full = armed->full || qn_reply_int(qn_reply_at(reply, 2), 0) != 0;
    if (until_us >= 0) {
        note_due(armed, qn_clock_wall_in_us(self->base.clock, until_us));
    }
    return QUERN_OK;
}

static quern_status read_answers(const struct qn_redis *self, const struct attempt *attempt,
                                 struct armed *ret_armed, quern_error *err)
{
    quern_status status = qn_pipeline_any_present(&attempt->pipeline, attempt->calls_from, err);
    ret_armed->work = false;
    ret_armed->full = false;
    ret_armed->next_due_at_ms = INT64_MAX;
    for (size_t i = attempt->calls_from; status == QUERN_OK && i < attempt->pipeline.command_count;
         i++) {
        status = read_call(self, &attempt->pipeline, i, ret_armed, err);
    }
    return status;
}

/* --- The connections that listen ------------------------------------------------------ */

/* Finds where the queues are, and which nodes these are. */
static quern_status find_nodes(struct qn_redis *self, struct attempt *attempt,
                               struct qn_names queues, quern_error *err)
{
    size_t count = 0;
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        bool known = false;
        status = qn_node_of_queue(self->cluster, attempt->pipeline.arena, queues.items[i],
                                  &attempt->nodes[i], err);
        for (size_t k = 0; k < count; k++) {
            known = known || attempt->owners[k] == attempt->nodes[i];
        }
        if (status == QUERN_OK && !known && attempt->nodes[i] >= 0 && count < QN_EARS_MAX) {
            attempt->owners[count++] = attempt->nodes[i];
        }
    }
    attempt->owner_count = count;
    return status;
}

/* A pair at each node that owns a queue. A node that cannot be reached, or that has no room for one
 * more connection, has none, and arm is called again soon. */
static quern_status prepare_nodes(struct qn_redis *self, struct attempt *attempt,
                                  struct qn_names queues, quern_error *err)
{
    quern_status first = QUERN_OK;
    uint64_t epoch = qn_cluster_epoch(self->cluster);
    quern_status status = find_nodes(self, attempt, queues, err);
    if (status != QUERN_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&self->listener.mutex);
    self->listener.armed_epoch = epoch;
    qn_redis_listener_keep(&self->listener, attempt->owners, attempt->owner_count);
    (void)pthread_mutex_unlock(&self->listener.mutex);
    for (size_t i = 0; i < attempt->owner_count; i++) {
        struct qn_redis_pair *pair = &attempt->pairs[attempt->pair_count];
        if (qn_silence_is(self->cluster, attempt->owners[i])) {
            status = first != QUERN_OK ? first
                                       : qn_silence_reason(self->cluster, attempt->owners[i], err);
        } else {
            status = qn_redis_pair_prepare(self, attempt->owners[i], pair,
                                           first == QUERN_OK ? err : NULL);
        }
        attempt->pair_count += status == QUERN_OK ? 1 : 0;
        first = first == QUERN_OK ? status : first;
    }
    return attempt->pair_count > 0 || attempt->owner_count == 0 ? QUERN_OK : first;
}

static quern_status prepare(struct qn_redis *self, struct attempt *attempt, struct qn_names queues,
                            quern_error *err)
{
    if (self->cluster != NULL) {
        return prepare_nodes(self, attempt, queues, err);
    }
    attempt->pair_count = 1;
    return qn_redis_pair_prepare(self, 0, &attempt->pairs[0], err);
}

/* Whether all that was read is being listened to. */
static bool settle(struct qn_redis *self, const struct attempt *attempt)
{
    bool settled = true;
    for (size_t i = 0; i < attempt->pair_count; i++) {
        settled = qn_redis_pair_settle(self, &attempt->pairs[i], &attempt->pipeline) && settled;
    }
    for (size_t i = attempt->calls_from;
         self->cluster != NULL && i < attempt->pipeline.command_count; i++) {
        const struct qn_pipeline_command *command = &attempt->pipeline.commands[i];
        settled = settled && (command->reply->type == QN_REPLY_ERROR ||
                              command->at == attempt->nodes[i - attempt->calls_from]);
    }
    return settled;
}

/* The result of arm: if the broker was empty, only notifications wake us. */
static void note_arm(struct qn_redis_listener *listener, bool armed, int64_t next_due_at_ms)
{
    (void)pthread_mutex_lock(&listener->mutex);
    qn_wake_state_change(&listener->state, armed ? QN_WAKE_ARMED : QN_WAKE_BUSY);
    listener->due_at_ms = next_due_at_ms;
    (void)pthread_mutex_unlock(&listener->mutex);
}

/* Where the pair fell apart meanwhile, it is worth another try. */
static quern_status try_arm(struct qn_redis *self, struct qn_names queues, struct armed *ret_armed,
                            quern_error *err)
{
    struct attempt attempt;
    attempt.pair_count = 0;
    qn_redis_begin(&attempt.pipeline, self, QN_CHANNEL_TRACKED, QN_PIPELINE_READS);
    quern_status status = prepare(self, &attempt, queues, err);
    if (status == QUERN_OK) {
        build_arm(self, &attempt, queues);
        status = qn_pipeline_run(&attempt.pipeline, err);
    }
    if (status == QUERN_OK) {
        ret_armed->paired = settle(self, &attempt);
        status = read_answers(self, &attempt, ret_armed, err);
    }
    if (status == QUERN_OK && self->cluster != NULL && attempt.pair_count < attempt.owner_count &&
        !QN_BUG(UNHEARD_IS_ARMED)) {
        note_due(ret_armed, qn_clock_wall_ms(self->base.clock) + UNHEARD_MS);
    }
    if (status == QUERN_OK) {
        note_arm(&self->listener, ret_armed->paired && !ret_armed->work, ret_armed->next_due_at_ms);
    }
    qn_pipeline_end(&attempt.pipeline);
    return status;
}

/* --- Without a pair ------------------------------------------------------------------- */

static bool may_pair(struct qn_redis_listener *listener)
{
    (void)pthread_mutex_lock(&listener->mutex);
    bool may = !qn_wake_state_is_unpaired(&listener->state) ||
               qn_clock_mono_ns() >= listener->pair_at_mono_ns;
    (void)pthread_mutex_unlock(&listener->mutex);
    return may;
}

static void note_paired(struct qn_redis_listener *listener)
{
    (void)pthread_mutex_lock(&listener->mutex);
    bool was_unpaired = qn_wake_state_is_unpaired(&listener->state);
    qn_wake_state_change(&listener->state, QN_WAKE_PAIRED);
    if (was_unpaired && !qn_wake_state_polls(&listener->state)) {
        listener->refusal[0] = '\0';
    }
    (void)pthread_mutex_unlock(&listener->mutex);
}

static void note_unpaired(struct qn_redis_listener *listener, const char *why)
{
    uint64_t spread = PAIR_AFTER_MS_MAX - PAIR_AFTER_MS_MIN;
    (void)pthread_mutex_lock(&listener->mutex);
    int64_t after_ms = PAIR_AFTER_MS_MIN + (int64_t)qn_random_below(&listener->random, spread);
    qn_wake_state_change(&listener->state, QN_WAKE_UNPAIRED);
    listener->pair_at_mono_ns = qn_clock_mono_ns() + after_ms * INT64_C(1000000);
    (void)snprintf(listener->refusal, sizeof listener->refusal, "%.*s", QN_REFUSAL_SIZE - 1, why);
    qn_redis_listener_kick(listener);
    (void)pthread_mutex_unlock(&listener->mutex);
}

/* Reads by the connection of the pump; false: that is not there, either. */
static bool read_unpaired(struct qn_redis *self, struct qn_names queues, struct armed *ret_armed)
{
    struct attempt attempt;
    attempt.pair_count = 0;
    qn_redis_begin(&attempt.pipeline, self, QN_CHANNEL_PUMP, QN_PIPELINE_READS);
    const struct qn_connection *connection = &self->channels[QN_CHANNEL_PUMP].connection;
    bool done = self->cluster != NULL ||
                (connection->socket.fd >= 0 && !qn_connection_is_stale(connection));
    if (done) {
        build_arm(self, &attempt, queues);
        done = qn_pipeline_run(&attempt.pipeline, NULL) == QUERN_OK &&
               read_answers(self, &attempt, ret_armed, NULL) == QUERN_OK;
    }
    if (done) {
        note_arm(&self->listener, !ret_armed->work, ret_armed->next_due_at_ms);
    }
    qn_pipeline_end(&attempt.pipeline);
    return done;
}

/* --- Arming --------------------------------------------------------------------------- */

static quern_status arm_pair(struct qn_redis *self, struct qn_names queues, struct armed *ret_armed,
                             quern_error *err)
{
    quern_status status = QUERN_OK;
    ret_armed->paired = false;
    for (int i = 0; status == QUERN_OK && i < QN_PAIR_ATTEMPT_MAX && !ret_armed->paired; i++) {
        status = try_arm(self, queues, ret_armed, err);
    }
    if (status == QUERN_OK && !ret_armed->paired) {
        status =
            qn_error_set(err, QUERN_E_CONNECT, "%s: the connections for wake-ups do not stay open",
                         qn_failover_address(&self->failover));
    }
    return status;
}

/* Arms with the connections that listen where they may be had, else by polling. */
static quern_status arm(struct qn_redis *self, struct qn_names queues, struct armed *ret_armed,
                        quern_error *err)
{
    bool tries = may_pair(&self->listener);
    quern_status status = QUERN_E_CONNECT;
    if (tries) {
        status = arm_pair(self, queues, ret_armed, err);
    }
    if (status != QUERN_OK && read_unpaired(self, queues, ret_armed)) {
        if (tries) {
            note_unpaired(&self->listener, err->text);
        }
        return QUERN_OK;
    }
    if (!tries) {
        status = arm_pair(self, queues, ret_armed, err);
    }
    if (status == QUERN_OK) {
        note_paired(&self->listener);
    }
    return status;
}

quern_status qn_redis_arm(struct qn_broker *broker, struct qn_names queues, bool *ret_work,
                          int64_t *ret_next_due_at_ms, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct armed armed = {0};
    quern_error why = {0};
    qn_redis_served_note_queues(&self->served, queues);
    quern_status status = arm(self, queues, &armed, &why);
    if (status == QUERN_OK && armed.full != self->awaits_ends && !QN_BUG(END_NOT_AWAITED)) {
        self->awaits_ends = armed.full;
        status = armed.full ? arm(self, queues, &armed, &why) : QUERN_OK;
    }
    if (status != QUERN_OK) {
        return qn_error_set(err, status, "%s", why.text);
    }
    *ret_work = armed.work;
    *ret_next_due_at_ms = armed.next_due_at_ms;
    return QUERN_OK;
}
