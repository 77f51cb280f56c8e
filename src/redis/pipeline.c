/* SPDX-License-Identifier: MIT */
/* pipeline.c - sends commands in one write, receives the replies.
 *
 * The request is one block in the channel's arena, made when the pipeline runs. A script is sent as
 * EVALSHA; the scripts that the server does not know (it was restarted, or its scripts were
 * flushed) are sent again as EVAL, and only those: commands that succeeded are never repeated. So
 * the commands of one run must not depend on their order, unless the first brings its text
 * (qn_pipeline_script_text).
 *
 * A channel that was idle is checked before it is used: if the server went away meanwhile, the
 * socket is at its end of file, and a new connection is made before anything is sent. So a restart
 * between two operations is not noticed, and "effect unknown" is reported only when it is true. */
#include "redis/pipeline.h"

#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory/vec.h"
#include "redis/cluster/route.h"
#include "redis/cluster/unsent.h"
#include "redis/encode.h"
#include "redis/open.h"
#include "redis/server_error.h"

/* --- Building ----------------------------------------------------------------------- */

void qn_pipeline_begin(struct qn_pipeline *pipeline, struct qn_channel *channel,
                       enum qn_pipeline_kind kind)
{
    pthread_mutex_lock(&channel->mutex);
    qn_channel_tidy(channel);
    *pipeline = (struct qn_pipeline){.channel = channel, .kind = kind, .arena = &channel->arena};
}

/* Whether replies to sent commands are still to come. */
static bool is_under_way(const struct qn_pipeline *pipeline)
{
    return pipeline->sent_count > pipeline->read_count;
}

void qn_pipeline_end(struct qn_pipeline *pipeline)
{
    struct qn_channel *channel = pipeline->channel;
    if (channel->cluster != NULL) {
        qn_route_drop(pipeline);
    } else if (is_under_way(pipeline) && !QN_BUG(OWED_REPLY_LEFT)) {
        qn_connection_close(&channel->connection); /* no caller waits for its remaining replies */
    }
    channel->connection.is_held = false;
    qn_arena_reset(&channel->arena);
    pthread_mutex_unlock(&channel->mutex);
}

/* Keeps a failure, if it is the first. */
static void keep_failure(struct qn_pipeline *pipeline, quern_status status,
                         const quern_error *error)
{
    if (pipeline->status == QUERN_OK && status != QUERN_OK) {
        pipeline->status = status;
        pipeline->error = *error;
    }
}

/* Reports the failure that it keeps. */
static quern_status report_failure(const struct qn_pipeline *pipeline, quern_error *err)
{
    if (pipeline->status != QUERN_OK && err != NULL) {
        *err = pipeline->error;
    }
    return pipeline->status;
}

void qn_pipeline_nomem(struct qn_pipeline *pipeline)
{
    quern_error error = {0};
    quern_status status = qn_error_nomem(&error);
    if (is_under_way(pipeline)) {
        status = qn_pipeline_fail(pipeline, status, &error);
    }
    keep_failure(pipeline, status, &error);
}

static bool make_room_for_command(struct qn_pipeline *pipeline)
{
    void *commands = qn_vec_grow_in(pipeline->arena, pipeline->commands, pipeline->command_count,
                                    &pipeline->command_capacity, sizeof *pipeline->commands);
    if (commands == NULL) {
        qn_pipeline_nomem(pipeline);
    } else {
        pipeline->commands = commands;
    }
    return pipeline->status == QUERN_OK;
}

/* Two arrays of one length, whose items have the same size. */
static bool make_room_for_arg(struct qn_pipeline *pipeline)
{
    size_t capacity = pipeline->arg_capacity;
    void *args = qn_vec_grow_in(pipeline->arena, pipeline->args, pipeline->arg_count,
                                &pipeline->arg_capacity, sizeof *pipeline->args);
    void *sizes = qn_vec_grow_in(pipeline->arena, pipeline->arg_sizes, pipeline->arg_count,
                                 &capacity, sizeof *pipeline->arg_sizes);
    if (args == NULL || sizes == NULL) {
        qn_pipeline_nomem(pipeline);
    } else {
        pipeline->args = args;
        pipeline->arg_sizes = sizes;
    }
    return pipeline->status == QUERN_OK;
}

