/* SPDX-License-Identifier: MIT */
/* remote.c - between the pool of children, which knows only bytes, and the runs of a worker.
 *
 * A run waits (QN_RUN_WAITING) until its child starts it, also in the window of a child. Its end
 * comes as a result, or as the death of its child; both end in qn_execute_end, on the thread of the
 * pool. What a child sends is checked (wire.c): the pool kills a child that breaks the rules. That
 * thread must not wait for the broker, so a result that a handler writes is stored by a thread of
 * the other pool, which then answers the child.
 *
 * A death is charged to the run that had started, and to no other. Where we killed the child
 * because of a cancellation the outcome is that of the cancellation. Where it went down with the
 * newest zygote, it is the death of the worker (docs/internals/deaths.md), which its recovery
 * charges: a run that had started gets no outcome here. A worker that drains only gives it back, as
 * it does with runs whose zygote was an older one. */
#include "worker/prefork/remote.h"

#include <string.h>
#include <sys/wait.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "pool/prefork/prefork.h"
#include "worker/internal.h"
#include "worker/prefork/nursery.h"
#include "worker/prefork/wire.h"
#include "worker/run/death_text.h"
#include "worker/run/execute.h"
#include "worker/run/mux.h"

enum { WINDOW = 4, STDERR_SIZE_MAX = 4096, ANSWER_SIZE_MAX = 1024 };

static struct quern_run *run_of(struct qn_prefork_item *item)
{
    return QN_CONTAINER_OF(item, struct quern_run, child_item);
}

/* A cancellation that came while it was on its way is passed on. */
static bool begin(struct qn_prefork_item *item, bool has_started, void *user)
{
    struct quern_worker *worker = user;
    struct quern_run *run = run_of(item);
    if (!qn_execute_begin(worker, run, has_started)) {
        return false;
    }
    enum qn_cancel_reason reason = qn_run_cancel_reason(run);
    if (has_started && reason != QN_REASON_NONE) {
        qn_prefork_cancel(worker->prefork, item, (uint32_t)reason);
    }
    return true;
}

static bool encode(struct qn_prefork_item *item, struct qn_buf *out, struct qn_bytes *ret_more,
                   void *user)
{
    const struct quern_worker *worker = user;
    const struct qn_failure_defaults defaults = qn_worker_defaults(worker);
    return qn_wire_put_task(out, run_of(item), &defaults, ret_more);
}

/* --- What a child sends while it runs ---------------------------------------------------- */

struct result_write {
    struct qn_pool_item item;
    struct quern_run *run; /* with a reference */
    size_t size;
    char data[];
};

static void send_answer(struct quern_worker *worker, struct quern_run *run,
                        const quern_error *answer)
{
    struct qn_buf body;
    qn_buf_init(&body, ANSWER_SIZE_MAX);
    bool made = qn_wire_put_answer(&body, answer);
    atomic_store(&run->writes, false);
    /* Without memory the child gets an answer that it cannot read, which is an error, too. */
    qn_prefork_send(worker->prefork, &run->child_item, QN_WIRE_ANSWER,
                    made ? (struct qn_bytes){body.data, body.size} : (struct qn_bytes){"", 0});
    qn_buf_finish(&body);
}

/* On a thread of the pool. */
static void store_result(struct qn_pool_item *item)
{
    struct result_write *result = QN_CONTAINER_OF(item, struct result_write, item);
    struct quern_run *run = result->run;
    struct quern_worker *worker = run->owner;
    quern_error answer = {.code = QUERN_OK};
    (void)qn_execute_sink.write_result(run, result->data, result->size, &answer);
    send_answer(worker, run, &answer);
    (void)pthread_mutex_lock(&worker->mutex);
    qn_run_release(run);
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_free(result);
}

