/* SPDX-License-Identifier: MIT */
/* read_task.c - collects the data of a task: from its message, from our own fields, from its score.
 *
 * The message has whole seconds; a field of ours has the exact time, and is used only while both
 * agree, since Go changes the message and does not know our fields. The sizes are requested first,
 * so that one pipeline never carries more than a few large messages.
 *
 * Ids and tasks are read one after the other, so a task may have moved on in between: one whose
 * hash is gone or has another state is searched again, and left out if it is no longer in its
 * place. One that is still there is shown, with a description of the fault as its error. */
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/inspect/id_moment.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"
#include "task/limits.h"

/* TRASH is read only of tasks that lie there, the last two only of one that was searched for. */
enum { MSG, STATE, SINCE, GROUP, RESULT, OPTS, PAST, RUN, PROGRESS, ASIDE };
enum { TRASH = ASIDE + 1, RUNS, CANCEL, FIELD_COUNT };
static const char *const field_names[FIELD_COUNT] = {
    [MSG] = "msg",
    [STATE] = "state",
    [SINCE] = "pending_since",
    [GROUP] = "group",
    [RESULT] = "result",
    [OPTS] = "quern_opts",
    [PAST] = "quern_past",
    [RUN] = "quern_run",
    [PROGRESS] = "quern_progress",
    [ASIDE] = "quern_aside",
    [TRASH] = "quern_trash",
    [RUNS] = "quern_runs",
    [CANCEL] = "quern_cancel",
};

struct reading {
    struct qn_redis *self;
    const struct qn_place *place;
    const struct qn_task_entry *entries;
    size_t count;
    size_t sizes[QN_INSPECT_BATCH]; /* of the fields that make a task large */
    const struct qn_task_sink *sink;
    bool stopped;
};

/* --- One task --------------------------------------------------------------------------- */

/* The contents of the hash. */
struct hash {
    const struct qn_reply *fields[FIELD_COUNT];
    struct qn_task_fields_opts opts;
    struct qn_task_fields_past past;
    struct qn_task_fields_run run;
    struct qn_asynq_task message;
};

static size_t text_size(const struct qn_reply *field)
{
    return field->type == QN_REPLY_TEXT ? field->size : 0;
}

static void read_fields(const struct qn_reply *reply, struct hash *hash)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        hash->fields[i] = qn_reply_at(reply, i);
    }
    const struct qn_reply *const *fields = hash->fields;
    qn_task_fields_opts_read(qn_reply_text(fields[OPTS]), text_size(fields[OPTS]), &hash->opts);
    qn_task_fields_past_read(qn_reply_text(fields[PAST]), text_size(fields[PAST]), &hash->past);
    qn_task_fields_run_read(qn_reply_text(fields[RUN]), text_size(fields[RUN]), &hash->run);
}

static bool same_second(int64_t exact_ms, int64_t second_ms)
{
    return exact_ms > 0 && exact_ms / 1000 == second_ms / 1000;
}

/* If no field has it: since when it waits, if nothing but crashes has happened to it. */
static int64_t enqueued_at(const struct hash *hash, const struct qn_task_entry *entry,
                           quern_task_state state)
{
    if (hash->opts.enqueued_at_ms > 0) {
        return hash->opts.enqueued_at_ms;
    }
    int64_t cause = hash->past.cause;
    bool first =
        cause != QUERN_CAUSE_RETRY && cause != QUERN_CAUSE_SNOOZE && cause != QUERN_CAUSE_OPERATOR;
    int64_t since_ns = 0;
    if (first && state == QUERN_TASK_PENDING) {
        since_ns =
            hash->past.since_ns > 0 ? hash->past.since_ns : qn_reply_int(hash->fields[SINCE], 0);
    } else if (first && state == QUERN_TASK_ACTIVE) {
        since_ns = hash->run.since_ns;
    }
    return since_ns > 0 ? qn_moment_ms_of(since_ns / 1000000) : qn_id_moment_ms(entry);
}

