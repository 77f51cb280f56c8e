/* SPDX-License-Identifier: MIT */
/* outcome.c - the first half of an exchange: writes how runs ended, one call for all queues.
 *
 * Each queue has a part of the call, and of its answer; an error in one of them concerns no other.
 * The data of the task for the script is in the run as it was leased: it must not be changed while
 * the task is active. */
#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/exchange.h"
#include "broker/redis/run/outcome_args.h"
#include "broker/redis/schema/keys.h"
#include "message/asynq/asynq.h"

#include "broker/redis/run/outcome_lua.h"

#include <stdio.h>
#include <string.h>

/* Where the answer to an outcome is: its place in the reply to a command. */
struct place {
    size_t command; /* from the first one of the outcomes on */
    size_t index;
};
struct plan {
    struct place *places; /* one per outcome */
    size_t *counts;       /* outcomes of each command */
    size_t command;       /* the one that is being built */
    quern_error *err;     /* of that */
};

/* The runs of a request, the outcomes first, by queue: of each a chain, in the order of the
 * request. */
struct groups {
    size_t count;
    const char **names;
    size_t *firsts; /* of each queue */
    size_t *lasts;
    size_t *nexts; /* of each run: the next one of its queue, or NO_RUN */
};
#define NO_RUN SIZE_MAX

/* --- All of them, by queue ----------------------------------------------------------- */

/* How many queues may share a call: all, where one server has all their keys. */
static size_t queues_a_call(const struct qn_pipeline *pipeline)
{
    bool is_apart = pipeline->channel->cluster != NULL || QN_BUG(CALL_PER_QUEUE);
    return is_apart ? 1 : SIZE_MAX;
}

/* The i-th of all runs in the request, the outcomes first. */
static const struct qn_leased *run_of(const struct qn_exchange *exchange, size_t i)
{
    return i < exchange->outcome_count ? exchange->outcomes[i].run
                                       : exchange->starts[i - exchange->outcome_count];
}

static bool is_plain_at(const struct qn_exchange *exchange, size_t i)
{
    return i < exchange->outcome_count && qn_redis_outcome_is_plain(&exchange->outcomes[i]);
}

static size_t group_of(const struct groups *groups, const char *queue)
{
    size_t group = 0;
    while (group < groups->count && strcmp(groups->names[group], queue) != 0) {
        group++;
    }
    return group;
}

static quern_status group_runs(struct qn_arena *arena, const struct qn_exchange *exchange,
                               struct groups *ret_groups, quern_error *err)
{
    size_t total = exchange->outcome_count + exchange->start_count;
    struct groups groups = {.names = qn_arena_alloc(arena, total * sizeof *groups.names),
                            .firsts = qn_arena_alloc(arena, total * sizeof *groups.firsts),
                            .lasts = qn_arena_alloc(arena, total * sizeof *groups.lasts),
                            .nexts = qn_arena_alloc(arena, total * sizeof *groups.nexts)};
    if (groups.names == NULL || groups.firsts == NULL || groups.lasts == NULL ||
        groups.nexts == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < total; i++) {
        const char *queue = run_of(exchange, i)->task.queue;
        size_t group = group_of(&groups, queue);
        if (group == groups.count) {
            groups.names[groups.count++] = queue;
            groups.firsts[group] = i;
        } else {
            groups.nexts[groups.lasts[group]] = i;
        }
        groups.lasts[group] = i;
        groups.nexts[i] = NO_RUN;
    }
    *ret_groups = groups;
    return QUERN_OK;
}

static void begin_call(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                       const char *const *queues, size_t queue_count)
{
    qn_pipeline_script(pipeline, &qn_lua_outcome, queue_count);
    for (size_t i = 0; i < queue_count; i++) {
        qn_keys_add_prefix(pipeline, queues[i]);
    }
    qn_keys_add_session(pipeline, exchange->stamp.session);
    qn_pipeline_uint(pipeline, QN_BUG(REPLAY_IGNORED) ? 0 : exchange->stamp.sequence);
    qn_pipeline_text(pipeline,
                     qn_arena_printf(pipeline->arena, "%s%s", exchange->is_leaving ? "H:" : "h:",
                                     exchange->host != NULL ? exchange->host : ""));
}

