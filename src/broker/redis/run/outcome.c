/* SPDX-License-Identifier: MIT */
/* outcome.c - the first half of an exchange: writes how runs ended, one script per queue.
 *
 * The data of the task for the script is in the run as it was leased: it must not be changed while
 * the task is active. Of its message only the fields that change are sent: the script replaces them
 * in the stored message. */
#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "base/text/utf8.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/exchange.h"
#include "broker/redis/schema/keys.h"
#include "message/asynq/asynq.h"
#include "message/asynq/unique_key.h"

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
};

/* --- One outcome, as outcome.lua reads it -------------------------------------------- */

static const char *text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* As a text that Go accepts in a message; NULL: out of memory. */
static const char *clean_words(struct qn_arena *arena, const char *words)
{
    size_t size = strlen(words);
    if (qn_utf8_valid(words, size)) {
        return words;
    }
    char *clean = qn_arena_alloc(arena, 3 * size + 1); /* a bad byte becomes three */
    if (clean != NULL) {
        (void)qn_utf8_sanitize(words, size, clean, 3 * size + 1);
    }
    return clean;
}

static void put_error(struct qn_pipeline *pipeline, const char *error)
{
    if (error == NULL) {
        qn_pipeline_text(pipeline, "");
        return;
    }
    const char *words = clean_words(pipeline->arena, error);
    qn_pipeline_text(pipeline,
                     words == NULL ? NULL : qn_arena_printf(pipeline->arena, "e:%s", words));
}

static void put_run(struct qn_pipeline *pipeline, const struct qn_leased *run)
{
    qn_pipeline_text(pipeline, run->task.id);
    qn_pipeline_uint(pipeline, run->token);
}

static void put_head(struct qn_pipeline *pipeline, const char *kind, const struct qn_leased *run)
{
    qn_pipeline_text(pipeline, kind);
    put_run(pipeline, run);
}

/* Done, and nothing stays or is to be freed: the script has a short way for these. */
static bool is_plain(const struct qn_outcome *outcome)
{
    const struct qn_task *task = &outcome->run->task;
    return outcome->kind == QN_DONE && task->retention_ms <= 0 &&
           text_or_empty(task->unique_key)[0] == '\0';
}

static void put_done(struct qn_pipeline *pipeline, const struct qn_outcome *outcome)
{
    const struct qn_task *task = &outcome->run->task;
    const char *lock = text_or_empty(task->unique_key);
    if (outcome->kind == QN_DONE && task->retention_ms > 0) {
        put_head(pipeline, "c", outcome->run);
        qn_pipeline_text(pipeline, lock);
        qn_pipeline_int(pipeline, task->retention_ms);
        qn_pipeline_text(pipeline, outcome->has_result ? "1" : "0");
        qn_pipeline_bytes(pipeline, outcome->result != NULL ? outcome->result : "",
                          outcome->has_result ? outcome->result_size : 0);
    } else {
        put_head(pipeline, outcome->kind == QN_DONE ? "u" : "e", outcome->run);
        qn_pipeline_text(pipeline, lock);
    }
}

static void put_later(struct qn_pipeline *pipeline, const struct qn_outcome *outcome)
{
    bool failed = outcome->kind == QN_RETRY;
    bool aside = outcome->kind == QN_ASIDE;
    put_head(pipeline, "r", outcome->run);
    qn_pipeline_int(pipeline, outcome->delay_ms);
    qn_pipeline_int(pipeline, failed  ? QUERN_CAUSE_RETRY
                              : aside ? outcome->run->cause
                                      : QUERN_CAUSE_SNOOZE);
    qn_pipeline_text(pipeline, failed ? "1" : aside || !outcome->started ? "2" : "0");
    qn_pipeline_int(pipeline, outcome->run->retry_count + (QN_BUG(RETRY_COUNTED_TWICE) ? 2 : 1));
    put_error(pipeline, outcome->error);
}

static bool is_spent(const struct qn_outcome *outcome)
{
    return outcome->run->retry_count >= qn_task_change_retry_max(outcome);
}

static void put_crash(struct qn_pipeline *pipeline, const struct qn_outcome *outcome)
{
    const char *words =
        outcome->error != NULL ? outcome->error : text_or_empty(quern_cause_name(outcome->cause));
    put_head(pipeline, "x", outcome->run);
    qn_pipeline_int(pipeline, outcome->cause);
    qn_pipeline_text(pipeline, outcome->started ? "1" : "0");
    put_error(pipeline, outcome->error);
    qn_pipeline_text(pipeline, clean_words(pipeline->arena, words));
    qn_pipeline_int(pipeline, outcome->lived_ms < 0 ? 0 : outcome->lived_ms);
    qn_pipeline_text(pipeline, is_spent(outcome) ? "1" : "0");
}

static bool uses_up_attempts(const struct qn_outcome *outcome)
{
    return outcome->kind == QN_RETRY && is_spent(outcome);
}