static void fill_moments(const struct qn_place *place, const struct qn_task_entry *entry,
                         const struct hash *hash, struct quern_task_info *info)
{
    const struct qn_task_fields_past *past = &hash->past;
    int64_t score_ms = entry->score * 1000;
    int64_t end_ms = past->ended_at_ms + info->task.retention_ms;
    info->enqueued_at_ms = enqueued_at(hash, entry, place->state);
    info->failed_at_ms = same_second(past->failed_at_ms, hash->message.failed_at_ms)
                             ? past->failed_at_ms
                             : hash->message.failed_at_ms;
    switch (place->state) {
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
        info->at_ms = entry->at_ms;
        info->task.process_at_ms = entry->at_ms;
        break;
    case QUERN_TASK_ARCHIVED:
        info->at_ms = same_second(past->ended_at_ms, score_ms) ? past->ended_at_ms : score_ms;
        break;
    case QUERN_TASK_COMPLETED:
        info->at_ms = (end_ms + 999) / 1000 == entry->score ? end_ms : score_ms;
        info->completed_at_ms = same_second(past->ended_at_ms, hash->message.completed_at_ms)
                                    ? past->ended_at_ms
                                    : hash->message.completed_at_ms;
        break;
    case QUERN_TASK_AGGREGATING:
        info->at_ms =
            same_second(hash->opts.enqueued_at_ms, score_ms) ? hash->opts.enqueued_at_ms : score_ms;
        break;
    case QUERN_TASK_ACTIVE:
    case QUERN_TASK_PENDING:
        break;
    }
}

/* The data of the run. The token exists only if the run is ours. */
static void fill_run(const struct qn_place *place, const struct qn_task_entry *entry,
                     const struct hash *hash, struct quern_task_info *info)
{
    if (place->state != QUERN_TASK_ACTIVE) {
        return;
    }
    int64_t until_ms = entry->score * 1000;
    int64_t token = qn_reply_int(hash->fields[SINCE], 0);
    if (token > 0) {
        info->fence = (uint64_t)token / 1000;
        info->worker = hash->run.worker_id == NULL ? "" : hash->run.worker_id;
        info->started_at_ms = hash->run.started != 0 ? hash->run.started_at_ms : 0;
        if ((hash->run.until_ms + 999) / 1000 == entry->score) {
            until_ms = hash->run.until_ms;
        }
    }
    info->orphaned = until_ms <= place->now_ms;
    info->lease_until_ms = qn_moment_ms_of(until_ms);
}

/* What only one task shows. */
static void fill_alone(const struct qn_place *place, const struct hash *hash,
                       struct quern_task_info *info)
{
    if (!place->alone) {
        return;
    }
    info->runs = (struct qn_bytes){hash->fields[RUNS]->data, text_size(hash->fields[RUNS])};
    const char *cancel = qn_reply_text(hash->fields[CANCEL]);
    bool is_asked = place->state == QUERN_TASK_ACTIVE && cancel[0] != '\0';
    info->cancel = !is_asked                        ? QN_CANCEL_NONE
                   : strcmp(cancel, "archive") == 0 ? QN_CANCEL_ARCHIVE
                                                    : QN_CANCEL_RETRY;
}

/* "percent note" */
static void fill_progress(const struct hash *hash, struct quern_task_info *info)
{
    const char *text = qn_reply_text(hash->fields[PROGRESS]);
    if (text[0] >= '0' && text[0] <= '9') {
        struct qn_cursor cursor = {text, text + strlen(text)};
        uint64_t percent = 0;
        (void)qn_number_take(&cursor, &percent);
        info->progress = percent > 100 ? 100 : (int32_t)percent;
        (void)qn_number_take_char(&cursor, ' ');
        info->progress_note = cursor.at;
    }
}

/* It waits for a limit, or for the turn of its key: it could run, and its due time is only there
 * for programs that do not know of lanes. */
static bool waits_aside(const struct qn_place *place, const struct hash *hash)
{
    return place->state == QUERN_TASK_SCHEDULED && text_size(hash->fields[ASIDE]) > 0;
}