static void take_place(struct plan *plan, size_t i)
{
    plan->places[i] = (struct place){plan->command, plan->counts[plan->command]++};
}

/* Begins the part of a queue, whose first run is `first`, with its plain outcomes, which come first
 * in the answer, too, and its starts. */
static void put_plain(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                      const size_t *nexts, size_t first, struct plan *plan)
{
    size_t plain_count = 0;
    size_t start_count = 0;
    for (size_t i = first; i != NO_RUN; i = nexts[i]) {
        plain_count += is_plain_at(exchange, i) ? 1 : 0;
        start_count += i >= exchange->outcome_count ? 1 : 0;
    }
    qn_pipeline_uint(pipeline, plain_count);
    qn_pipeline_uint(pipeline, start_count);
    for (size_t i = first; i != NO_RUN; i = nexts[i]) {
        if (is_plain_at(exchange, i)) {
            take_place(plan, i);
            qn_redis_outcome_put_run(pipeline, run_of(exchange, i));
        }
    }
    for (size_t i = first; i != NO_RUN; i = nexts[i]) {
        if (i >= exchange->outcome_count) {
            qn_redis_outcome_put_run(pipeline, run_of(exchange, i));
        }
    }
}

/* Everything of the queue whose first run is `first`. */
static quern_status put_group(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                              const size_t *nexts, size_t first, struct plan *plan)
{
    struct qn_run_reporter reporter = {.host = exchange->host, .worker_id = exchange->worker_id};
    quern_status status = QUERN_OK;
    put_plain(pipeline, exchange, nexts, first, plan);
    for (size_t i = first; status == QUERN_OK && i < exchange->outcome_count; i = nexts[i]) {
        if (!is_plain_at(exchange, i)) {
            take_place(plan, i);
            status = qn_redis_outcome_put(pipeline, &reporter, &exchange->outcomes[i], plan->err);
        }
    }
    qn_pipeline_text(pipeline, ""); /* ends the part of the queue */
    return status;
}

/* Of all queues, as many in each call as may share one. */
static quern_status put_groups(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                               const struct groups *groups, struct plan *plan)
{
    quern_status status = QUERN_OK;
    size_t max = queues_a_call(pipeline);
    for (size_t i = 0; status == QUERN_OK && i < groups->count; i++) {
        if (i % max == 0) {
            size_t left = groups->count - i;
            plan->command = i / max;
            plan->counts[plan->command] = 0;
            begin_call(pipeline, exchange, groups->names + i, left < max ? left : max);
        }
        status = put_group(pipeline, exchange, groups->nexts, groups->firsts[i], plan);
    }
    return status;
}

