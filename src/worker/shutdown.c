/* SPDX-License-Identifier: MIT */
/* shutdown.c - how a worker ends: nothing is lost, no retry is used up.
 *
 *   1. fetch no more, give back what has not started, let the rest finish (shutdown_timeout_ms)
 *   2. cancel what still runs, and give it a moment
 *   3. give it up: its task goes back to its queue, its handler's later word is thrown away
 *   4. wait until the broker has all of that, or until it is clear that it does not answer: then
 *      the leases run out, and the tasks come back by themselves; the log names what it has not
 *
 * Where no handler runs, step 4 follows at once; where no outcome is to be told, it is short.
 * Another quern_worker_stop skips the wait of step 1, a third one all of them. Runs on the thread
 * that called quern_worker_run. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "worker/internal.h"

enum {
    BREAK_LOOK_MS = 20,
    GRACE_MS = 1000,
    GRACE_AT_ONCE_MS = 250,
    DELIVER_MS = 5000,
    OWED_MS = 1000, /* for the answer to a request for tasks, when there is nothing to deliver */
    TELL_AGAIN_MS = 10000
};

void qn_worker_wait_bell(struct quern_worker *worker, int64_t timeout_ms)
{
    struct pollfd bell = {.fd = worker->bell, .events = POLLIN};
    int timeout = timeout_ms < 0 ? -1 : timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
    if (poll(&bell, 1, timeout) > 0) {
        uint64_t count;
        ssize_t got = read(worker->bell, &count, sizeof count);
        (void)got; /* non-blocking: at worst somebody else took it */
    }
}

/* With mutex held. */
static bool is_settled(const struct quern_worker *worker)
{
    return worker->books.held_count == 0 && !worker->owes;
}

void qn_worker_note_settled(struct quern_worker *worker)
{
    if (worker->state == QN_WORKER_DRAINING && worker->books.running_count == 0) {
        qn_worker_ring(worker);
    }
}

/* A person who stopped a worker wants to know what it waits for. */
static void tell_left(struct quern_worker *worker, int64_t left_ms)
{
    (void)pthread_mutex_lock(&worker->mutex);
    size_t count = worker->books.running_count;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (count == 0) {
        return;
    }
    const char *runs = count == 1 ? "run" : "runs";
    if (left_ms < 0) {
        qn_log_write(&worker->log, QUERN_LOG_INFO, "%zu %s left, no limit; again to stop now",
                     count, runs);
    } else {
        qn_log_write(&worker->log, QUERN_LOG_INFO, "%zu %s left, %lld s; again to stop now", count,
                     runs, (long long)(left_ms + 999) / 1000);
    }
}

/* What a wait ends with; so many calls of quern_worker_stop end it, too. */
struct goal {
    bool settled; /* no run is held or under way to us; else: no handler runs */
    int stops_max;
};

/* Waits for the goal, or until the time is over (-1: never). */
static bool wait_for(struct quern_worker *worker, int64_t timeout_ms, struct goal goal)
{
    bool tells = goal.stops_max == 2; /* the first wait, which another signal ends */
    int64_t tell_at_mono_ns = 0;
    int64_t end_mono_ns =
        timeout_ms < 0 ? INT64_MAX : qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS;
    for (;;) {
        (void)pthread_mutex_lock(&worker->mutex);
        bool reached = goal.settled ? is_settled(worker) : worker->books.running_count == 0;
        (void)pthread_mutex_unlock(&worker->mutex);
        int64_t now_mono_ns = qn_clock_mono_ns();
        if (reached || atomic_load(&worker->stops) >= goal.stops_max ||
            now_mono_ns >= end_mono_ns) {
            return reached;
        }
        qn_steer_log_runs(worker); /* who waits for a drain asks just then */
        int64_t left_ms = timeout_ms < 0 ? -1 : (end_mono_ns - now_mono_ns) / QN_NS_PER_MS;
        int64_t nap_ms = left_ms < 0 ? -1 : left_ms + 1;
        if (tells && now_mono_ns >= tell_at_mono_ns) {
            tell_left(worker, left_ms);
            tell_at_mono_ns = now_mono_ns + TELL_AGAIN_MS * QN_NS_PER_MS;
        }
        if (tells && (nap_ms < 0 || nap_ms > TELL_AGAIN_MS)) {
            nap_ms = TELL_AGAIN_MS;
        }
        qn_worker_wait_bell(worker, nap_ms);
    }
}

