/* SPDX-License-Identifier: MIT */
/* pipeline.c - commands out in one write, replies back.
 *
 * What is sent is one block in the lane's arena, made when the talk runs. A script goes out as
 * EVALSHA; those that the server does not know (it was restarted, or somebody flushed its scripts)
 * are sent again as EVAL, and only those: what worked is never done twice. So the commands of one
 * run must not need each other's order, unless the first brings its text (qn_talk_script_text).
 *
 * A lane that was idle is looked at before it is used: a server that went away meanwhile shows as
 * an end of file, and a new connection is made before anything is sent. So a restart between two
 * operations is not noticed, and "effect unknown" is said only when it is. */
#include "redis/pipeline.h"

#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "broker/redis/redis.h"
#include "redis/encode.h"

#define EVAL_SIZE 4

/* --- Building ----------------------------------------------------------------------- */

void qn_talk_begin(struct qn_talk *talk, struct qn_redis *self, enum qn_lane lane,
                   enum qn_talk_kind kind)
{
    pthread_mutex_lock(&self->lanes[lane].mutex);
    *talk = (struct qn_talk){
        .self = self, .lane = lane, .kind = kind, .arena = &self->lanes[lane].arena};
}

void qn_talk_end(struct qn_talk *talk)
{
    struct qn_redis_lane *lane = &talk->self->lanes[talk->lane];
    if (talk->sent_count > talk->read_count) {
        qn_link_close(&lane->link); /* nobody waits for what it still has to say */
    }
    qn_arena_reset(&lane->arena);
    pthread_mutex_unlock(&lane->mutex);
}

/* A larger copy of an array of `count` items; NULL when memory is out. */
static void *grown(struct qn_arena *arena, const void *items, size_t count, size_t capacity,
                   size_t item_size)
{
    void *copy = qn_arena_alloc(arena, capacity * item_size);
    if (copy != NULL && count > 0) {
        memcpy(copy, items, count * item_size);
    }
    return copy;
}

static bool make_room_for_command(struct qn_talk *talk)
{
    if (talk->command_count == talk->command_capacity) {
        size_t capacity = talk->command_capacity == 0 ? 8 : talk->command_capacity * 2;
        void *commands = grown(talk->arena, talk->commands, talk->command_count, capacity,
                               sizeof *talk->commands);
        if (commands == NULL) {
            talk->failed = true;
        } else {
            talk->commands = commands;
            talk->command_capacity = capacity;
        }
    }
    return !talk->failed;
}

static bool make_room_for_arg(struct qn_talk *talk)
{
    if (talk->arg_count == talk->arg_capacity) {
        size_t capacity = talk->arg_capacity == 0 ? 32 : talk->arg_capacity * 2;
        void *args = grown(talk->arena, talk->args, talk->arg_count, capacity, sizeof *talk->args);
        void *sizes =
            grown(talk->arena, talk->arg_sizes, talk->arg_count, capacity, sizeof *talk->arg_sizes);
        if (args == NULL || sizes == NULL) {
            talk->failed = true;
        } else {
            talk->args = args;
            talk->arg_sizes = sizes;
            talk->arg_capacity = capacity;
        }
    }
    return !talk->failed;
}

static void add_command(struct qn_talk *talk, const struct qn_script *script)
{
    if (!talk->failed && make_room_for_command(talk)) {
        talk->commands[talk->command_count++] = (struct qn_talk_command){
            .script = script,
            .first_arg = talk->arg_count,
            .reply_size_max = script == NULL ? QN_REPLY_ROWS_MAX : QN_REPLY_BRIEF_MAX,
        };
    }
}

void qn_talk_limit(struct qn_talk *talk, size_t reply_size_max)
{
    if (!talk->failed) {
        talk->commands[talk->command_count - 1].reply_size_max = reply_size_max;
    }
}

void qn_talk_bytes(struct qn_talk *talk, const void *data, size_t size)
{
    talk->failed = talk->failed || (data == NULL && size > 0);
    if (talk->failed || !make_room_for_arg(talk)) {
        return;
    }
    QN_ASSERT(talk->command_count > talk->sent_count);
    talk->args[talk->arg_count] = data;
    talk->arg_sizes[talk->arg_count] = size;
    talk->arg_count++;
    talk->commands[talk->command_count - 1].arg_count++;
}

void qn_talk_text(struct qn_talk *talk, const char *text)
{
    if (text == NULL) {
        talk->failed = true;
    } else {
        qn_talk_bytes(talk, text, strlen(text));
    }
}

