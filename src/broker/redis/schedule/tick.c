/* SPDX-License-Identifier: MIT */
/* tick.c - sends ticks: a script for each queue (tick.lua), all in one write.
 *
 * Each queue is a transaction of its own. If the server refuses one of them, for its damaged data
 * or for lack of memory, its ticks are not advanced (QN_TICK_FAILED), and the others go on. */
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/run/task_row.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schedule/tick_lua.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

/* Whether the i-th tick is the first one of its queue. */
static bool is_first(const struct qn_ticks *ticks, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(ticks->ticks[j].queue, ticks->ticks[i].queue) == 0) {
            return false;
        }
    }
    return true;
}

/* The next tick of the same queue, from i on. */
static size_t next_of(const struct qn_ticks *ticks, const char *queue, size_t i)
{
    while (i < ticks->count && strcmp(ticks->ticks[i].queue, queue) != 0) {
        i++;
    }
    return i;
}

static void add_tick(struct qn_pipeline *pipeline, const struct qn_tick *tick, size_t task)
{
    qn_pipeline_text(pipeline, tick->name);
    qn_pipeline_uint(pipeline, tick->revision);
    qn_pipeline_int(pipeline, tick->known_s);
    qn_pipeline_int(pipeline, tick->tick_s);
    qn_pipeline_uint(pipeline, tick->skipped);
    qn_pipeline_int(pipeline, (int64_t)tick->what);
    if (task == 0) {
        qn_pipeline_text(pipeline, "");
    } else {
        qn_pipeline_uint(pipeline, task);
    }
}

static quern_status add_tasks(struct qn_pipeline *pipeline, const struct qn_ticks *ticks,
                              size_t first, quern_error *err)
{
    const char *queue = ticks->ticks[first].queue;
    for (size_t i = first; i < ticks->count; i = next_of(ticks, queue, i + 1)) {
        if (ticks->ticks[i].task != NULL) {
            qn_pipeline_text(pipeline, ticks->ticks[i].task->id);
        }
    }
    for (size_t i = first; i < ticks->count; i = next_of(ticks, queue, i + 1)) {
        struct qn_bytes message = {0};
        if (ticks->ticks[i].task != NULL) {
            quern_status status =
                qn_task_fields_encode(pipeline->arena, ticks->ticks[i].task, &message, err);
            if (status != QUERN_OK) {
                return status;
            }
            qn_pipeline_bytes(pipeline, message.data, message.size);
        }
    }
    size_t index = 0;
    for (size_t i = first; i < ticks->count; i = next_of(ticks, queue, i + 1)) {
        if (ticks->ticks[i].task != NULL) {
            qn_task_row_add(pipeline, ticks->ticks[i].task, ++index);
        }
    }
    return QUERN_OK;
}

/* The script for the queue of the first tick. */
static quern_status add_queue(struct qn_pipeline *pipeline, const struct qn_ticks *ticks,
                              size_t first, quern_error *err)
{
    const char *queue = ticks->ticks[first].queue;
    size_t count = 0;
    size_t task_count = 0;
    for (size_t i = first; i < ticks->count; i = next_of(ticks, queue, i + 1)) {
        count++;
        task_count += ticks->ticks[i].task != NULL ? 1 : 0;
    }
    qn_pipeline_script(pipeline, &qn_lua_tick, 1);
    qn_keys_add_prefix(pipeline, queue);
    qn_keys_add_session(pipeline, ticks->stamp.session);
    qn_pipeline_uint(pipeline, QN_BUG(REPLAY_IGNORED) ? 0 : ticks->stamp.sequence);
    qn_pipeline_uint(pipeline, ticks->epoch);
    qn_pipeline_uint(pipeline, count);
    qn_pipeline_uint(pipeline, task_count);
    size_t task = 0;
    for (size_t i = first; i < ticks->count; i = next_of(ticks, queue, i + 1)) {
        add_tick(pipeline, &ticks->ticks[i], ticks->ticks[i].task != NULL ? ++task : 0);
    }
    return add_tasks(pipeline, ticks, first, err);
}

static quern_status send_all(struct qn_pipeline *pipeline, const struct qn_ticks *ticks,
                             quern_error *err)
{
    quern_status status = QUERN_OK;
    qn_pipeline_command(pipeline, "SADD");
    qn_pipeline_text(pipeline, QN_KEY_QUEUES);
    for (size_t i = 0; i < ticks->count; i++) {
        if (is_first(ticks, i)) {
            qn_pipeline_text(pipeline, ticks->ticks[i].queue);
        }
    }
    for (size_t i = 0; status == QUERN_OK && i < ticks->count; i++) {
        if (is_first(ticks, i)) {
            status = add_queue(pipeline, ticks, i, err);
        }
    }
    return status == QUERN_OK ? qn_pipeline_run(pipeline, err) : status;
}