static bool take_result(struct quern_worker *worker, struct quern_run *run, struct qn_bytes data)
{
    if (data.size > QN_PAYLOAD_SIZE_LIMIT || atomic_exchange(&run->writes, true)) {
        return false; /* it waits for the answer to the one before */
    }
    struct result_write *result = qn_alloc(sizeof *result + data.size);
    if (result == NULL) {
        quern_error answer = {0};
        (void)qn_error_nomem(&answer);
        send_answer(worker, run, &answer);
        return true;
    }
    *result = (struct result_write){.item.execute = store_result, .run = run, .size = data.size};
    qn_list_init(&result->item.node);
    if (data.size > 0) {
        memcpy(result->data, data.data, data.size);
    }
    struct qn_list items;
    qn_list_init(&items);
    qn_list_append(&items, &result->item.node);
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_pool *pool = worker->pool; /* NULL: its end has come, and the child's soon will */
    if (pool != NULL) {
        run->references++;
        if (qn_pool_submit(pool, &items)) {
            qn_pool_wake(pool);
        }
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (pool == NULL) {
        qn_free(result);
    }
    return true;
}

static bool frame(struct qn_prefork_item *item, uint16_t kind, struct qn_bytes body, void *user)
{
    struct quern_run *run = run_of(item);
    struct qn_progress progress;
    switch (kind) {
    case QN_WIRE_PROGRESS:
        if (!qn_wire_get_progress(body, &progress)) {
            return false;
        }
        qn_run_post_progress(run, &progress);
        return true;
    case QN_WIRE_RESULT:
        return take_result(user, run, body);
    default:
        return false;
    }
}

/* --- Its end ------------------------------------------------------------------------------ */

/* It has started, as its child says or shows, before the pool announced that. */
static void ensure_begun(struct quern_worker *worker, struct quern_run *run)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool waits = run->phase == QN_RUN_WAITING;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (waits) {
        (void)qn_execute_begin(worker, run, true);
    }
}

static bool result(struct qn_prefork_item *item, struct qn_bytes body, void *user)
{
    struct quern_worker *worker = user;
    struct quern_run *run = run_of(item);
    if (atomic_load(&run->writes) || !qn_wire_get_end(body, run)) {
        qn_run_free_change(&run->change);
        run->change = (struct qn_task_change){.payload = NULL};
        run->has_change = false;
        return false;
    }
    ensure_begun(worker, run);
    qn_execute_end(worker, run);
    return true;
}

/* It is no fault of the run: we ended the child, or all children died with their zygote. */
static bool is_innocent(const struct qn_prefork_death *death)
{
    return death->by_us && death->hostile == NULL && !death->over_cpu;
}

static void set_facts(struct quern_run *run, const struct qn_prefork_death *death)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    const struct qn_death_facts facts = {
        .status = death->status,
        .out_of_memory = death->out_of_memory,
        .over_cpu = death->over_cpu,
        .note = death->hostile,
        .usage = &death->usage,
        .stderr_text = {death->stderr_text, strlen(death->stderr_text)},
        .backtrace = death->backtrace,
    };
    run->signal = WIFSIGNALED(death->status) ? WTERMSIG(death->status) : 0;
    qn_run_set_error(run, text, qn_death_text(&facts, text, sizeof text));
    run->facts = qn_death_text_facts(death->status, &death->usage);
}

/* A run that had not started goes to another child. One that has begun by then (its child died just
 * before it called the handler) goes back to its queue, unless its early ack was written: then
 * no other worker would run it. False: it must not start. */
static bool submit_again(struct quern_worker *worker, struct quern_run *run)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool may_start =
        run->phase == QN_RUN_WAITING || (run->acks_first && run->phase == QN_RUN_RUNNING);
    may_start = may_start && worker->state == QN_WORKER_RUNNING &&
                qn_run_cancel_reason(run) == QN_REASON_NONE &&
                worker->children_gone.code == QUERN_OK;
    if (may_start) {
        qn_execute_submit(worker, run);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return may_start;
}

/* The worker's own end, unless it leaves anyway. */
static bool has_fallen(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool leaves = worker->state != QN_WORKER_RUNNING || atomic_load(&worker->quiet);
    worker->fallen = worker->fallen || !leaves;
    bool fallen = worker->fallen;
    (void)pthread_mutex_unlock(&worker->mutex);
    return fallen;
}

/* It ran in a child of an older zygote, which ended. That is one death for all these runs, so it
 * charges none of them: the one that caused it runs beside the newest zygote next time. Those that
 * may not run twice do not. */
static void end_with_zygote(struct quern_worker *worker, struct quern_run *run)
{
    static const char why[] = "its zygote ended, an older one, and its process with it";
    const struct qn_mux_entry *entry = run->entry;
    const struct qn_leased *leased = run->leased;
    qn_run_set_error(run, why, sizeof why - 1);
    bool may_repeat = entry == NULL || entry->options.on_crash == QUERN_ON_CRASH_REQUEUE;
    if (may_repeat && leased->retry_count < leased->task.retry_max) {
        qn_execute_return(worker, run);
        return;
    }
    run->crashed = true;
    run->outcome = QN_OUTCOME_CRASHED;
    qn_execute_end(worker, run);
}