void qn_talk_command(struct qn_talk *talk, const char *name)
{
    add_command(talk, NULL);
    qn_talk_text(talk, name);
}

void qn_talk_script(struct qn_talk *talk, const struct qn_script *script, size_t key_count)
{
    add_command(talk, script);
    qn_talk_text(talk, "EVALSHA");
    qn_talk_bytes(talk, script->sha1, sizeof script->sha1 - 1);
    qn_talk_uint(talk, key_count);
}

static void put_script_text(struct qn_talk *talk, const struct qn_talk_command *command)
{
    talk->args[command->first_arg] = "EVAL";
    talk->arg_sizes[command->first_arg] = EVAL_SIZE;
    talk->args[command->first_arg + 1] = command->script->text;
    talk->arg_sizes[command->first_arg + 1] = command->script->size;
#ifdef QN_SEEDED_BUGS
    const char *text = qn_bug_script(talk->arena, command->script->text);
    QN_ASSERT(text != NULL);
    talk->args[command->first_arg + 1] = text;
    talk->arg_sizes[command->first_arg + 1] = strlen(text);
#endif
}

void qn_talk_script_text(struct qn_talk *talk, const struct qn_script *script, size_t key_count)
{
    qn_talk_script(talk, script, key_count);
    if (!talk->failed) {
        put_script_text(talk, &talk->commands[talk->command_count - 1]);
    }
}

static void add_number(struct qn_talk *talk, uint64_t number, bool negative)
{
    char *block = talk->failed ? NULL : qn_arena_alloc(talk->arena, QN_DIGITS_MAX + 1);
    if (block == NULL) {
        talk->failed = true;
        return;
    }
    char *end = block + QN_DIGITS_MAX + 1;
    char *at = qn_format_digits(end, number);
    if (negative) {
        *--at = '-';
    }
    qn_talk_bytes(talk, at, (size_t)(end - at));
}