/* No retry follows that would be counted. */
static void put_archive(struct qn_pipeline *pipeline, const struct qn_outcome *outcome)
{
    put_head(pipeline, outcome->started ? "a" : "o", outcome->run);
    put_error(pipeline, outcome->error);
}

/* The queue where the task goes, and its lock there. */
static quern_status put_queue(struct qn_pipeline *pipeline, const struct qn_outcome *outcome,
                              quern_error *err)
{
    const struct qn_task *task = &outcome->run->task;
    const char *queue = qn_task_change_queue(outcome);
    const char *lock = NULL;
    if (queue == NULL) {
        qn_pipeline_text(pipeline, "");
        return QUERN_OK;
    }
    if (text_or_empty(task->unique_key)[0] != '\0') {
        const struct qn_unique_move names = {task->unique_key, task->queue, queue};
        quern_status status = qn_unique_key_move(pipeline->arena, &names, &lock, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    qn_pipeline_text(pipeline, queue);
    if (pipeline->channel->cluster == NULL) {
        qn_keys_add_prefix(pipeline, queue);
    } else {
        qn_pipeline_text(pipeline, ""); /* it is at another node: the task stays (QN_UNMOVED) */
    }
    qn_pipeline_text(pipeline, QN_KEY_QUEUES);
    qn_pipeline_text(pipeline, text_or_empty(task->unique_key));
    qn_pipeline_text(pipeline, text_or_empty(lock));
    qn_pipeline_text(pipeline, qn_task_change_holds_lock(outcome) ? "1" : "0");
    return QUERN_OK;
}

/* What the outcome that follows changes in its task. */
static quern_status put_change(struct qn_pipeline *pipeline, const struct qn_outcome *outcome,
                               quern_error *err)
{
    const struct qn_task_change *change = qn_task_change_of(outcome);
    if (change == NULL) {
        return QUERN_OK;
    }
    put_head(pipeline, "k", outcome->run);
    qn_pipeline_text(pipeline, change->has_payload ? "1" : "0");
    qn_pipeline_bytes(pipeline, change->payload != NULL ? change->payload : "",
                      change->has_payload ? change->payload_size : 0);
    if (change->has_retry_max) {
        qn_pipeline_int(pipeline, qn_task_change_retry_max(outcome));
    } else {
        qn_pipeline_text(pipeline, "");
    }
    return put_queue(pipeline, outcome, err);
}

static quern_status put_outcome(struct qn_pipeline *pipeline, const struct qn_outcome *outcome,
                                quern_error *err)
{
    switch (outcome->kind) {
    case QN_DONE:
    case QN_DROP:
        put_done(pipeline, outcome);
        return QUERN_OK;
    case QN_RETRY:
        if (uses_up_attempts(outcome)) {
            put_archive(pipeline, outcome);
        } else {
            put_later(pipeline, outcome);
        }
        return QUERN_OK;
    case QN_SNOOZE:
    case QN_ASIDE:
        put_later(pipeline, outcome);
        return QUERN_OK;
    case QN_ARCHIVE:
    case QN_CANCEL:
        put_archive(pipeline, outcome);
        return QUERN_OK;
    case QN_GIVE_BACK:
        put_head(pipeline, "g", outcome->run);
        qn_pipeline_int(pipeline, outcome->cause);
        qn_pipeline_text(pipeline, outcome->started ? "1" : "0");
        return QUERN_OK;
    case QN_CRASH:
        put_crash(pipeline, outcome);
        return QUERN_OK;
    case QN_ENDED:
        put_head(pipeline, "n", outcome->run);
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_INVALID, "no such outcome");
}

/* --- All of them, by queue ----------------------------------------------------------- */

static bool is_of(const struct qn_leased *run, const char *queue)
{
    return strcmp(run->task.queue, queue) == 0;
}

/* Begins the script of a queue with its plain outcomes. They come first in the answer, too. */
static void begin_queue(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                        const char *queue, struct plan *plan)
{
    size_t plain_count = 0;
    size_t start_count = 0;
    for (size_t i = 0; i < exchange->outcome_count; i++) {
        const struct qn_outcome *outcome = &exchange->outcomes[i];
        if (is_plain(outcome) && is_of(outcome->run, queue)) {
            plan->places[i] = (struct place){.command = plan->command, .index = plain_count++};
        }
    }
    for (size_t i = 0; i < exchange->start_count; i++) {
        start_count += is_of(exchange->starts[i], queue) ? 1 : 0;
    }
    plan->counts[plan->command] = plain_count;
    qn_pipeline_script(pipeline, &qn_lua_outcome, 1);
    qn_keys_add_prefix(pipeline, queue);
    qn_keys_add_session(pipeline, exchange->stamp.session);
    qn_pipeline_uint(pipeline, QN_BUG(REPLAY_IGNORED) ? 0 : exchange->stamp.sequence);
    qn_pipeline_uint(pipeline, plain_count);
    qn_pipeline_uint(pipeline, start_count);
    qn_pipeline_text(pipeline,
                     qn_arena_printf(pipeline->arena, "%s%s", exchange->is_leaving ? "H:" : "h:",
                                     text_or_empty(exchange->host)));
    for (size_t i = 0; i < exchange->outcome_count && plain_count > 0; i++) {
        if (is_plain(&exchange->outcomes[i]) && is_of(exchange->outcomes[i].run, queue)) {
            put_run(pipeline, exchange->outcomes[i].run);
        }
    }
    for (size_t i = 0; i < exchange->start_count; i++) {
        if (is_of(exchange->starts[i], queue)) {
            put_run(pipeline, exchange->starts[i]);
        }
    }
}

/* Everything of one queue. */
static quern_status add_queue(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                              const char *queue, struct plan *plan, quern_error *err)
{
    quern_status status = QUERN_OK;
    begin_queue(pipeline, exchange, queue, plan);
    for (size_t i = 0; status == QUERN_OK && i < exchange->outcome_count; i++) {
        const struct qn_outcome *outcome = &exchange->outcomes[i];
        if (!is_plain(outcome) && is_of(outcome->run, queue)) {
            plan->places[i] =
                (struct place){.command = plan->command, .index = plan->counts[plan->command]++};
            status = put_change(pipeline, outcome, err);
            if (status == QUERN_OK) {
                status = put_outcome(pipeline, outcome, err);
            }
        }
    }
    return status;
}

/* The i-th of all runs in the request, the outcomes first. */
static const char *queue_of(const struct qn_exchange *exchange, size_t i)
{
    return i < exchange->outcome_count ? exchange->outcomes[i].run->task.queue
                                       : exchange->starts[i - exchange->outcome_count]->task.queue;
}

static bool is_first_of_its_queue(const struct qn_exchange *exchange, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(queue_of(exchange, k), queue_of(exchange, i)) == 0) {
            return false;
        }
    }
    return true;
}

