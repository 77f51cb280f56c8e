/* SPDX-License-Identifier: MIT */
/* outcome_args.c - one outcome as outcome.lua reads it.
 *
 * Of the message of a task only the fields that change are sent: the script replaces them in the
 * stored one. */
#include "broker/redis/run/outcome_args.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/text/utf8.h"
#include "broker/redis/schema/keys.h"
#include "message/asynq/unique_key.h"

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

void qn_redis_outcome_put_run(struct qn_pipeline *pipeline, const struct qn_leased *run)
{
    qn_pipeline_text(pipeline, run->task.id);
    qn_pipeline_uint(pipeline, run->token);
}

static void put_head(struct qn_pipeline *pipeline, const char *kind, const struct qn_leased *run)
{
    qn_pipeline_text(pipeline, kind);
    qn_redis_outcome_put_run(pipeline, run);
}

bool qn_redis_outcome_is_plain(const struct qn_outcome *outcome)
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

bool qn_redis_outcome_uses_up_attempts(const struct qn_outcome *outcome)
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

static quern_status put_end(struct qn_pipeline *pipeline, const struct qn_outcome *outcome,
                            quern_error *err)
{
    switch (outcome->kind) {
    case QN_DONE:
    case QN_DROP:
        put_done(pipeline, outcome);
        return QUERN_OK;
    case QN_RETRY:
        if (qn_redis_outcome_uses_up_attempts(outcome)) {
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

/* Whether its task stays, with the entry of this run. */
static bool has_entry(const struct qn_outcome *outcome)
{
    bool is_over = outcome->kind == QN_DROP || outcome->kind == QN_ENDED ||
                   (outcome->kind == QN_DONE && outcome->run->task.retention_ms <= 0);
    return !is_over;
}

static void put_entry(struct qn_pipeline *pipeline, struct qn_run_reporter *reporter,
                      const struct qn_outcome *outcome)
{
    qn_past_run_text entry;
    if (!qn_run_entry_is_due(outcome)) {
        qn_pipeline_text(pipeline, "");
        return;
    }
    size_t size = qn_run_entry_write(outcome, reporter, entry);
    char *kept = qn_arena_alloc(pipeline->arena, size);
    if (kept != NULL) {
        memcpy(kept, entry, size);
    }
    qn_pipeline_bytes(pipeline, kept, size);
}

quern_status qn_redis_outcome_put(struct qn_pipeline *pipeline, struct qn_run_reporter *reporter,
                                  const struct qn_outcome *outcome, quern_error *err)
{
    quern_status status = put_change(pipeline, outcome, err);
    if (status == QUERN_OK) {
        status = put_end(pipeline, outcome, err);
    }
    if (status == QUERN_OK && has_entry(outcome)) {
        put_entry(pipeline, reporter, outcome);
    }
    return status;
}
