/* SPDX-License-Identifier: MIT */
/* edit.c - tasks are edited by hand.
 *
 * The message of each is read, changed here and written by a script (edit.lua) that compares it
 * with what was read, so that neither a worker nor a Go program is overwritten. What the message
 * has besides stays as it is, also what we do not know. A few tasks are read and written at a time,
 * by their sizes. */
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/edit/edit.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/operate/edit_lua.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

#define TRIES_MAX 3 /* of one task that others change meanwhile */

/* One task. */
struct one {
    struct qn_task_entry entry;
    struct qn_bytes message; /* as the next two, as it was read */
    struct qn_bytes state;
    struct qn_bytes opts;
    int64_t at_ms; /* 0: none */
    struct qn_bytes new_message;
    const char *new_opts; /* "": they stay as they are */
    int64_t new_at_ms;    /* 0: the same */
    struct qn_edit_answer answer;
};

/* A few of one place. */
struct editing {
    struct qn_redis *self;
    const struct qn_edit_list *list;
    struct qn_place place;
    struct one ones[QN_INSPECT_BATCH];
    size_t count;
    size_t at; /* the one that is being read */
    struct qn_arena arena;
    bool no_memory;
};

/* --- As they are -------------------------------------------------------------------------- */

static struct qn_bytes copy(struct editing *editing, const struct qn_reply *reply)
{
    struct qn_bytes bytes = {.size = reply->type == QN_REPLY_TEXT ? reply->size : 0};
    bytes.data = qn_arena_copy(&editing->arena, qn_reply_text(reply), bytes.size + 1);
    editing->no_memory = editing->no_memory || bytes.data == NULL;
    return bytes;
}

static quern_status read_raw(struct editing *editing, quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, editing->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < editing->count; i++) {
        qn_pipeline_command(&pipeline, "HMGET");
        qn_pipeline_limit(&pipeline, QN_REPLY_TASKS_MAX);
        qn_keys_add_task(&pipeline, editing->list->queue, editing->ones[i].entry.id,
                         editing->ones[i].entry.id_size);
        qn_pipeline_text(&pipeline, "msg");
        qn_pipeline_text(&pipeline, "state");
        qn_pipeline_text(&pipeline, "quern_opts");
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < editing->count; i++) {
        struct one *one = &editing->ones[i];
        const struct qn_reply *reply = NULL;
        status = qn_pipeline_reply(&pipeline, i, &reply, err);
        bool is_hash = status == QUERN_OK;
        one->answer.result = status == QUERN_E_CORRUPT ? QN_EDIT_DAMAGED : QN_EDIT_MISSING;
        status = status == QUERN_E_CORRUPT ? QUERN_OK : status;
        if (is_hash && qn_reply_at(reply, 0)->type == QN_REPLY_TEXT) {
            one->answer.result = QN_EDIT_CHANGED; /* unless it is found in its place */
            one->message = copy(editing, qn_reply_at(reply, 0));
            one->state = copy(editing, qn_reply_at(reply, 1));
            one->opts = copy(editing, qn_reply_at(reply, 2));
        }
    }
    qn_pipeline_end(&pipeline);
    return status == QUERN_OK && editing->no_memory ? qn_error_nomem(err) : status;
}

/* --- As they will be ---------------------------------------------------------------------- */

static quern_status write_message(struct editing *editing, struct one *one,
                                  const struct qn_task *task, quern_error *err)
{
    struct qn_asynq_task message;
    struct qn_task stored_task;
    const struct qn_stored_task stored = {
        .queue = editing->list->queue, .id = one->entry.id, .message = one->message};
    quern_status status =
        qn_task_fields_decode(&editing->arena, &stored, &message, &stored_task, err);
    if (status != QUERN_OK) {
        return status;
    }
    const quern_task_edit *edit = editing->list->edit;
    bool never = task->timeout_ms == 0 && task->deadline_at_ms == 0;
    message.payload = task->payload;
    message.payload_size = task->payload_size;
    message.retry_max = edit->retry_max != 0 ? task->retry_max : message.retry_max;
    message.retention_ms = edit->retention_ms != 0 ? task->retention_ms : message.retention_ms;
    if (edit->deadline_at_ms != 0) {
        message.deadline_at_ms = task->deadline_at_ms;
    }
    if (edit->timeout_ms != 0 || edit->deadline_at_ms != 0) {
        message.timeout_ms = never ? QN_TIMEOUT_NEVER_MS : task->timeout_ms;
    }
    return qn_asynq_task_encode(&editing->arena, &message, &one->new_message, err);
}

/* A task that has options keeps some: what they say of the old message could seem to be right for
 * the new one, too. */