quern_status qn_redis_outcome_add(struct qn_pipeline *pipeline, const struct qn_exchange *exchange,
                                  struct qn_outcomes *ret_outcomes, quern_error *err)
{
    size_t total = exchange->outcome_count + exchange->start_count;
    *ret_outcomes = (struct qn_outcomes){.first_command = pipeline->command_count};
    if (total == 0) {
        return QUERN_OK;
    }
    QN_ASSERT(exchange->outcome_count <= QN_BATCH_MAX);
    struct plan *plan = qn_arena_alloc(pipeline->arena, sizeof *plan);
    if (plan == NULL) {
        return qn_error_nomem(err);
    }
    plan->places = qn_arena_alloc(pipeline->arena, total * sizeof plan->places[0]);
    plan->counts = qn_arena_alloc(pipeline->arena, total * sizeof plan->counts[0]);
    if (plan->places == NULL || plan->counts == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < total; i++) {
        if (is_first_of_its_queue(exchange, i)) {
            plan->command = ret_outcomes->command_count++;
            status = add_queue(pipeline, exchange, queue_of(exchange, i), plan, err);
        }
    }
    ret_outcomes->plan = plan;
    return status;
}

/* --- The answers --------------------------------------------------------------------- */

static enum qn_applied applied_of(const struct qn_outcome *outcome, char answer)
{
    switch (answer) {
    case '0':
        return uses_up_attempts(outcome) ? QN_ARCHIVED : QN_APPLIED;
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

quern_status qn_redis_outcome_read(const struct qn_pipeline *pipeline,
                                   const struct qn_exchange *exchange,
                                   const struct qn_outcomes *outcomes, enum qn_applied *applied,
                                   quern_error *err)
{
    const struct plan *plan = outcomes->plan;
    quern_status first = QUERN_OK;
    for (size_t c = 0; c < outcomes->command_count; c++) {
        const struct qn_reply *reply = NULL;
        quern_error *to = first == QUERN_OK ? err : NULL; /* the first failure is reported */
        quern_status status = qn_pipeline_reply(pipeline, outcomes->first_command + c, &reply, to);
        bool damaged = status == QUERN_E_CORRUPT;
        if (status == QUERN_OK) {
            status = qn_pipeline_expect(pipeline, reply->size == plan->counts[c], "outcomes", to);
        }
        for (size_t i = 0; (status == QUERN_OK || damaged) && i < exchange->outcome_count; i++) {
            if (plan->places[i].command == c) {
                applied[i] = damaged ? QN_STALE
                                     : applied_of(&exchange->outcomes[i],
                                                  reply->data[plan->places[i].index]);
            }
        }
        status = damaged ? QUERN_OK : status;
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
    struct qn_exchange alone = *exchange; /* with nothing else in the script */
    alone.outcome_count = 0;
    alone.start_count = 0;
    size_t plain_count = 0;
    struct plan plan = {.counts = &plain_count};
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
            begin_queue(pipeline, &alone, tasks[i].queue, &plan);
            qn_pipeline_text(pipeline, "m");
            qn_pipeline_bytes(pipeline, tasks[i].id, tasks[i].id_size);
            qn_pipeline_uint(pipeline, tasks[i].token);
            qn_pipeline_bytes(pipeline, bytes.data, bytes.size);
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
