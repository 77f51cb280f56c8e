/* SPDX-License-Identifier: MIT */
/* client.c - opens and closes a client, and stores single tasks.
 *
 * A client is a broker, the options of its calls and the meeting point where concurrent calls join
 * (combine.c). Each public call counts itself in and out, so that quern_client_free can wait for
 * the threads that are still inside. The fork check comes before any lock: in the child of a fork
 * the lock may be held for ever by a thread that does not exist there. */
#include "client/client.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "broker/reload.h"
#include "client/existing.h"
#include "client/link.h"
#include "client/room.h"

#define COMMAND_TIMEOUT_MS_DEFAULT 10000
#define CONNECT_TIMEOUT_MS_DEFAULT 5000

static quern_status check_options(quern_client_options *options, quern_error *err)
{
    if (options->connect_timeout_ms < 0 || options->connect_timeout_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "connect_timeout_ms: must be 0 to 100 years");
    }
    if (options->command_timeout_ms < 0 || options->command_timeout_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "command_timeout_ms: must be 0 to 100 years");
    }
    if (options->room_wait_ms < 0 || options->room_wait_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "room_wait_ms: must be 0 to 100 years");
    }
    if (options->connect_wait_ms < 0 || options->connect_wait_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "connect_wait_ms: must be 0 to 100 years");
    }
    const struct qn_pace pace = qn_link_pace(options, NULL);
    quern_status status = qn_pace_check(&pace, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (options->reserved_too != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "client options: reserved_too is not 0");
    }
    if (options->payload_size_max > QN_PAYLOAD_SIZE_LIMIT) {
        return qn_error_set(err, QUERN_E_INVALID, "payload_size_max: more than 512 MiB");
    }
    if (options->connect_timeout_ms == 0) {
        options->connect_timeout_ms = CONNECT_TIMEOUT_MS_DEFAULT;
    }
    if (options->command_timeout_ms == 0) {
        options->command_timeout_ms = COMMAND_TIMEOUT_MS_DEFAULT;
    }
    if (options->payload_size_max == 0) {
        options->payload_size_max = QN_PAYLOAD_SIZE_MAX;
    }
    return QUERN_OK;
}

quern_status quern_client_open_sized(const char *url, const quern_client_options *theirs,
                                     size_t theirs_size, quern_client **ret_client,
                                     quern_error *err)
{
    if (url == NULL || ret_client == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            url == NULL ? "url" : "ret_client");
    }
    quern_client_options options;
    quern_status status = qn_sized_copy(QN_ROOM_OF(options), (struct qn_bytes){theirs, theirs_size},
                                        "quern_client_options", err);
    if (status == QUERN_OK) {
        status = check_options(&options, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    quern_client *client = qn_alloc_zero(1, sizeof *client);
    if (client == NULL) {
        return qn_error_nomem(err);
    }
    client->clock = options.clock != NULL ? options.clock : qn_clock_system();
    client->command_timeout_ms = options.command_timeout_ms;
    client->payload_size_max = options.payload_size_max;
    client->room_wait_ms = options.room_wait_ms;
    client->no_wait = options.no_wait;
    client->tracer = options.tracer;
    client->pace = qn_link_pace(&options, url);
    status = qn_link_open(url, &options, &client->broker, err);
    if (status != QUERN_OK) {
        goto fail_client;
    }
    pthread_mutex_init(&client->mutex, NULL);
    pthread_mutex_init(&client->ids_mutex, NULL);
    pthread_cond_init(&client->idle, NULL);
    qn_dispatch_init(&client->dispatch);
    qn_list_init(&client->waiting);
    qn_id_source_init(&client->ids);
    qn_random_init(&client->random);
    client->stamp.session = qn_random_next(&client->random);
    *ret_client = client;
    return QUERN_OK;

fail_client:
    qn_free(client);
    return status;
}

void quern_client_free(quern_client *client)
{
    if (client == NULL || qn_broker_check_fork(client->broker, NULL) != QUERN_OK) {
        /* A forked child only has a copy of the memory; the file is open for the parent alone. */
        return;
    }
    pthread_mutex_lock(&client->mutex);
    while (client->calls > 0) {
        pthread_cond_wait(&client->idle, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
    QN_ASSERT(qn_list_empty(&client->waiting));
    QN_ASSERT(!client->led);
    qn_broker_close(client->broker);
    qn_arena_finish(&client->arena);
    qn_dispatch_finish(&client->dispatch);
    pthread_cond_destroy(&client->idle);
    pthread_mutex_destroy(&client->ids_mutex);
    pthread_mutex_destroy(&client->mutex);
    qn_free(client);
}

quern_status quern_client_reload_certificates(quern_client *client, quern_error *err)
{
    quern_status status = qn_client_enter(client, err);
    if (status == QUERN_OK) {
        status = qn_broker_reload(client->broker, err);
        qn_client_leave(client);
    }
    return status;
}

quern_status qn_client_enter(quern_client *client, quern_error *err)
{
    if (client == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "client: must not be NULL");
    }
    quern_status status = qn_broker_check_fork(client->broker, err);
    if (status != QUERN_OK) {
        return status;
    }
    pthread_mutex_lock(&client->mutex);
    client->calls++;
    pthread_mutex_unlock(&client->mutex);
    return QUERN_OK;
}

void qn_client_leave(quern_client *client)
{
    pthread_mutex_lock(&client->mutex);
    QN_ASSERT(client->calls > 0);
    client->calls--;
    if (client->calls == 0) {
        pthread_cond_broadcast(&client->idle);
    }
    pthread_mutex_unlock(&client->mutex);
}

quern_status quern_client_enqueue_sized(quern_client *client, const quern_task *task,
                                        size_t task_size, quern_task_info **ret_info,
                                        quern_error *err)
{
    if (task == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "task: must not be NULL");
    }
    quern_status status = qn_client_enter(client, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_task in;
    status = qn_sized_copy(QN_ROOM_OF(in), (struct qn_bytes){task, task_size}, "quern_task", err);
    if (status != QUERN_OK) {
        goto leave;
    }
    struct qn_request request = {
        .tasks = task,
        .task_size = task_size,
        .count = 1,
        .payload_bytes = in.payload_size,
        .wants_info = ret_info != NULL,
        .began = qn_request_begin(client),
    };
    qn_room_request(client, &request, qn_room_until_mono_ns(client));
    quern_status refusal = request.failed ? request.error.code : QUERN_OK;
    if (ret_info != NULL && (refusal == QUERN_E_DUPLICATE || refusal == QUERN_E_CONFLICT)) {
        request.info = qn_existing_task(client, &in, request.holder, &request.error);
    } else if (ret_info != NULL && !request.failed && request.holder[0] != '\0') {
        status = qn_existing_instead(client, &in, request.holder, &request.info, err);
    }
    if (request.failed) {
        status = qn_error_set(err, request.error.code, "%s", request.error.text);
    }
    if (ret_info != NULL && (request.info != NULL || status == QUERN_OK)) {
        *ret_info = request.info;
    }

leave:
    qn_client_leave(client);
    return status;
}

void quern_client_wake(quern_client *client)
{
    if (qn_client_enter(client, NULL) != QUERN_OK) {
        return;
    }
    qn_broker_wake(client->broker);
    qn_client_leave(client);
}