static void died(struct qn_prefork_item *item, bool started, const struct qn_prefork_death *death,
                 void *user)
{
    struct quern_worker *worker = user;
    struct quern_run *run = run_of(item);
    atomic_store(&run->writes, false);
    bool fallen = death->with_pool && has_fallen(worker);
    if (!started || QN_BUG(ACKED_AGAIN)) {
        /* Where the pool itself gives it up, it would do so again. */
        if (is_innocent(death) || !submit_again(worker, run)) {
            qn_execute_return(worker, run);
        }
        return;
    }
    ensure_begun(worker, run);
    if (fallen) {
        qn_execute_fall(worker, run);
        return;
    }
    bool by_zygote = death->with_zygote && !death->with_pool && death->hostile == NULL;
    if (by_zygote && qn_run_cancel_reason(run) == QN_REASON_NONE) {
        end_with_zygote(worker, run);
        return;
    }
    run->outcome = QUERN_RETRY;
    if (!is_innocent(death)) {
        set_facts(run, death);
        run->crashed = true;
        run->outcome = QN_OUTCOME_CRASHED;
    } else if (qn_run_cancel_reason(run) == QN_REASON_NONE) {
        qn_execute_return(worker, run);
        return;
    }
    qn_execute_end(worker, run);
}

/* --- The pool ------------------------------------------------------------------------------ */

void qn_remote_note_gone(const char *why, void *user)
{
    struct quern_worker *worker = user;
    (void)has_fallen(worker); /* also where no run was in a child */
    (void)pthread_mutex_lock(&worker->mutex);
    (void)qn_error_set(&worker->children_gone, QUERN_E_STATE,
                       "nothing can run any more: %s; restart the process", why);
    (void)pthread_mutex_unlock(&worker->mutex);
    QN_LOG(&worker->log, QUERN_LOG_ERROR, "worker ends, nothing can run any more",
           QN_LOG_TEXT("why", why));
    quern_worker_stop(worker);
}

static void log_child(int level, const char *message, pid_t pid, const char *detail, void *user)
{
    struct quern_worker *worker = user;
    QN_LOG(&worker->log, (quern_log_level)level, message, QN_LOG_NUMBER("pid", pid),
           QN_LOG_TEXT("detail", detail != NULL && detail[0] != '\0' ? detail : NULL));
}

static void note_made(struct qn_prefork *prefork, void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->prefork = prefork;
    if (prefork != NULL) {
        qn_prefork_resize(prefork, qn_worker_slots(worker)); /* that may have changed meanwhile */
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void count_ready(uint32_t count, void *user)
{
    qn_supply_set_ready(user, count);
}

static void note_failure(pid_t pid, const char *why, void *user)
{
    qn_supply_note_failure(user, pid, why);
}

quern_status qn_remote_start(struct quern_worker *worker,
                             const struct qn_prefork_passed_on *passed_on, quern_error *err)
{
    static const struct qn_prefork_ops ops = {.made = note_made,
                                              .begin = begin,
                                              .encode = encode,
                                              .frame = frame,
                                              .result = result,
                                              .died = died,
                                              .gone = qn_remote_note_gone,
                                              .ready = count_ready,
                                              .failed = note_failure,
                                              .log = log_child};
    if (worker->options.pool != QUERN_POOL_PREFORK) {
        return QUERN_OK;
    }
    const struct qn_prefork_options options = {
        .size = qn_worker_slots(worker),
        .window = WINDOW,
        .child_runs_max = worker->options.child_runs_max,
        .child_rss_max = worker->options.child_rss_max,
        .frame_size_max = QN_WIRE_SIZE_MAX,
        .stderr_size_max = STDERR_SIZE_MAX,
        .kill_after_ms = QN_KILL_AFTER_MS,
        .limits = {.cgroup_fd = worker->cgroup_fd},
        .passed_on = passed_on,
        .user = worker,
    };
    struct qn_zygote *zygote = qn_nursery_take(worker->options.zygote);
    if (zygote == NULL) {
        return qn_error_set(err, QUERN_E_STATE, "zygote was used by a worker before");
    }
    struct qn_prefork *prefork;
    quern_status status = qn_prefork_new(zygote, &options, &ops, &prefork, err);
    if (status != QUERN_OK) {
        qn_zygote_free(zygote);
    }
    return status;
}

bool qn_remote_end(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_prefork *prefork = worker->prefork;
    bool hangs = worker->run_table.stuck_count > 0;
    worker->prefork = hangs ? prefork : NULL;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!hangs && prefork != NULL) {
        qn_prefork_free(prefork);
    }
    return !hangs;
}

bool qn_remote_gone(struct quern_worker *worker, quern_error *err)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool is_gone = worker->children_gone.code != QUERN_OK;
    if (is_gone && err != NULL) {
        *err = worker->children_gone;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return is_gone;
}