static void begin_drain(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_DRAINING;
    worker->announce_due = true;
    (void)qn_take_back_waiting(worker, qn_clock_mono_ns());
    qn_pump_poke(worker);
    qn_keeper_poke(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void cancel_all(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->books.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->phase == QN_RUN_RUNNING) {
            qn_run_cancel(run, QN_REASON_SHUTDOWN);
        }
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Returns how many handlers were given up. */
static size_t give_up_all(struct quern_worker *worker)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->books.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->phase != QN_RUN_RUNNING) {
            continue;
        }
        struct qn_verdict verdict;
        qn_verdict_interrupt(worker, run, qn_run_cancel_reason(run), &verdict);
        qn_verdict_revise(run, &verdict);
        qn_books_fence(&worker->books, run, &verdict);
        count++;
    }
    qn_pump_poke(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    return count;
}

/* Nobody takes outcomes any more: commands are ended, handlers are asked to end. */
static void break_off(struct quern_worker *worker)
{
    begin_drain(worker);
    cancel_all(worker);
    int64_t end_mono_ns = qn_clock_mono_ns() + GRACE_MS * QN_NS_PER_MS;
    size_t running;
    do {
        (void)pthread_mutex_lock(&worker->mutex);
        running = worker->books.running_count;
        (void)pthread_mutex_unlock(&worker->mutex);
        if (running > 0) {
            qn_worker_wait_bell(worker, BREAK_LOOK_MS);
        }
    } while (running > 0 && qn_clock_mono_ns() < end_mono_ns);
    (void)give_up_all(worker);
}

/* Waits until the broker has taken all. A request for tasks that it does not answer is no reason to
 * wait for long: tasks that it gave come back by themselves, and none of them was begun. */
static void deliver(struct quern_worker *worker)
{
    bool settled = wait_for(worker, OWED_MS, (struct goal){true, 4});
    (void)pthread_mutex_lock(&worker->mutex);
    bool has_more = worker->books.held_count > 0;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!settled && has_more) {
        (void)wait_for(worker, DELIVER_MS - OWED_MS, (struct goal){true, 4});
    }
}

void qn_worker_shut_down(struct quern_worker *worker)
{
    if (qn_worker_is_lost(worker, NULL)) {
        break_off(worker);
        return;
    }
    begin_drain(worker); /* first: what the log says is so */
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker drains", QN_LOG_TEXT("worker", worker->id));
    bool ended = wait_for(worker, worker->options.shutdown_timeout_ms, (struct goal){false, 2});
    if (!ended) {
        cancel_all(worker);
        bool at_once = atomic_load(&worker->stops) >= 2;
        ended = wait_for(worker, at_once ? GRACE_AT_ONCE_MS : GRACE_MS, (struct goal){false, 3});
    }
    size_t count = ended ? 0 : give_up_all(worker);
    if (count > 0) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "runs given back at shutdown",
               QN_LOG_NUMBER("count", count));
    }
    deliver(worker);
}

/* The runs that the broker has not confirmed the end of (it may have heard it, or hear it when it
 * goes on: what was sent lies in its socket), each with a reference; NULL: none, or out of
 * memory. *ret_count: how many there are; *ret_owes: whether it owes an answer. */
static struct quern_run **note_untold(struct quern_worker *worker, size_t *ret_count,
                                      bool *ret_owes)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->books.held;
    size_t held_count = worker->books.held_count;
    struct quern_run **runs =
        held_count == 0 ? NULL : qn_alloc_zero(held_count, sizeof(struct quern_run *));
    for (struct qn_list *node = held->next; runs != NULL && node != held; node = node->next) {
        runs[count] = QN_CONTAINER_OF(node, struct quern_run, node);
        runs[count++]->references++;
    }
    *ret_count = held_count;
    *ret_owes = worker->owes;
    (void)pthread_mutex_unlock(&worker->mutex);
    return runs;
}

void qn_worker_tell_untold(struct quern_worker *worker)
{
    size_t count = 0;
    bool owes = false;
    struct quern_run **runs = note_untold(worker, &count, &owes);
    for (size_t i = 0; runs != NULL && i < count; i++) {
        const struct qn_task *task = &runs[i]->leased->task;
        if (runs[i]->started_at_mono_ns != 0 && runs[i]->verdict.offered) {
            QN_LOG(&worker->log, QUERN_LOG_WARN, "outcome not confirmed, the task may run again",
                   QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
                   QN_LOG_TEXT("id", task->id));
        }
    }
    if (count > 0) {
        QN_LOG(&worker->log, QUERN_LOG_ERROR,
               "broker did not confirm all outcomes, what it has not taken runs again",
               QN_LOG_NUMBER("count", count));
    } else if (owes) {
        qn_log_write(&worker->log, QUERN_LOG_WARN,
                     "broker did not answer a request for tasks, their leases will run out");
    }
    qn_worker_release_runs(worker, runs, runs == NULL ? 0 : count);
    qn_free(runs);
}