/* Everything that a readable task shows. */
static void fill_readable(const struct qn_place *place, const struct qn_task_entry *entry,
                          const struct hash *hash, struct quern_task_info *info)
{
    const struct qn_reply *result = hash->fields[RESULT];
    info->retry_count = qn_number_clamp(hash->message.retry_count, 0, INT32_MAX);
    info->crash_count = hash->past.crash_count;
    info->error = hash->message.error;
    info->cause = quern_cause_name((quern_cause)hash->past.cause) == NULL
                      ? QUERN_CAUSE_NONE
                      : (quern_cause)hash->past.cause;
    info->result = result->type == QN_REPLY_TEXT ? result->data : NULL;
    info->result_size = text_size(result);
    if (hash->message.unique_key[0] != '\0') {
        info->task.unique_key = hash->message.unique_key;
    }
    fill_moments(place, entry, hash, info);
    fill_run(place, entry, hash, info);
    fill_progress(hash, info);
    fill_alone(place, hash, info);
}

/* Shows the readable parts of a damaged task. */
static void fill_damaged(const struct qn_place *place, const struct qn_task_entry *entry,
                         const char *why, struct quern_task_info *info)
{
    *info = (struct quern_task_info){
        .task = {.id = entry->id, .queue = place->queue, .type = "", .state = place->state},
        .error = why == NULL ? "damaged" : why,
        .worker = "",
        .progress = -1,
        .progress_note = ""};
    bool dated = place->state != QUERN_TASK_PENDING && place->state != QUERN_TASK_ACTIVE;
    info->at_ms = dated ? entry->score * 1000 : 0;
    info->orphaned = place->state == QUERN_TASK_ACTIVE && entry->score * 1000 <= place->now_ms;
}

/* Of a message that Go reads and we cannot use there is more to show. */
static void fill_unusable(struct qn_pipeline *pipeline, const struct hash *hash,
                          struct quern_task_info *info)
{
    const struct qn_reply *message = hash->fields[MSG];
    struct qn_asynq_task task;
    if (message == NULL || message->type != QN_REPLY_TEXT ||
        qn_asynq_task_show(pipeline->arena, message->data, message->size, &task, NULL) !=
            QUERN_OK) {
        return;
    }
    info->task.type = task.type;
    info->task.payload = task.payload;
    info->task.payload_size = task.payload_size;
    info->task.headers = task.headers;
    info->task.header_count = task.header_count;
    info->retry_count = task.retry_count;
    info->error = task.error[0] != '\0' ? task.error : info->error;
}

static void report_task(struct reading *reading, struct qn_pipeline *pipeline,
                        const struct qn_task_entry *entry, const struct qn_reply *reply,
                        quern_error *refused)
{
    struct hash hash = {0};
    struct quern_task_info info = {.error = "", .worker = "", .progress = -1, .progress_note = ""};
    quern_error why = {0};
    quern_status status = QUERN_E_CORRUPT;
    if (reply == NULL) {
        why = *refused;
    } else {
        read_fields(reply, &hash);
        const struct qn_reply *message = hash.fields[MSG];
        if (message->type != QN_REPLY_TEXT) {
            (void)qn_error_set(&why, QUERN_E_CORRUPT, "its message is missing");
        } else {
            const struct qn_stored_task stored = {
                .queue = reading->place->queue,
                .id = entry->id,
                .message = {message->data, message->size},
                .opts = text_size(hash.fields[OPTS]) > 0 ? &hash.opts : NULL};
            status =
                qn_task_fields_decode(pipeline->arena, &stored, &hash.message, &info.task, &why);
        }
    }
    if (status == QUERN_OK) {
        struct qn_place place = *reading->place;
        bool is_aside = waits_aside(&place, &hash);
        if (place.alone && is_aside) {
            place.state = QUERN_TASK_PENDING;
        }
        info.task.state = place.state;
        fill_readable(&place, entry, &hash, &info);
        if (is_aside) {
            info.at_ms = 0;
            info.task.process_at_ms = 0; /* a copy of it is due at once */
        }
    } else {
        fill_damaged(reading->place, entry,
                     qn_arena_printf(pipeline->arena, "damaged: %s", why.text), &info);
        fill_unusable(pipeline, &hash, &info);
    }
    reading->stopped = !reading->sink->on_info(entry, &info, reading->sink->user);
}