static void add_command(struct qn_pipeline *pipeline, const struct qn_script *script)
{
    if (pipeline->status == QUERN_OK && make_room_for_command(pipeline)) {
        pipeline->commands[pipeline->command_count++] = (struct qn_pipeline_command){
            .script = script,
            .first_arg = pipeline->arg_count,
            .reply_size_max = script == NULL ? QN_REPLY_ROWS_MAX : QN_REPLY_BRIEF_MAX,
            .named = -1,
            .goes_to = -1,
            .at = -1,
        };
    }
}

void qn_pipeline_limit(struct qn_pipeline *pipeline, size_t reply_size_max)
{
    if (pipeline->status == QUERN_OK) {
        pipeline->commands[pipeline->command_count - 1].reply_size_max = reply_size_max;
    }
}

void qn_pipeline_at(struct qn_pipeline *pipeline, int node)
{
    if (pipeline->status == QUERN_OK) {
        pipeline->commands[pipeline->command_count - 1].named = node;
    }
}

void qn_pipeline_hasty(struct qn_pipeline *pipeline)
{
    if (pipeline->status == QUERN_OK) {
        pipeline->commands[pipeline->command_count - 1].hasty = true;
    }
}

void qn_pipeline_held(struct qn_pipeline *pipeline)
{
    pipeline->channel->connection.is_held = true;
}

void qn_pipeline_hasty_from(struct qn_pipeline *pipeline, size_t first)
{
    for (size_t i = first; i < pipeline->command_count; i++) {
        pipeline->commands[i].hasty = true;
    }
}

void qn_pipeline_bytes(struct qn_pipeline *pipeline, const void *data, size_t size)
{
    if (data == NULL && size > 0) {
        qn_pipeline_nomem(pipeline);
    }
    if (pipeline->status != QUERN_OK || !make_room_for_arg(pipeline)) {
        return;
    }
    QN_ASSERT(pipeline->command_count > pipeline->sent_count);
    pipeline->args[pipeline->arg_count] = data;
    pipeline->arg_sizes[pipeline->arg_count] = size;
    pipeline->arg_count++;
    pipeline->commands[pipeline->command_count - 1].arg_count++;
}

void qn_pipeline_text(struct qn_pipeline *pipeline, const char *text)
{
    if (text == NULL) {
        qn_pipeline_nomem(pipeline);
    } else {
        qn_pipeline_bytes(pipeline, text, strlen(text));
    }
}

void qn_pipeline_command(struct qn_pipeline *pipeline, const char *name)
{
    add_command(pipeline, NULL);
    qn_pipeline_text(pipeline, name);
}

void qn_pipeline_script(struct qn_pipeline *pipeline, const struct qn_script *script,
                        size_t key_count)
{
    add_command(pipeline, script);
    qn_pipeline_text(pipeline, "EVALSHA");
    qn_pipeline_bytes(pipeline, script->sha1, sizeof script->sha1 - 1);
    qn_pipeline_uint(pipeline, key_count);
}

void qn_pipeline_script_text(struct qn_pipeline *pipeline, const struct qn_script *script,
                             size_t key_count)
{
    qn_pipeline_script(pipeline, script, key_count);
    if (pipeline->status == QUERN_OK) {
        qn_unsent_put_text(pipeline, &pipeline->commands[pipeline->command_count - 1]);
    }
}

static void add_number(struct qn_pipeline *pipeline, uint64_t number, bool negative)
{
    char *block = qn_arena_alloc(pipeline->arena, QN_DIGITS_MAX + 1);
    if (block == NULL) {
        qn_pipeline_nomem(pipeline);
        return;
    }
    char *end = block + QN_DIGITS_MAX + 1;
    char *at = qn_encode_digits(end, number);
    if (negative) {
        *--at = '-';
    }
    qn_pipeline_bytes(pipeline, at, (size_t)(end - at));
}

