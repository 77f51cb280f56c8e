/* SPDX-License-Identifier: MIT */
/* command.c - sends a command to a worker, and waits for its answer.
 *
 * The worker's record is read after 5 ms, 10 ms and so on up to 100 ms, until it has the answer to
 * this request. The command is sent again each half second, as a message may be lost (the worker
 * was just making a new connection); its number makes that harmless. A record that is gone or whose
 * process is gone ends the wait at once. */
#include "quern/command.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/sized.h"
#include "base/random.h"
#include "base/text/number.h"
#include "broker/command/command.h"
#include "inspect/inspector.h"
#include "task/limits.h"

enum { TIMEOUT_MS = 5000, PAUSE_MS_MIN = 5, PAUSE_MS_MAX = 100, SEND_AGAIN_MS = 500 };

/* --- The check of what the caller gave -------------------------------------------------- */

static quern_status check_order(const quern_worker_command *command, quern_error *err)
{
    if (command->order == 0 || qn_command_name((quern_worker_order)command->order) == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "command: %d is not an order",
                            (int)command->order);
    }
    if (command->order == QUERN_ORDER_RESIZE &&
        (command->concurrency == 0 || command->concurrency > QN_CONCURRENCY_MAX)) {
        return qn_error_set(err, QUERN_E_INVALID, "command: concurrency is %u, not 1 to %d",
                            command->concurrency, QN_CONCURRENCY_MAX);
    }
    if (command->order == QUERN_ORDER_LOG_LEVEL &&
        (command->log_level < QUERN_LOG_DEBUG || command->log_level > QUERN_LOG_ERROR)) {
        return qn_error_set(err, QUERN_E_INVALID, "command: %d is not a level of a log",
                            (int)command->log_level);
    }
    return QUERN_OK;
}

static quern_status check_command(const quern_worker_command *command, quern_error *err)
{
    if (command->worker_id == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "worker_id: must not be NULL");
    }
    if (command->reserved != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "command: reserved is not 0");
    }
    if (command->timeout_ms < 0 || command->timeout_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "command: timeout_ms is %lld",
                            (long long)command->timeout_ms);
    }
    return check_order(command, err);
}

/* --- Why there is no worker of ours ----------------------------------------------------- */

struct search {
    const char *id;
    bool found;
    char where[300];
};

static bool note_server(const quern_worker_info *worker, void *user)
{
    struct search *search = user;
    search->found = strcmp(worker->id, search->id) == 0;
    if (search->found) {
        (void)snprintf(search->where, sizeof search->where, "process %lld on %s",
                       (long long)worker->pid, worker->host);
    }
    return !search->found;
}

static quern_status refuse_absent(quern_inspector *inspector, const char *id, quern_error *err)
{
    struct search search = {.id = id};
    quern_status status = qn_broker_workers(inspector->broker, note_server, &search, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (search.found) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "worker %s is a server of a Go program, which takes no commands: send "
                            "a signal to %s (TSTP: quiet, TERM: stop)",
                            id, search.where);
    }
    return qn_error_set(err, QUERN_E_NOT_FOUND, "no worker %s", id);
}

/* --- The exchange with the worker ------------------------------------------------------- */

struct sending {
    quern_inspector *inspector;
    struct qn_command command;
    char text[QN_COMMAND_SIZE_MAX];
    int64_t until_mono_ns;
    int64_t send_at_mono_ns;
    int64_t timeout_ms;
};

static quern_status begin(struct sending *sending, quern_error *err)
{
    struct qn_found_worker worker;
    const char *id = sending->command.worker_id;
    quern_status status = qn_broker_find_worker(sending->inspector->broker, id, &worker, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (!worker.is_there) {
        return refuse_absent(sending->inspector, id, err);
    }
    if (!worker.lives) {
        return qn_error_set(err, QUERN_E_STATE,
                            "worker %s is dead: it was killed, or its machine is gone", id);
    }
    if (!worker.answer.is_known) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "worker %s is of an older version, which takes no commands", id);
    }
    return QUERN_OK;
}

