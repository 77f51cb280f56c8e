/* SPDX-License-Identifier: MIT */
/* steer.c - carries out commands that come by way of the broker.
 *
 * A sender repeats its command until the record of the worker has the answer, so the answers to the
 * last few are kept: a stop that comes twice must not count twice. */
#include "worker/run/steer/steer.h"

#include <stdio.h>
#include <string.h>

#include "worker/internal.h"
#include "worker/run/steer/resize.h"

/* The place of the answer to this request; QN_STEER_PAST: it is new. With mutex held. */
static size_t find(const struct qn_steer *steer, uint64_t request)
{
    size_t place = 0;
    while (place < QN_STEER_PAST && steer->past[place].request != request) {
        place++;
    }
    return place;
}

static void answer_at_once(struct quern_worker *worker)
{
    worker->heartbeat_due = true;
    qn_signals_wake_keeper(worker);
}

/* Whether it was answered before, and is now again. */
static bool answer_again(struct quern_worker *worker, uint64_t request)
{
    (void)pthread_mutex_lock(&worker->mutex);
    size_t place = find(&worker->steer, request);
    bool was = place < QN_STEER_PAST;
    if (was) {
        worker->steer.latest = place;
        answer_at_once(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return was;
}

static void set_log_level(struct quern_worker *worker, uint32_t level,
                          struct qn_command_answer *answer)
{
    if (level > QUERN_LOG_ERROR) {
        (void)snprintf(answer->text, sizeof answer->text, "there is no log level %u", level);
    } else if (worker->options.on_log_level == NULL) {
        (void)snprintf(answer->text, sizeof answer->text,
                       "its program does not change its log level");
    } else {
        worker->options.on_log_level((quern_log_level)level, worker->options.user);
    }
}

/* All but a stop, which is answered first: the record may be gone soon. */
static void carry_out(struct quern_worker *worker, const struct qn_command *command,
                      struct qn_command_answer *answer)
{
    quern_error err = {.text = ""};
    switch (command->order) {
    case QUERN_ORDER_QUIET:
        quern_worker_quiet(worker);
        break;
    case QUERN_ORDER_RESUME:
        quern_worker_resume(worker);
        break;
    case QUERN_ORDER_STOP:
        break;
    case QUERN_ORDER_RESIZE:
        if (qn_resize(worker, command->number, &err) != QUERN_OK) {
            (void)snprintf(answer->text, sizeof answer->text, "%.*s", QN_COMMAND_ANSWER_SIZE - 1,
                           err.text);
        }
        break;
    case QUERN_ORDER_LOG_LEVEL:
        set_log_level(worker, command->number, answer);
        break;
    }
}

static void note(struct quern_worker *worker, const struct qn_command_answer *answer)
{
    struct qn_steer *steer = &worker->steer;
    (void)pthread_mutex_lock(&worker->mutex);
    steer->latest = steer->count++ % QN_STEER_PAST;
    steer->past[steer->latest] = *answer;
    answer_at_once(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
}

void qn_steer_take(struct quern_worker *worker, const char *text)
{
    struct qn_command command;
    if (!qn_command_read(text, &command) || strcmp(command.worker_id, worker->id) != 0 ||
        answer_again(worker, command.request)) {
        return;
    }
    struct qn_command_answer answer = {
        .request = command.request, .is_known = true, .text = QN_COMMAND_OK};
    carry_out(worker, &command, &answer);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker got a command", QN_LOG_TEXT("worker", worker->id),
           QN_LOG_TEXT("order", qn_command_name(command.order)),
           QN_LOG_TEXT("answer", answer.text));
    note(worker, &answer);
    if (command.order == QUERN_ORDER_STOP) {
        quern_worker_stop(worker);
    }
}

void qn_steer_write(struct quern_worker *worker, char *out, size_t size)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_command_answer answer = worker->steer.past[worker->steer.latest];
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_command_write_answer(&answer, out, size);
}