static const char *write_opts(struct editing *editing, const struct one *one,
                              const quern_task_info *info, const struct qn_task *task)
{
    char opts[QN_FIELD_SIZE];
    struct qn_task shown = *task;
    shown.state = one->opts.size > 0 ? QUERN_TASK_SCHEDULED : task->state;
    size_t size = qn_task_fields_opts_write(&shown, opts);
    if (size == 0) {
        return "";
    }
    return qn_arena_printf(&editing->arena, "%lld %.*s", (long long)info->enqueued_at_ms, (int)size,
                           opts);
}

static bool is_dated(quern_task_state state)
{
    return state == QUERN_TASK_SCHEDULED || state == QUERN_TASK_RETRY;
}

static bool is_sound(struct editing *editing, const struct one *one)
{
    struct qn_asynq_task message;
    struct qn_task task;
    const struct qn_stored_task stored = {
        .queue = editing->list->queue, .id = one->entry.id, .message = one->message};
    return qn_task_fields_decode(&editing->arena, &stored, &message, &task, NULL) == QUERN_OK;
}

static bool merge_one(const struct qn_task_entry *entry, const quern_task_info *info, void *user)
{
    struct editing *editing = user;
    struct qn_edited edited;
    while (editing->ones[editing->at].entry.id != entry->id) {
        editing->at++; /* it has moved */
    }
    struct one *one = &editing->ones[editing->at];
    bool is_read = info->task.type[0] != '\0'; /* else the server refused that, or it is damaged */
    if (one->message.data == NULL || (!is_read && is_sound(editing, one))) {
        return true;
    }
    one->answer = qn_edit_merge(editing->list, info, editing->place.now_ms, &edited);
    if (one->answer.result != QN_EDIT_DONE) {
        return true;
    }
    quern_status status = write_message(editing, one, &edited.task, NULL);
    one->at_ms = is_dated(one->answer.state) ? info->at_ms : 0;
    one->new_at_ms = edited.at_ms;
    one->new_opts = write_opts(editing, one, info, &edited.task);
    editing->no_memory = status == QUERN_E_NOMEM || one->new_opts == NULL;
    if (status != QUERN_OK) {
        one->answer.result = QN_EDIT_DAMAGED;
    }
    return !editing->no_memory;
}

static quern_status merge_all(struct editing *editing, quern_error *err)
{
    struct qn_task_entry entries[QN_INSPECT_BATCH];
    const struct qn_task_sink sink = {.on_info = merge_one, .user = editing};
    for (size_t i = 0; i < editing->count; i++) {
        entries[i] = editing->ones[i].entry;
    }
    const struct qn_task_entries all = {entries, editing->count};
    editing->at = 0;
    quern_status status = qn_read_task_all(editing->self, &editing->place, all, &sink, err);
    return status == QUERN_OK && editing->no_memory ? qn_error_nomem(err) : status;
}

/* --- Writing ------------------------------------------------------------------------------ */

static void add_moment(struct qn_pipeline *pipeline, int64_t at_ms)
{
    if (at_ms != 0) {
        qn_pipeline_int(pipeline, at_ms);
    } else {
        qn_pipeline_text(pipeline, "");
    }
}

static void add_script(struct qn_pipeline *pipeline, const struct editing *editing,
                       const struct one *one)
{
    qn_pipeline_script(pipeline, &qn_lua_edit, 1);
    qn_keys_add_prefix(pipeline, editing->list->queue);
    qn_pipeline_text(pipeline, one->entry.id);
    qn_pipeline_bytes(pipeline, one->message.data, one->message.size);
    qn_pipeline_bytes(pipeline, one->state.data, one->state.size);
    qn_pipeline_bytes(pipeline, one->opts.data, one->opts.size);
    add_moment(pipeline, one->at_ms);
    qn_pipeline_bytes(pipeline, one->new_message.data, one->new_message.size);
    qn_pipeline_text(pipeline, one->new_opts);
    add_moment(pipeline, one->new_at_ms);
}

static enum qn_edit_result result_of(const struct qn_reply *reply)
{
    const char *word = qn_reply_text(reply);
    return strcmp(word, "done") == 0      ? QN_EDIT_DONE
           : strcmp(word, "missing") == 0 ? QN_EDIT_MISSING
           : strcmp(word, "set") == 0     ? QN_EDIT_MEMBER
                                          : QN_EDIT_CHANGED;
}