void qn_pipeline_int(struct qn_pipeline *pipeline, int64_t value)
{
    add_number(pipeline, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void qn_pipeline_uint(struct qn_pipeline *pipeline, uint64_t value)
{
    add_number(pipeline, value, false);
}

/* --- Running ------------------------------------------------------------------------ */

static quern_status read_replies(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    struct qn_connection *connection = &pipeline->channel->connection;
    for (size_t i = first; i < pipeline->command_count; i++) {
        struct qn_pipeline_command *command = &pipeline->commands[i];
        if (command->reply == NULL) {
            qn_connection_limit(connection, command->reply_size_max);
            quern_status status = qn_connection_receive(
                connection, pipeline->arena, pipeline->deadline_ns, &command->reply, err);
            if (status != QUERN_OK) {
                return status;
            }
        }
    }
    return QUERN_OK;
}

/* Turns the scripts that the server did not know into EVAL with their text and wants them again. */
static bool want_unknown_scripts(struct qn_pipeline *pipeline, size_t first)
{
    bool wanted = false;
    for (size_t i = first; i < pipeline->command_count; i++) {
        wanted = qn_unsent_lacks_script(pipeline, &pipeline->commands[i]) || wanted;
    }
    return wanted;
}

static quern_status open_connection(struct qn_pipeline *pipeline, quern_error *err)
{
    struct qn_connection *connection = &pipeline->channel->connection;
    if (connection->socket.fd >= 0 && pipeline->sent_count == 0 &&
        qn_connection_is_stale(connection)) {
        qn_connection_close(connection);
    }
    return qn_open_connection(connection, pipeline->deadline_ns, err);
}

/* Sends the selected commands from `first` on. */
static quern_status write_wanted(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    size_t size = 0;
    struct qn_connection *connection = &pipeline->channel->connection;
    uint64_t sent_before = connection->socket.sent_bytes;
    char *data = qn_unsent_format(pipeline, first, -1, &size);
    if (data == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_connection_send(connection, data, size, pipeline->deadline_ns, err);
    pipeline->maybe_done = pipeline->maybe_done || connection->socket.sent_bytes > sent_before;
    return status;
}

quern_status qn_pipeline_fail(const struct qn_pipeline *pipeline, quern_status status,
                              quern_error *err)
{
    if (status == QUERN_OK || !pipeline->maybe_done || pipeline->kind != QN_PIPELINE_WRITES) {
        return status;
    }
    return qn_error_as_unknown(err, "effect unknown");
}

/* Begins a run: its time counts from here. */
static void begin_run(struct qn_pipeline *pipeline)
{
    int64_t timeout_ms = pipeline->timeout_ms > 0
                             ? pipeline->timeout_ms
                             : pipeline->channel->connection.endpoint->peer.timeout_ms;
    pipeline->deadline_ns = qn_clock_mono_ns() + timeout_ms * 1000000;
    pipeline->channel->connection.socket.timeout_ms = timeout_ms;
    pipeline->maybe_done = false;
}

static quern_status send_rest(struct qn_pipeline *pipeline, quern_error *err)
{
    quern_status status = QUERN_OK;
    bool routes = pipeline->channel->cluster != NULL;
    if (!is_under_way(pipeline)) {
        begin_run(pipeline);
        status = routes ? QUERN_OK : open_connection(pipeline, err);
    }
    if (status == QUERN_OK && routes) {
        status = qn_route_send(pipeline, pipeline->read_count, err);
    } else if (status == QUERN_OK && pipeline->sent_count < pipeline->command_count) {
        status = write_wanted(pipeline, pipeline->sent_count, err);
    }
    pipeline->sent_count = pipeline->command_count;
    return status;
}

static quern_status route_all(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    if (!is_under_way(pipeline)) {
        begin_run(pipeline);
    }
    quern_status status = qn_route_run(pipeline, first, err);
    pipeline->sent_count = pipeline->command_count;
    return status;
}

/* Sends the rest and reads the replies to the commands from `first` on. */
static quern_status exchange(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    if (pipeline->channel->cluster != NULL) {
        return route_all(pipeline, first, err);
    }
    quern_status status = send_rest(pipeline, err);
    if (status == QUERN_OK) {
        status = read_replies(pipeline, first, err);
    }
    while (status == QUERN_OK && want_unknown_scripts(pipeline, first)) {
        status = write_wanted(pipeline, first, err);
        if (status == QUERN_OK) {
            status = read_replies(pipeline, first, err);
        }
    }
    if (status == QUERN_OK) {
        status = qn_connection_expect_no_more(&pipeline->channel->connection, err);
    }
    return status;
}

quern_status qn_pipeline_send(struct qn_pipeline *pipeline, quern_error *err)
{
    if (pipeline->status == QUERN_OK) {
        quern_error error = {0};
        quern_status status = send_rest(pipeline, &error);
        keep_failure(pipeline, qn_pipeline_fail(pipeline, status, &error), &error);
    }
    return report_failure(pipeline, err);
}

quern_status qn_pipeline_run(struct qn_pipeline *pipeline, quern_error *err)
{
    if (pipeline->status == QUERN_OK) {
        quern_error error = {0};
        quern_status status = exchange(pipeline, pipeline->read_count, &error);
        if (status == QUERN_OK) {
            pipeline->read_count = pipeline->command_count;
        }
        keep_failure(pipeline, qn_pipeline_fail(pipeline, status, &error), &error);
    }
    return report_failure(pipeline, err);
}

quern_status qn_pipeline_ask(struct qn_pipeline *pipeline, const struct qn_reply **ret_reply,
                             quern_error *err)
{
    size_t first = pipeline->read_count;
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_pipeline_reply(pipeline, first, ret_reply, err);
    bool lost = status == QUERN_E_BUSY && pipeline->commands[first].lost;
    return lost && pipeline->kind == QN_PIPELINE_WRITES ? qn_error_as_unknown(err, "effect unknown")
                                                        : status;
}

/* --- Replies ------------------------------------------------------------------------ */

static struct qn_str first_argument(const struct qn_pipeline *pipeline,
                                    const struct qn_pipeline_command *command)
{
    size_t at = command->first_arg + 1;
    return command->arg_count > 1 ? (struct qn_str){pipeline->args[at], pipeline->arg_sizes[at]}
                                  : (struct qn_str){0};
}

quern_status qn_pipeline_refusal(const struct qn_pipeline *pipeline, size_t index,
                                 const struct qn_reply *error, quern_error *err)
{
    const struct qn_pipeline_command *command = &pipeline->commands[index];
    const struct qn_server_call call = {pipeline->args[command->first_arg], command->script,
                                        first_argument(pipeline, command)};
    if (error->type != QN_REPLY_ERROR) {
        return qn_pipeline_expect(pipeline, false, call.command, err);
    }
    const struct qn_connection *connection =
        command->at < 0 ? &pipeline->channel->connection
                        : qn_channel_connection(pipeline->channel, command->at);
    return qn_server_error(connection->endpoint->peer.address, error, &call, err);
}

/* Of the node that should have answered; of the cluster, where no node owns the slot. */
static struct qn_endpoint *ref_absent(const struct qn_channel *channel,
                                      const struct qn_pipeline_command *command)
{
    return command->goes_to < 0 ? qn_endpoint_ref(channel->cluster->model)
                                : qn_cluster_endpoint_ref(channel->cluster, command->goes_to);
}

quern_status qn_pipeline_reply(const struct qn_pipeline *pipeline, size_t index,
                               const struct qn_reply **ret_reply, quern_error *err)
{
    QN_ASSERT(index < pipeline->command_count);
    const struct qn_pipeline_command *command = &pipeline->commands[index];
    QN_ASSERT(command->reply != NULL);
    if (command->absent && command->reason != NULL) {
        return qn_error_set(err, QUERN_E_BUSY, "%s", command->reason->text);
    }
    if (command->absent) {
        struct qn_endpoint *endpoint = ref_absent(pipeline->channel, command);
        (void)qn_error_set(err, QUERN_E_BUSY, "%s: the node does not answer",
                           endpoint->peer.address);
        qn_endpoint_unref(endpoint);
        return QUERN_E_BUSY;
    }
    if (command->reply->type == QN_REPLY_ERROR) {
        return qn_pipeline_refusal(pipeline, index, command->reply, err);
    }
    *ret_reply = command->reply;
    return QUERN_OK;
}

quern_status qn_pipeline_any_present(const struct qn_pipeline *pipeline, size_t first,
                                     quern_error *err)
{
    const struct qn_reply *reply = NULL;
    for (size_t i = first; i < pipeline->command_count; i++) {
        if (!pipeline->commands[i].absent) {
            return QUERN_OK;
        }
    }
    return first == pipeline->command_count ? QUERN_OK
                                            : qn_pipeline_reply(pipeline, first, &reply, err);
}

quern_status qn_pipeline_expect(const struct qn_pipeline *pipeline, bool condition,
                                const char *what, quern_error *err)
{
    if (condition) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_BROKER, "%s: unexpected reply to %s",
                        pipeline->channel->connection.endpoint->peer.address, what);
}