quern_status qn_redis_outcome_add(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                                  struct qn_outcomes *ret_outcomes, quern_error *err)
{
    size_t total = exchange->outcome_count + exchange->start_count;
    struct groups groups = {0};
    *ret_outcomes = (struct qn_outcomes){.first_command = pipeline->command_count};
    if (total == 0) {
        return QUERN_OK;
    }
    QN_ASSERT(exchange->outcome_count <= QN_BATCH_MAX);
    struct plan *plan = qn_arena_alloc(pipeline->arena, sizeof *plan);
    if (plan == NULL) {
        return qn_error_nomem(err);
    }
    plan->err = err;
    plan->places = qn_arena_alloc(pipeline->arena, total * sizeof plan->places[0]);
    plan->counts = qn_arena_alloc(pipeline->arena, total * sizeof plan->counts[0]);
    if (plan->places == NULL || plan->counts == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = group_runs(pipeline->arena, exchange, &groups, err);
    if (status == QUERN_OK) {
        status = put_groups(pipeline, exchange, &groups, plan);
        ret_outcomes->command_count = pipeline->command_count - ret_outcomes->first_command;
    }
    ret_outcomes->plan = plan;
    return status;
}

/* --- The answers --------------------------------------------------------------------- */

static enum qn_applied applied_of(const struct qn_outcome *outcome, char answer)
{
    switch (answer) {
    case '0':
        return qn_redis_outcome_uses_up_attempts(outcome) ? QN_ARCHIVED : QN_APPLIED;
    case '2':
        return QN_SALVAGED;
    case '3':
        return QN_ARCHIVED;
    case '4':
        return QN_UNMOVED;
    default:
        return QN_STALE;
    }
}

struct answers {
    const struct qn_exchange *exchange;
    const struct qn_outcomes *outcomes;
    enum qn_applied *applied; /* where they go */
};

/* Takes what a call has answered. A pair has the error of a queue behind the answers: those of that
 * queue are '?', and stay as they are. */
static quern_status read_call(const struct qn_pipeline *pipeline, const struct answers *into,
                              size_t call, quern_error *err)
{
    const struct qn_exchange *exchange = into->exchange;
    const struct plan *plan = into->outcomes->plan;
    const struct qn_reply *reply = NULL;
    size_t command = into->outcomes->first_command + call;
    quern_status status = qn_pipeline_reply(pipeline, command, &reply, err);
    if (status == QUERN_E_BUSY && pipeline->commands[command].hasty) {
        return QUERN_OK; /* its queue has no answer: unanswered.c */
    }
    bool is_pair = status == QUERN_OK && reply->type == QN_REPLY_ARRAY;
    const struct qn_reply *answers = is_pair ? qn_reply_at(reply, 0) : reply;
    if (status == QUERN_OK) {
        bool is_sound = answers->type == QN_REPLY_TEXT && answers->size == plan->counts[call];
        status = qn_pipeline_expect(pipeline, is_sound, "outcomes", err);
    }
    for (size_t i = 0; status == QUERN_OK && i < exchange->outcome_count; i++) {
        const struct place *place = &plan->places[i];
        if (place->command == call && answers->data[place->index] != '?') {
            into->applied[i] = applied_of(&exchange->outcomes[i], answers->data[place->index]);
        }
    }
    return status == QUERN_OK && is_pair
               ? qn_pipeline_refusal(pipeline, command, qn_reply_at(reply, 1), err)
               : status;
}

quern_status qn_redis_outcome_read(const struct qn_pipeline *pipeline,
                                   const struct qn_exchange *exchange,
                                   const struct qn_outcomes *outcomes, enum qn_applied *applied,
                                   quern_error *err)
{
    const struct answers into = {exchange, outcomes, applied};
    quern_status first = QUERN_OK;
    for (size_t c = 0; c < outcomes->command_count; c++) {
        quern_error *to = first == QUERN_OK ? err : NULL; /* the first failure is reported */
        quern_status status = read_call(pipeline, &into, c, to);
        first = first == QUERN_OK ? status : first;
    }
    return first;
}

/* --- Unreadable messages --------------------------------------------------------------- */

quern_status qn_redis_outcome_add_unreadable(struct qn_pipeline *pipeline,
                                             const struct qn_exchange *exchange,
                                             const struct qn_unreadable *tasks, size_t count,
                                             quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_asynq_unusable unusable = {.data = tasks[i].message->data,
                                                   .size = tasks[i].message->size,
                                                   .id = tasks[i].id,
                                                   .id_size = tasks[i].id_size,
                                                   .queue = tasks[i].queue,
                                                   .why = tasks[i].why};
        struct qn_bytes bytes;
        status = qn_asynq_task_excuse(pipeline->arena, &unusable, &bytes, err);
        if (QN_BUG(UNUSABLE_AS_IT_IS)) {
            bytes = (struct qn_bytes){.data = unusable.data, .size = unusable.size};
        }
        if (status == QUERN_OK) {
            begin_call(pipeline, exchange, &tasks[i].queue, 1);
            qn_pipeline_text(pipeline, "0"); /* neither plain outcomes */
            qn_pipeline_text(pipeline, "0"); /* nor starts */
            qn_pipeline_text(pipeline, "m");
            qn_pipeline_bytes(pipeline, tasks[i].id, tasks[i].id_size);
            qn_pipeline_uint(pipeline, tasks[i].token);
            qn_pipeline_bytes(pipeline, bytes.data, bytes.size);
            qn_pipeline_text(pipeline, "");
        }
    }
    return status;
}

bool qn_redis_outcome_is_put_away(const struct qn_pipeline *pipeline, size_t command)
{
    const struct qn_reply *reply = NULL;
    return qn_pipeline_reply(pipeline, command, &reply, NULL) == QUERN_OK &&
           strcmp(qn_reply_text(reply), "0") == 0;
}