/* --- Results ------------------------------------------------------------------------- */

static bool take_letter(char letter, enum qn_tick_result *ret_result)
{
    static const struct {
        char letter;
        enum qn_tick_result result;
    } all[] = {{'o', QN_TICKED},          {'d', QN_TICKED_DUPLICATE}, {'c', QN_TICKED_CONFLICT},
               {'n', QN_TICKED_REPLACED}, {'s', QN_TICK_STALE},       {'g', QN_TICK_GONE},
               {'r', QN_TICK_CHANGED},    {'h', QN_TICK_PAUSED},      {'p', QN_TICK_PAST},
               {'e', QN_TICK_EARLY},      {'f', QN_TICK_FULL},        {'x', QN_TICK_FAILED}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].letter == letter) {
            *ret_result = all[i].result;
            return true;
        }
    }
    return false;
}

/* "now_ms letters last_s ..." */
static quern_status take_queue(const struct qn_pipeline *pipeline, size_t command,
                               struct qn_ticks *ticks, size_t first, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    const char *queue = ticks->ticks[first].queue;
    quern_status status = qn_pipeline_reply(pipeline, command, &reply, err);
    if (status != QUERN_OK) {
        return status;
    }
    uint64_t now_ms = 0;
    const char *text = qn_reply_text(reply);
    struct qn_cursor cursor = {text, text + reply->size};
    bool is_good = qn_number_take(&cursor, &now_ms) && qn_number_take_char(&cursor, ' ');
    const char *letter = cursor.at;
    const char *space = memchr(cursor.at, ' ', (size_t)(cursor.end - cursor.at));
    cursor.at = space != NULL ? space : cursor.end;
    for (size_t i = first; i < ticks->count; i = next_of(ticks, queue, i + 1)) {
        uint64_t last_s = 0;
        is_good = is_good && letter < cursor.end &&
                  take_letter(*letter++, &ticks->ticks[i].result) &&
                  qn_number_take_char(&cursor, ' ') && qn_number_take(&cursor, &last_s);
        ticks->ticks[i].stored_s = last_s > QN_MOMENT_MS_MAX ? QN_MOMENT_MS_MAX : (int64_t)last_s;
    }
    if (is_good) {
        ticks->now_ms = now_ms > QN_MOMENT_MS_MAX ? QN_MOMENT_MS_MAX : (int64_t)now_ms;
    }
    return qn_pipeline_expect(pipeline, is_good, "tick", err);
}

static void fail_queue(struct qn_ticks *ticks, size_t first)
{
    const char *queue = ticks->ticks[first].queue;
    for (size_t i = first; i < ticks->count; i = next_of(ticks, queue, i + 1)) {
        ticks->ticks[i].result = QN_TICK_FAILED;
        ticks->ticks[i].stored_s = 0;
    }
}

/* Fails only when no queue was served, or when it has to be done again to know. */
static quern_status take_all(const struct qn_pipeline *pipeline, struct qn_ticks *ticks,
                             quern_error *err)
{
    const struct qn_reply *listed = NULL;
    quern_status failure = QUERN_OK;
    bool busy = false;
    size_t failed = 0;
    size_t queues = 0;
    for (size_t i = 0; i < ticks->count; i++) {
        if (!is_first(ticks, i)) {
            continue;
        }
        quern_status status =
            take_queue(pipeline, ++queues, ticks, i, failure == QUERN_OK ? err : NULL);
        if (status != QUERN_OK) {
            fail_queue(ticks, i);
            failed++;
            busy = busy || status == QUERN_E_BUSY;
            failure = failure == QUERN_OK ? status : failure;
        }
    }
    if (failed == queues) {
        return failure;
    }
    if (busy || qn_pipeline_reply(pipeline, 0, &listed, err) != QUERN_OK) {
        return qn_error_as_unknown(err, busy ? "done in part" : "done, but a queue is not listed");
    }
    return QUERN_OK;
}

quern_status qn_redis_schedule_tick(struct qn_broker *broker, struct qn_ticks *ticks,
                                    quern_error *err)
{
    QN_ASSERT(ticks->count <= QN_BATCH_MAX);
    if (ticks->count == 0) {
        return QUERN_OK;
    }
    struct qn_pipeline pipeline;
    ticks->now_ms = 0;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_PUMP, QN_PIPELINE_WRITES);
    quern_status status = send_all(&pipeline, ticks, err);
    if (status == QUERN_OK) {
        status = take_all(&pipeline, ticks, err);
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_E_FULL) {
        qn_redis_full_explain(qn_redis_of(broker), err);
    }
    return status;
}