void qn_talk_int(struct qn_talk *talk, int64_t value)
{
    add_number(talk, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void qn_talk_uint(struct qn_talk *talk, uint64_t value)
{
    add_number(talk, value, false);
}

void qn_talk_session(struct qn_talk *talk, uint64_t session)
{
    if (QN_BUG(RECONNECT_FORGETS)) {
        const struct qn_link *link = &talk->self->lanes[talk->lane].link;
        session += link->opened_count + (link->fd < 0 ? 1 : 0);
    }
    qn_talk_text(talk, qn_arena_printf(talk->arena, "%016llx", (unsigned long long)session));
}

void qn_talk_prefix(struct qn_talk *talk, const char *queue)
{
    qn_talk_key(talk, queue, "");
}

void qn_talk_key(struct qn_talk *talk, const char *queue, const char *suffix)
{
    qn_talk_text(talk, qn_arena_printf(talk->arena, "asynq:{%s}:%s", queue, suffix));
}

/* --- Running ------------------------------------------------------------------------ */

static bool is_wanted(const struct qn_talk_command *command)
{
    return command->reply == NULL;
}

/* The wanted commands from `first` on, as the server reads them. */
static char *format(struct qn_talk *talk, size_t first, size_t *ret_size)
{
    size_t size_max = 0;
    for (size_t i = first; i < talk->command_count; i++) {
        const struct qn_talk_command *command = &talk->commands[i];
        size_max += is_wanted(command) ? qn_format_size_max(talk->arg_sizes + command->first_arg,
                                                            command->arg_count)
                                       : 0;
    }
    char *data = qn_arena_alloc(talk->arena, size_max);
    char *at = data;
    for (size_t i = first; data != NULL && i < talk->command_count; i++) {
        const struct qn_talk_command *command = &talk->commands[i];
        if (is_wanted(command)) {
            qn_format(&at, talk->args + command->first_arg, talk->arg_sizes + command->first_arg,
                      command->arg_count);
        }
    }
    *ret_size = data == NULL ? 0 : (size_t)(at - data);
    return data;
}

static quern_status read_replies(struct qn_talk *talk, size_t first, quern_error *err)
{
    struct qn_link *link = &talk->self->lanes[talk->lane].link;
    for (size_t i = first; i < talk->command_count; i++) {
        struct qn_talk_command *command = &talk->commands[i];
        if (is_wanted(command)) {
            qn_link_limit(link, command->reply_size_max);
            quern_status status =
                qn_link_read(link, talk->arena, talk->deadline_ns, &command->reply, err);
            if (status != QUERN_OK) {
                return status;
            }
        }
    }
    return QUERN_OK;
}

/* Turns the scripts that the server did not know into EVAL with their text and wants them again. */
static bool want_unknown_scripts(struct qn_talk *talk, size_t first)
{
    bool wanted = false;
    for (size_t i = first; i < talk->command_count; i++) {
        struct qn_talk_command *command = &talk->commands[i];
        bool was_eval = command->script != NULL && talk->arg_sizes[command->first_arg] == EVAL_SIZE;
        if (command->script != NULL && !was_eval && command->reply->type == QN_REPLY_ERROR &&
            strncmp(command->reply->data, "NOSCRIPT", 8) == 0) {
            put_script_text(talk, command);
            command->reply = NULL;
            wanted = true;
        }
    }
    return wanted;
}

static quern_status open_link(struct qn_talk *talk, quern_error *err)
{
    struct qn_link *link = &talk->self->lanes[talk->lane].link;
    if (link->fd >= 0 && talk->sent_count == 0 && qn_link_is_stale(link)) {
        qn_link_close(link);
    }
    return qn_link_open(link, talk->deadline_ns, err);
}

/* Sends what is wanted of the commands from `first` on. */
static quern_status write_wanted(struct qn_talk *talk, size_t first, quern_error *err)
{
    size_t size = 0;
    bool sent = false;
    char *data = format(talk, first, &size);
    if (data == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_link_write(&talk->self->lanes[talk->lane].link, data, size,
                                        talk->deadline_ns, &sent, err);
    talk->maybe_done = talk->maybe_done || sent;
    return status;
}

quern_status qn_talk_fail(const struct qn_talk *talk, quern_status status, quern_error *err)
{
    if (!talk->maybe_done || talk->kind != QN_TALK_WRITES) {
        return status;
    }
    qn_error_prefix(err, "effect unknown");
    if (err != NULL) {
        err->code = QUERN_E_UNKNOWN;
    }
    return QUERN_E_UNKNOWN;
}

static quern_status send_rest(struct qn_talk *talk, quern_error *err)
{
    if (talk->sent_count == talk->read_count) {
        int64_t timeout_ms =
            talk->timeout_ms > 0 ? talk->timeout_ms : talk->self->target.command_timeout_ms;
        talk->deadline_ns = qn_clock_mono_ns() + timeout_ms * 1000000;
        talk->self->lanes[talk->lane].link.timeout_ms = timeout_ms;
        talk->maybe_done = false;
    }
    quern_status status = talk->failed ? qn_error_nomem(err) : QUERN_OK;
    if (status == QUERN_OK && talk->sent_count == talk->read_count) {
        status = open_link(talk, err);
    }
    if (status == QUERN_OK && talk->sent_count < talk->command_count) {
        status = write_wanted(talk, talk->sent_count, err);
    }
    talk->sent_count = talk->command_count;
    return status;
}

quern_status qn_talk_send(struct qn_talk *talk, quern_error *err)
{
    quern_status status = send_rest(talk, err);
    return status == QUERN_OK ? status : qn_talk_fail(talk, status, err);
}

quern_status qn_talk_run(struct qn_talk *talk, quern_error *err)
{
    size_t first = talk->read_count;
    quern_status status = send_rest(talk, err);
    if (status == QUERN_OK) {
        status = read_replies(talk, first, err);
    }
    while (status == QUERN_OK && want_unknown_scripts(talk, first)) {
        status = write_wanted(talk, first, err);
        if (status == QUERN_OK) {
            status = read_replies(talk, first, err);
        }
    }
    talk->read_count = talk->command_count;
    return status == QUERN_OK ? status : qn_talk_fail(talk, status, err);
}

/* --- Replies ------------------------------------------------------------------------ */

quern_status qn_talk_reply(const struct qn_talk *talk, size_t index,
                           const struct qn_reply **ret_reply, quern_error *err)
{
    QN_ASSERT(index < talk->command_count);
    const struct qn_talk_command *command = &talk->commands[index];
    QN_ASSERT(command->reply != NULL);
    if (command->reply->type == QN_REPLY_ERROR) {
        return qn_reply_refusal(&talk->self->lanes[talk->lane].link, command->reply,
                                talk->args[command->first_arg], command->script, err);
    }
    *ret_reply = command->reply;
    return QUERN_OK;
}

quern_status qn_reply_expect(const struct qn_talk *talk, bool condition, const char *what,
                             quern_error *err)
{
    if (condition) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_BROKER, "%s: %s answered what it should not",
                        talk->self->target.address, what);
}
