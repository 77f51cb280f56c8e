/* SPDX-License-Identifier: MIT */
/* call.c - one run in a child: the handler sees the same quern_run as in a thread of the worker.
 *
 * What differs is where its questions go: whether it is cancelled is read in the page that the
 * worker shares with the child, results and progress are frames to the worker. Only a result is
 * answered. Callbacks of the user, such as the delay of a retry, are called here, so that the
 * worker's process never runs code of handlers. Without memory for its end the run has no result,
 * which breaks the rules: the pool kills the child, and the run is charged. */
#include "worker/prefork/call.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "task/retry.h"
#include "task/task.h"
#include "worker/prefork/wire.h"
#include "worker/run/execute.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"
#include "worker/run/verdict.h"

enum { FRAME_FIXED_SIZE = 4096 };

static enum qn_cancel_reason ask_cancelled(const struct quern_run *run)
{
    uint32_t reason = qn_prefork_call_cancelled(run->owner);
    return reason != 0 ? (enum qn_cancel_reason)reason
                       : (enum qn_cancel_reason)atomic_load(&run->cancel_reason);
}

/* The descriptor of the pool belongs to the child and stays open; one of our own is only needed
 * for a run that was cancelled before it came here. */
static int ask_cancel_fd(struct quern_run *run)
{
    return qn_prefork_call_cancel_fd(run->owner);
}

static quern_status refuse_gone(quern_error *err)
{
    return qn_error_set(err, QUERN_E_CLOSED, "the worker is gone");
}

static quern_status send_result(struct quern_run *run, const void *data, size_t size,
                                quern_error *err)
{
    struct qn_buf body;
    quern_error answer;
    if (!qn_prefork_call_send(run->owner, QN_WIRE_RESULT, (struct qn_bytes){data, size})) {
        return refuse_gone(err);
    }
    qn_buf_init(&body, sizeof answer + FRAME_FIXED_SIZE);
    if (!qn_prefork_call_receive(run->owner, QN_WIRE_ANSWER, &body)) {
        qn_buf_finish(&body);
        return refuse_gone(err);
    }
    qn_wire_get_answer((struct qn_bytes){body.data, body.size}, &answer);
    qn_buf_finish(&body);
    return answer.code == QUERN_OK ? QUERN_OK : qn_error_set(err, answer.code, "%s", answer.text);
}

/* It is stored within a second, so only what is known here can be reported. */
static quern_status send_progress(struct quern_run *run, int32_t percent, const char *note,
                                  quern_error *err)
{
    struct qn_buf body;
    if (ask_cancelled(run) == QN_REASON_LEASE_LOST) {
        return qn_error_set(err, QUERN_E_STALE, "the lease is lost");
    }
    qn_buf_init(&body, FRAME_FIXED_SIZE);
    bool made = qn_wire_put_progress(&body, percent, note);
    bool sent = made && qn_prefork_call_send(run->owner, QN_WIRE_PROGRESS,
                                             (struct qn_bytes){body.data, body.size});
    qn_buf_finish(&body);
    return sent ? QUERN_OK : made ? refuse_gone(err) : qn_error_nomem(err);
}

/* Of a command that runs in a child. */
static void send_posted(struct quern_run *run)
{
    struct qn_progress progress;
    if (qn_run_take_progress(run, &progress)) {
        (void)send_progress(run, progress.percent, progress.note, NULL);
    }
}

static const struct qn_run_sink child_sink = {
    .write_result = send_result,
    .write_progress = send_progress,
    .progress_posted = send_posted,
    .cancel_reason = ask_cancelled,
    .cancel_fd = ask_cancel_fd,
};

void qn_call_start(void *user)
{
    const struct qn_call_setup *setup = user;
    if (setup->on_child_start != NULL) {
        setup->on_child_start(setup->user);
    }
}

/* The worker would have to call it otherwise. It comes after the delay that the handler chose, and
 * before the policy of its options, as in verdict.c. */
static void choose_delay(struct quern_run *run)
{
    const struct qn_leased *leased = run->leased;
    const struct qn_mux_entry *entry = run->entry;
    if (run->outcome != QUERN_RETRY || run->again_in_ms >= 0 || run->again_at_ms >= 0 ||
        entry == NULL || entry->options.retry_delay_ms == NULL ||
        leased->task.retry.kind != QN_BACKOFF_DEFAULT) {
        return;
    }
    (void)quern_run_again_in(
        run, entry->options.retry_delay_ms(leased->retry_count, &run->view, entry->user));
}

/* With on_error the whole verdict is made here, because that is told it; the worker takes it over,
 * unless it has lost the lease or stops. Out of memory the error may be missing. */
static void judge(struct quern_run *run, const struct qn_failure_defaults *defaults)
{
    const struct qn_mux_entry *entry = run->entry;
    if (entry == NULL || entry->options.on_error == NULL ||
        (run->outcome != QUERN_RETRY && run->outcome != QUERN_ARCHIVE &&
         run->outcome != QUERN_SNOOZE)) {
        choose_delay(run);
        return;
    }
    const struct qn_verdict_rules rules = {.clock = qn_clock_system(), .defaults = *defaults};
    struct qn_verdict verdict;
    qn_verdict_judge_by(&rules, run, &verdict);
    if (verdict.kind != QN_RETRY && verdict.kind != QN_ARCHIVE && verdict.kind != QN_CANCEL) {
        return;
    }
    run->judged = true;
    run->outcome = verdict.kind == QN_RETRY ? QUERN_RETRY : QUERN_ARCHIVE;
    if (verdict.error != run->error && verdict.error != NULL) {
        qn_run_set_error(run, verdict.error, strlen(verdict.error));
    }
    if (verdict.kind == QN_RETRY) {
        (void)quern_run_again_in(run, verdict.delay_ms);
    }
}

static void set_limits(struct quern_run *run, const struct qn_wire_run *wire)
{
    const struct qn_task *task = &run->leased->task;
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    run->deadline_at_ms = wire->deadline_at_ms != QN_WIRE_UNKNOWN
                              ? wire->deadline_at_ms
                              : qn_task_run_deadline_ms(task, now_ms);
    run->timeout_ms = task->timeout_ms; /* for the text of an error */
    if (run->timeout_ms == 0 && run->deadline_at_ms != 0 && task->deadline_at_ms == 0) {
        run->timeout_ms = run->deadline_at_ms - now_ms;
    }
    run->acked = wire->acked;
    atomic_store(&run->cancel_reason, (int)wire->reason);
}

void qn_call_run(struct qn_prefork_call *call, struct qn_bytes body, struct qn_buf *out, void *user)
{
    const struct qn_call_setup *setup = user;
    struct qn_leased leased;
    quern_header headers[QN_HEADER_COUNT_MAX];
    struct qn_wire_run wire;
    if (!qn_wire_get_task(body, &leased, headers, &wire)) {
        return;
    }
    struct quern_run *run = qn_run_new(NULL, &leased, &child_sink, call);
    if (run == NULL) {
        return;
    }
    run->entry = qn_mux_find(setup->mux, leased.task.type);
    set_limits(run, &wire);
    qn_execute_handler(run, setup->mux);
    judge(run, &wire.defaults);
    if (!qn_wire_put_end(out, run)) {
        qn_buf_reset(out);
    }
    run->leased = NULL; /* it is on the stack */
    qn_run_free(run);
}