static quern_status write_all(struct editing *editing, quern_error *err)
{
    struct qn_pipeline pipeline;
    size_t command = 0;
    qn_redis_begin(&pipeline, editing->self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    for (size_t i = 0; i < editing->count; i++) {
        if (editing->ones[i].answer.result == QN_EDIT_DONE) {
            add_script(&pipeline, editing, &editing->ones[i]);
        }
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < editing->count; i++) {
        const struct qn_reply *reply = NULL;
        struct one *one = &editing->ones[i];
        if (one->answer.result == QN_EDIT_DONE) {
            status = qn_pipeline_reply(&pipeline, command++, &reply, err);
            one->answer.result = status == QUERN_OK ? result_of(reply) : one->answer.result;
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status merge_and_write(struct editing *editing, quern_error *err)
{
    quern_status status = merge_all(editing, err);
    return status == QUERN_OK ? write_all(editing, err) : status;
}

/* --- Many of one place -------------------------------------------------------------------- */

/* What stood in the zset; the moments of groups and of the archive begin in that second. */
static int64_t score_of(quern_task_state state, int64_t at_ms)
{
    return is_dated(state) || state == QUERN_TASK_COMPLETED ? (at_ms + 999) / 1000 : at_ms / 1000;
}

/* Takes some from the list, by their sizes; returns where the next ones begin. */
static size_t take_some(struct editing *editing, size_t first)
{
    size_t bytes = 0;
    const struct qn_edit_list *list = editing->list;
    for (editing->count = 0; first < list->count && editing->count < QN_INSPECT_BATCH; first++) {
        const struct qn_edit_item *item = &list->items[first];
        bytes += item->payload_size + list->edit->payload_size;
        if (editing->count > 0 && bytes > QN_BATCH_BYTES_MAX) {
            break;
        }
        struct qn_task_entry entry = {
            .id = item->id, .id_size = strlen(item->id), .at_ms = item->at_ms};
        entry.score = score_of(list->state, item->at_ms);
        editing->ones[editing->count++] = (struct one){.entry = entry};
    }
    return first;
}

static quern_status edit_place(struct editing *editing, struct qn_edit_answer *answers,
                               quern_error *err)
{
    editing->place =
        (struct qn_place){.queue = editing->list->queue, .state = editing->list->state};
    quern_status status = qn_redis_inspect_now(editing->self, &editing->place.now_ms, err);
    for (size_t first = 0; status == QUERN_OK && first < editing->list->count;) {
        size_t next = take_some(editing, first);
        qn_arena_reset(&editing->arena);
        status = read_raw(editing, err);
        if (status == QUERN_OK) {
            status = merge_and_write(editing, err);
        }
        for (size_t i = 0; status == QUERN_OK && i < editing->count; i++) {
            answers[first + i] = editing->ones[i].answer;
        }
        first = next;
    }
    return status;
}

/* --- One, wherever it is ------------------------------------------------------------------ */

static bool keep_place(const struct qn_place *place, const struct qn_task_entry *entry, void *user)
{
    struct editing *editing = user;
    editing->place = *place;
    editing->ones[0].entry = *entry;
    editing->place.queue = editing->list->queue;
    return false;
}

/* Its message first: so an error of the server is not taken for a task that is gone. */
static quern_status try_one(struct editing *editing, const char *id, quern_error *err)
{
    const struct qn_place_sink sink = {.on_place = keep_place, .user = editing};
    const struct qn_names queues = {&editing->list->queue, 1};
    editing->ones[0] = (struct one){.entry = {.id = id, .id_size = strlen(id)}};
    editing->count = 1;
    editing->place = (struct qn_place){.queue = NULL};
    quern_status status = read_raw(editing, err);
    if (status == QUERN_OK && editing->ones[0].message.data != NULL) {
        status = qn_find_id(editing->self, queues, id, &sink, err);
    }
    return status == QUERN_OK && editing->place.queue != NULL ? merge_and_write(editing, err)
                                                              : status;
}

static quern_status edit_one(struct editing *editing, const char *id,
                             struct qn_edit_answer *ret_answer, quern_error *err)
{
    enum qn_edit_result result = QN_EDIT_CHANGED;
    quern_status status = QUERN_OK;
    for (int i = 0; status == QUERN_OK && result == QN_EDIT_CHANGED && i < TRIES_MAX; i++) {
        qn_arena_reset(&editing->arena);
        status = try_one(editing, id, err);
        result = editing->ones[0].answer.result;
    }
    *ret_answer = editing->ones[0].answer;
    return status;
}

quern_status qn_redis_edit(struct qn_broker *broker, const struct qn_edit_list *list,
                           struct qn_edit_answer *answers, quern_error *err)
{
    struct editing *editing = qn_alloc_zero(1, sizeof *editing);
    if (editing == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    editing->self = qn_redis_of(broker);
    editing->list = list;
    if (list->state != 0) {
        status = edit_place(editing, answers, err);
    }
    for (size_t i = 0; list->state == 0 && status == QUERN_OK && i < list->count; i++) {
        status = edit_one(editing, list->items[i].id, &answers[i], err);
    }
    qn_arena_finish(&editing->arena);
    qn_free(editing);
    return status;
}