/* It has the state and the moments that it had. One whose day is over meanwhile is left out. */
static void report_deleted(struct reading *reading, struct qn_pipeline *pipeline,
                           struct qn_task_entry *entry, const struct qn_reply *reply)
{
    quern_error refused = {0};
    struct qn_place place = *reading->place;
    const struct qn_reply *field = qn_reply_at(reply, TRASH);
    struct reading one = *reading;
    if (qn_trash_entry_read(qn_reply_text(field), text_size(field), &place, entry)) {
        one.place = &place;
        report_task(&one, pipeline, entry, reply, &refused);
        reading->stopped = one.stopped;
    }
}

/* --- Several ---------------------------------------------------------------------------- */

static void add_key(struct qn_pipeline *pipeline, const struct qn_place *place,
                    const struct qn_task_entry *entry)
{
    if (place->in_trash) {
        qn_trash_entry_key(pipeline, place->queue, entry);
    } else {
        qn_keys_add_task(pipeline, place->queue, entry->id, entry->id_size);
    }
}

static quern_status read_sizes(struct reading *reading, quern_error *err)
{
    static const int large[] = {MSG, RESULT};
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, reading->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < 2 * reading->count; i++) {
        qn_pipeline_command(&pipeline, "HSTRLEN");
        add_key(&pipeline, reading->place, &reading->entries[i / 2]);
        qn_pipeline_text(&pipeline, field_names[large[i % 2]]);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < 2 * reading->count; i++) {
        const struct qn_reply *reply = NULL;
        reading->sizes[i / 2] += qn_pipeline_reply(&pipeline, i, &reply, NULL) == QUERN_OK
                                     ? (size_t)qn_reply_uint(reply)
                                     : 0;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* Whether it is still where it was found, for tasks whose hash does not confirm it. */
static void ask_place(struct qn_pipeline *pipeline, const struct qn_place *place,
                      const struct qn_task_entry *entry)
{
    const char *key = place->key != NULL ? place->key : quern_task_state_name(place->state);
    bool list = place->state == QUERN_TASK_PENDING || place->state == QUERN_TASK_ACTIVE;
    qn_pipeline_command(pipeline, list ? "LPOS" : "ZSCORE");
    qn_keys_add(pipeline, place->queue, key);
    qn_pipeline_bytes(pipeline, entry->id, entry->id_size);
    if (list) {
        qn_pipeline_text(pipeline, "RANK");
        qn_pipeline_int(pipeline, -1);
        qn_pipeline_text(pipeline, "MAXLEN");
        qn_pipeline_uint(pipeline,
                         entry->rank + 2 * QN_INSPECT_BLOCK); /* it only moves to the head */
    }
}

/* Entries that are read in one pipeline. */
struct part {
    size_t first;
    size_t count;
    size_t asked_at[QN_INSPECT_BATCH]; /* the command that asks for its place once more; 0: none */
};

static void ask_leases(struct qn_pipeline *pipeline, const struct reading *reading,
                       const struct part *part)
{
    qn_pipeline_command(pipeline, "ZMSCORE");
    qn_keys_add(pipeline, reading->place->queue, "lease");
    for (size_t i = part->first; i < part->first + part->count; i++) {
        qn_pipeline_bytes(pipeline, reading->entries[i].id, reading->entries[i].id_size);
    }
}

static size_t count_fields(const struct qn_place *place)
{
    return place->alone ? FIELD_COUNT : place->in_trash ? RUNS : TRASH;
}

static void ask_tasks(struct qn_pipeline *pipeline, const struct reading *reading,
                      const struct part *part)
{
    for (size_t i = part->first; i < part->first + part->count; i++) {
        qn_pipeline_command(pipeline, "HMGET");
        qn_pipeline_limit(pipeline, QN_REPLY_TASKS_MAX);
        add_key(pipeline, reading->place, &reading->entries[i]);
        for (size_t j = 0; j < count_fields(reading->place); j++) {
            qn_pipeline_text(pipeline, field_names[j]);
        }
    }
    if (reading->place->state == QUERN_TASK_ACTIVE) {
        ask_leases(pipeline, reading, part);
    }
}

static bool has_its_state(const struct reading *reading, const struct qn_pipeline *pipeline,
                          size_t index)
{
    const struct qn_reply *reply = NULL;
    const char *state = quern_task_state_name(reading->place->state);
    return qn_pipeline_reply(pipeline, index, &reply, NULL) == QUERN_OK &&
           strcmp(qn_reply_text(qn_reply_at(reply, STATE)), state) == 0;
}

/* Asks once more for those that do not. */
static quern_status ask_again(const struct reading *reading, struct qn_pipeline *pipeline,
                              struct part *part, quern_error *err)
{
    for (size_t i = 0; i < part->count; i++) {
        part->asked_at[i] = 0;
        if (!has_its_state(reading, pipeline, i)) {
            part->asked_at[i] = pipeline->command_count;
            ask_place(pipeline, reading->place, &reading->entries[part->first + i]);
        }
    }
    return qn_pipeline_run(pipeline, err);
}

static bool has_moved(const struct qn_pipeline *pipeline, size_t at)
{
    const struct qn_reply *reply = NULL;
    return at != 0 && qn_pipeline_reply(pipeline, at, &reply, NULL) == QUERN_OK &&
           reply->type == QN_REPLY_NIL;
}

static quern_status read_some(struct reading *reading, size_t first, size_t count, quern_error *err)
{
    struct qn_pipeline pipeline;
    struct part part = {.first = first, .count = count};
    qn_redis_begin(&pipeline, reading->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    ask_tasks(&pipeline, reading, &part);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK && !reading->place->in_trash) {
        status = ask_again(reading, &pipeline, &part, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < count && !reading->stopped; i++) {
        const struct qn_reply *reply = NULL;
        const struct qn_reply *leases = NULL;
        struct qn_task_entry entry = reading->entries[first + i];
        quern_error refused = {0};
        if (reading->place->in_trash) {
            if (qn_pipeline_reply(&pipeline, i, &reply, NULL) == QUERN_OK) {
                report_deleted(reading, &pipeline, &entry, reply);
            }
            continue;
        }
        if (has_moved(&pipeline, part.asked_at[i])) {
            continue;
        }
        if (reading->place->state == QUERN_TASK_ACTIVE &&
            qn_pipeline_reply(&pipeline, count, &leases, NULL) == QUERN_OK) {
            entry.score = qn_reply_seconds(qn_reply_at(leases, i));
        }
        if (qn_pipeline_reply(&pipeline, i, &reply, &refused) != QUERN_OK) {
            reply = NULL;
        }
        report_task(reading, &pipeline, &entry, reply, &refused);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_read_task_all(struct qn_redis *self, const struct qn_place *place,
                              struct qn_task_entries entries, const struct qn_task_sink *sink,
                              quern_error *err)
{
    quern_status status = QUERN_OK;
    bool stopped = false;
    for (size_t done = 0; status == QUERN_OK && done < entries.count && !stopped;) {
        size_t left = entries.count - done;
        struct reading reading = {.self = self,
                                  .place = place,
                                  .entries = entries.items + done,
                                  .count = left < QN_INSPECT_BATCH ? left : QN_INSPECT_BATCH,
                                  .sink = sink};
        status = read_sizes(&reading, err);
        for (size_t i = 0; status == QUERN_OK && i < reading.count && !reading.stopped;) {
            size_t some = 1;
            size_t bytes = reading.sizes[i];
            while (i + some < reading.count &&
                   bytes + reading.sizes[i + some] <= QN_BATCH_BYTES_MAX) {
                bytes += reading.sizes[i + some];
                some++;
            }
            status = read_some(&reading, i, some, err);
            i += some;
        }
        done += reading.count;
        stopped = reading.stopped;
    }
    return status;
}