static quern_status take_answer(const struct sending *sending,
                                const struct qn_command_answer *answer, quern_error *err)
{
    if (strcmp(answer->text, QN_COMMAND_OK) == 0) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_UNSUPPORTED, "worker %s: %s", sending->command.worker_id,
                        answer->text);
}

/* It has no record any more, or a dead one. */
static quern_status take_end(const struct sending *sending, const struct qn_found_worker *worker,
                             quern_error *err)
{
    const char *id = sending->command.worker_id;
    if (worker->is_there) {
        return qn_error_set(err, QUERN_E_STATE, "worker %s was killed before it answered", id);
    }
    return sending->command.order == QUERN_ORDER_STOP
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_STATE, "worker %s ended before it answered", id);
}

static quern_status send(struct sending *sending, int64_t now_ns, quern_error *err)
{
    if (now_ns < sending->send_at_mono_ns) {
        return QUERN_OK;
    }
    sending->send_at_mono_ns = now_ns + SEND_AGAIN_MS * QN_NS_PER_MS;
    return qn_broker_command(sending->inspector->broker, sending->text, err);
}

/* Until there is an answer, or can be none. */
static quern_status await_answer(struct sending *sending, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (int pause_ms = PAUSE_MS_MIN; status == QUERN_OK;
         pause_ms = 2 * pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : PAUSE_MS_MAX) {
        struct qn_found_worker worker;
        int64_t now_ns = qn_clock_mono_ns();
        if (now_ns >= sending->until_mono_ns) {
            return qn_error_set(err, QUERN_E_TIMEOUT,
                                "worker %s has not answered after %lld ms: it is cut off, hangs, "
                                "or may not receive commands",
                                sending->command.worker_id, (long long)sending->timeout_ms);
        }
        status = send(sending, now_ns, err);
        if (status == QUERN_OK) {
            (void)poll(NULL, 0, pause_ms);
            status = qn_broker_find_worker(sending->inspector->broker, sending->command.worker_id,
                                           &worker, err);
        }
        if (status == QUERN_OK && worker.answer.request == sending->command.request) {
            return take_answer(sending, &worker.answer, err);
        }
        if (status == QUERN_OK && (!worker.is_there || !worker.lives)) {
            return take_end(sending, &worker, err);
        }
    }
    return status;
}

static quern_status steer(quern_inspector *inspector, const quern_worker_command *command,
                          quern_error *err)
{
    struct qn_random random;
    int64_t timeout_ms = command->timeout_ms != 0 ? command->timeout_ms : TIMEOUT_MS;
    struct sending sending = {.inspector = inspector,
                              .command = {.order = (quern_worker_order)command->order,
                                          .number = command->order == QUERN_ORDER_RESIZE
                                                        ? command->concurrency
                                                    : command->order == QUERN_ORDER_LOG_LEVEL
                                                        ? (uint32_t)command->log_level
                                                        : 0},
                              .timeout_ms = timeout_ms,
                              .until_mono_ns = qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS};
    if (strlen(command->worker_id) >= sizeof sending.command.worker_id) {
        return refuse_absent(inspector, command->worker_id, err);
    }
    (void)snprintf(sending.command.worker_id, sizeof sending.command.worker_id, "%s",
                   command->worker_id);
    qn_random_init(&random);
    sending.command.request = qn_random_next(&random) | 1; /* not 0 */
    qn_command_write(&sending.command, sending.text);
    quern_status status = begin(&sending, err);
    return status == QUERN_OK ? await_answer(&sending, err) : status;
}

quern_status quern_inspector_command_sized(quern_inspector *inspector,
                                           const quern_worker_command *command, size_t command_size,
                                           quern_error *err)
{
    quern_worker_command ours;
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){command, command_size},
                               "quern_worker_command", err);
    }
    if (status == QUERN_OK && command == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "command: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = check_command(&ours, err);
    }
    return status == QUERN_OK ? steer(inspector, &ours, err) : status;
}
