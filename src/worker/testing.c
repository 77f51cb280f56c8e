/* SPDX-License-Identifier: MIT */
/* testing.c - calls a handler with a simulated run, for the tests of programs that use quern.
 *
 * The task goes through the same rules as at enqueue, the handler gets the same struct as in a
 * worker, and its output is kept in the quern_test_run instead of being sent to a broker. */
#include "quern/testing.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/sized.h"
#include "task/limits.h"
#include "task/task.h"
#include "worker/run/execute.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"

struct quern_test_run {
    quern_outcome outcome;
    char *error; /* NULL: none */
    void *result;
    size_t result_size;
    int64_t again_in_ms;
    int32_t progress;
    struct qn_task_change change; /* owned */
};

static quern_status keep_result(struct quern_run *run, const void *data, size_t size,
                                quern_error *err)
{
    quern_test_run *test = run->owner;
    char *copy = qn_alloc(size + 1); /* with a NUL behind it */
    if (copy == NULL) {
        return qn_error_nomem(err);
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    copy[size] = '\0';
    qn_free(test->result);
    test->result = copy;
    test->result_size = size;
    return QUERN_OK;
}

static quern_status keep_progress(struct quern_run *run, int32_t percent, const char *note,
                                  quern_error *err)
{
    (void)note;
    (void)err;
    quern_test_run *test = run->owner;
    test->progress = percent;
    return QUERN_OK;
}

static const struct qn_run_sink test_sink = {.write_result = keep_result,
                                             .write_progress = keep_progress};

static quern_status lease(const quern_task *task, const quern_test_run_options *options,
                          struct qn_leased **ret_leased, quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_id_source ids;
    qn_id_source_init(&ids);
    struct qn_leased leased = {
        .fence = options->fence == 0 ? 1 : options->fence,
        .retry_count = options->retry_count,
        .crash_count = options->crash_count,
        .cause = (quern_cause)options->cause,
        .started = true,
    };
    const struct qn_task_terms terms = {.now_wall_ms = qn_clock_wall_ms(qn_clock_system()),
                                        .payload_size_max = QN_PAYLOAD_SIZE_MAX,
                                        .ids = &ids};
    quern_status status = qn_task_prepare(task, &terms, &arena, &leased.task, err);
    if (status == QUERN_OK) {
        *ret_leased = qn_leased_copy(NULL, &leased);
        status = *ret_leased == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    qn_arena_finish(&arena);
    return status;
}

static quern_status read_options(struct qn_bytes options, quern_test_run_options *ret_options,
                                 quern_error *err)
{
    quern_status status = qn_sized_copy(QN_ROOM_OF(*ret_options), options, "test run options", err);
    if (status == QUERN_OK && (ret_options->retry_count < 0 || ret_options->crash_count < 0 ||
                               ret_options->deadline_at_ms < 0)) {
        status = qn_error_set(err, QUERN_E_INVALID, "test run options: a number is negative");
    }
    if (status == QUERN_OK && !qn_sized_zero(ret_options->reserved, sizeof ret_options->reserved)) {
        status = qn_error_set(err, QUERN_E_INVALID, "test run options: reserved is not 0");
    }
    if (status == QUERN_OK && quern_cause_name((quern_cause)ret_options->cause) == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "test run options: unknown cause %d",
                              (int)ret_options->cause);
    }
    return status;
}

/* Through a mux of its own, so that the outcome is judged by the code that workers use. */
static quern_status call_handler(struct quern_run *run, quern_handler handler, void *user,
                                 quern_error *err)
{
    quern_mux *mux;
    quern_status status = quern_mux_new(&mux, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = quern_mux_handle(mux, run->view.type, handler, user, NULL, err);
    if (status == QUERN_OK) {
        qn_execute_handler(run, mux);
    }
    quern_mux_free(mux);
    return status;
}

quern_status quern_test_run_handler_sized(quern_handler handler, const quern_task *task,
                                          size_t task_size, void *user,
                                          const quern_test_run_options *options,
                                          size_t options_size, quern_test_run **ret_run,
                                          quern_error *err)
{
    if (handler == NULL || task == NULL || ret_run == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            handler == NULL ? "handler"
                            : task == NULL  ? "task"
                                            : "ret_run");
    }
    quern_task own_task;
    quern_test_run_options own_options;
    quern_status status =
        qn_sized_copy(QN_ROOM_OF(own_task), (struct qn_bytes){task, task_size}, "task", err);
    if (status == QUERN_OK) {
        status = read_options((struct qn_bytes){options, options_size}, &own_options, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_leased *leased;
    status = lease(&own_task, &own_options, &leased, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_test_run *test = qn_alloc_zero(1, sizeof *test);
    struct quern_run *run = test == NULL ? NULL : qn_run_new(NULL, leased, &test_sink, test);
    if (run == NULL) {
        qn_leased_free(leased);
        qn_free(test);
        return qn_error_nomem(err);
    }
    test->progress = -1;
    run->deadline_at_ms = own_options.deadline_at_ms;
    if (own_options.cancelled) {
        qn_run_cancel(run, QN_REASON_OPERATOR_RETRY);
    }
    status = call_handler(run, handler, user, err);
    if (status != QUERN_OK) {
        qn_run_free(run);
        quern_test_run_free(test);
        return status;
    }
    test->outcome = (quern_outcome)run->outcome;
    test->again_in_ms = qn_run_again_ms(run, qn_clock_wall_ms(qn_clock_system()));
    test->change = run->change;
    run->change = (struct qn_task_change){0};
    test->error = run->error;
    run->error = NULL;
    qn_run_free(run);
    *ret_run = test;
    return QUERN_OK;
}

quern_outcome quern_test_run_outcome(const quern_test_run *run)
{
    return run->outcome;
}

const char *quern_test_run_error(const quern_test_run *run)
{
    return run->error != NULL ? run->error : "";
}

const void *quern_test_run_result(const quern_test_run *run, size_t *ret_size)
{
    if (ret_size != NULL) {
        *ret_size = run->result_size;
    }
    return run->result;
}

int64_t quern_test_run_again_in_ms(const quern_test_run *run)
{
    return run->again_in_ms;
}

int32_t quern_test_run_progress(const quern_test_run *run)
{
    return run->progress;
}

const void *quern_test_run_payload(const quern_test_run *run, size_t *ret_size)
{
    if (ret_size != NULL) {
        *ret_size = run->change.payload_size;
    }
    return run->change.payload;
}

const char *quern_test_run_queue(const quern_test_run *run)
{
    return run->change.queue;
}

int64_t quern_test_run_retry_max(const quern_test_run *run)
{
    return run->change.has_retry_max ? run->change.retry_max : -1;
}

void quern_test_run_free(quern_test_run *run)
{
    if (run == NULL) {
        return;
    }
    qn_run_free_change(&run->change);
    qn_free(run->error);
    qn_free(run->result);
    qn_free(run);
}
