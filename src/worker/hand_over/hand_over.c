/* SPDX-License-Identifier: MIT */
/* hand_over.c - from a worker that runs to a state without threads, and back.
 *
 * The worker that leaves:
 *   1. fetches no more and gives back what has not started, until all outcomes are confirmed, the
 *      broker owes no answer, and each run that is left is in a child. Runs in threads (commands,
 *      aggregations) have the shutdown timeout for that, the broker has ANSWER_MS. Since it was
 *      asked, each lease was extended
 *   2. freezes the pool of children: what they send waits in their sockets. An outcome that came
 *      just before is confirmed, too
 *   3. ends its threads, and describes runs and children.
 * Until step 3 it can go on as before, if something takes too long. From then on only a new worker
 * can, of this program or of the next. Its record at the broker stays, because the process does.
 *
 * The worker that takes over has the id of the first one, the same runs, and a pool in which the
 * children of the old one are those of an older zygote. */
#include "worker/hand_over/hand_over.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "worker/internal.h"
#include "worker/run/execute.h"
#include "worker/run/give_back.h"

enum { LOOK_MS = 10, ANSWER_MS = 5000, STATE_SIZE_MAX = 1 << 30 };

void qn_hand_over_ask(quern_worker *worker)
{
    atomic_store(&worker->hand_over.under_way, true);
    atomic_store(&worker->hand_over.asked, true);
    qn_signals_wake_main(worker);
}

bool qn_hand_over_is_under_way(const quern_worker *worker)
{
    return atomic_load(&worker->hand_over.under_way);
}

/* --- The worker that leaves ----------------------------------------------------------------- */

static void stop_fetching(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_DRAINING;
    worker->heartbeat_due = true;
    (void)qn_give_back_waiting(worker, qn_clock_mono_ns());
    qn_signals_wake_pump(worker);
    qn_signals_wake_keeper(worker);
    worker->signals.leases_signalled = true; /* extends them now */
    (void)pthread_cond_broadcast(&worker->signals.leases_cond);
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void fetch_again(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_RUNNING;
    worker->heartbeat_due = true;
    worker->look = true;
    qn_signals_wake_pump(worker);
    qn_signals_wake_keeper(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
}

enum readiness {
    READY,
    WAITS_FOR_BROKER,
    WAITS_FOR_THREADS, /* runs that no child runs */
    IMPOSSIBLE
};

/* With mutex held. */
static enum readiness judge_run(const struct quern_worker *worker, const struct quern_run *run)
{
    if (run->phase != QN_RUN_RUNNING) {
        return run->phase == QN_RUN_WAITING && !run->in_child ? WAITS_FOR_THREADS
                                                              : WAITS_FOR_BROKER;
    }
    if (!run->in_child) {
        return WAITS_FOR_THREADS;
    }
    bool has_lease = !run->acked && !run->lost;
    int64_t left_ms = run->lease_until_boot_ms - qn_clock_boot_ms(worker->clock);
    bool is_short = has_lease && left_ms < worker->options.lease_ms / 2;
    return !run->submitted || atomic_load(&run->writes) || is_short ? WAITS_FOR_BROKER : READY;
}

/* extended: as worker->lease_rounds was when it was asked. */
static enum readiness judge(struct quern_worker *worker, uint64_t extended)
{
    (void)pthread_mutex_lock(&worker->mutex);
    const struct qn_run_table *table = &worker->run_table;
    bool is_silent = table->waiting_count > 0 || table->finished_count > 0 ||
                     !qn_list_empty(&table->starting) || worker->owes ||
                     table->held_count != table->running_count ||
                     atomic_load(&worker->lease_rounds) == extended;
    enum readiness all = is_silent ? WAITS_FOR_BROKER : READY;
    for (struct qn_list *node = table->held.next; node != &table->held; node = node->next) {
        enum readiness one = judge_run(worker, QN_CONTAINER_OF(node, struct quern_run, node));
        all = one > all ? one : all;
    }
    bool is_broken = table->stuck_count > 0 || worker->children_gone.code != QUERN_OK ||
                     worker->lost.code != QUERN_OK;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (worker->groups.served && qn_aggregator_is_busy(&worker->groups.aggregator)) {
        all = WAITS_FOR_THREADS;
    }
    return is_broken ? IMPOSSIBLE : all;
}

/* Waits until it is ready. NULL, or why it is not. */
static const char *await(struct quern_worker *worker, uint64_t extended)
{
    int64_t timeout_ms = worker->options.shutdown_timeout_ms;
    int64_t begin_mono_ns = qn_clock_mono_ns();
    int64_t broker_since_mono_ns = begin_mono_ns;
    for (;;) {
        enum readiness readiness = judge(worker, extended);
        int64_t now_mono_ns = qn_clock_mono_ns();
        if (readiness == READY) {
            return NULL;
        }
        if (readiness == IMPOSSIBLE || atomic_load(&worker->stops) > 0) {
            return readiness == IMPOSSIBLE ? "a child hangs or is lost" : "the worker is stopped";
        }
        if (readiness == WAITS_FOR_THREADS) {
            broker_since_mono_ns = now_mono_ns;
            if (timeout_ms >= 0 && now_mono_ns - begin_mono_ns > timeout_ms * QN_NS_PER_MS) {
                return "a command or an aggregation still runs";
            }
        }
        if (now_mono_ns - broker_since_mono_ns > ANSWER_MS * QN_NS_PER_MS) {
            return "the broker does not answer";
        }
        qn_signals_wait_main(worker, LOOK_MS);
    }
}

/* Freezes the children, and waits for what came just before. */
static const char *freeze(struct quern_worker *worker, uint64_t extended)
{
    if (worker->prefork == NULL) {
        return NULL;
    }
    qn_prefork_freeze(worker->prefork);
    const char *why = await(worker, extended);
    quern_error error;
    if (why != NULL && qn_prefork_thaw(worker->prefork, &error) != QUERN_OK) {
        (void)pthread_mutex_lock(&worker->mutex);
        worker->children_gone = error; /* what children send is not read */
        (void)pthread_mutex_unlock(&worker->mutex);
        quern_worker_stop(worker);
    }
    return why;
}

bool qn_hand_over_prepare(struct quern_worker *worker)
{
    if (!atomic_exchange(&worker->hand_over.asked, false)) {
        return false;
    }
    uint64_t extended = atomic_load(&worker->lease_rounds);
    stop_fetching(worker);
    const char *why = await(worker, extended);
    if (why == NULL) {
        why = freeze(worker, extended);
    }
    if (why != NULL) {
        fetch_again(worker);
        atomic_store(&worker->hand_over.under_way, false);
        QN_LOG(&worker->log, QUERN_LOG_WARN, "worker goes on, it could not be restarted",
               QN_LOG_TEXT("worker", worker->id), QN_LOG_TEXT("reason", why));
        return false;
    }
    worker->hand_over.is_passing = true;
    return true;
}

/* The address in this program: the same run, whatever else changes. */
static uint64_t key_of(const struct qn_prefork_item *item)
{
    return (uint64_t)(uintptr_t)item;
}

static bool is_passed(const struct quern_run *run)
{
    return run->phase == QN_RUN_RUNNING && run->submitted;
}

/* Of those that are not: the time of their threads is over, and their leases run out. */
static size_t put_worker(struct quern_worker *worker, struct qn_writer *writer)
{
    int64_t count = 0;
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        count += is_passed(QN_CONTAINER_OF(node, struct quern_run, node)) ? 1 : 0;
    }
    qn_bytes_put_text(writer, worker->id);
    qn_bytes_put_number(writer, worker->started_at_ms);
    qn_bytes_put_number(writer, atomic_load(&worker->quiet) ? 1 : 0);
    qn_bytes_put_number(writer, count);
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        const struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (is_passed(run)) {
            qn_bytes_put_number(writer, (int64_t)key_of(&run->child_item));
            qn_estate_put_run(writer, run);
        }
    }
    return (size_t)count;
}

/* The children have no reference any more. */
static void release_runs(struct quern_worker *worker)
{
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (is_passed(run)) {
            qn_run_release(run);
        }
    }
}

static bool describe(struct quern_worker *worker, struct qn_buf *body, struct qn_buf *fds,
                     size_t *ret_count)
{
    struct qn_writer writer = {.out = body, .ok = true};
    *ret_count = put_worker(worker, &writer);
    return writer.ok &&
           (worker->prefork == NULL || qn_prefork_describe(worker->prefork, body, fds, key_of));
}

quern_status qn_hand_over_write(struct quern_worker *worker, quern_error *err)
{
    struct qn_buf body;
    struct qn_buf fds;
    size_t count = 0;
    int fd = -1;
    qn_buf_init(&body, STATE_SIZE_MAX);
    qn_buf_init(&fds, STATE_SIZE_MAX);
    quern_status status = describe(worker, &body, &fds, &count)
                              ? qn_estate_write((struct qn_bytes){fds.data, fds.size},
                                                (struct qn_bytes){body.data, body.size}, &fd, err)
                              : qn_error_nomem(err);
    qn_buf_finish(&body);
    qn_buf_finish(&fds);
    if (status != QUERN_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_prefork *prefork = worker->prefork;
    worker->prefork = NULL;
    release_runs(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (prefork != NULL) {
        qn_prefork_pass_on(prefork);
    }
    worker->hand_over.state_fd = fd;
    worker->hand_over.has_state = true;
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker restarts", QN_LOG_TEXT("worker", worker->id),
           QN_LOG_NUMBER("runs", count));
    return QUERN_OK;
}

bool qn_hand_over_take(quern_worker *worker, int *ret_fd)
{
    struct qn_hand_over *hand_over = &worker->hand_over;
    bool has_state = hand_over->has_state;
    if (has_state) {
        *ret_fd = hand_over->state_fd;
        hand_over->has_state = false;
    }
    return has_state;
}

/* --- The worker that takes over ------------------------------------------------------------- */

static struct qn_prefork_item *find_item(uint64_t key, void *user)
{
    struct quern_worker *worker = user;
    struct qn_hand_over *hand_over = &worker->hand_over;
    for (size_t i = 0; i < hand_over->heir_count; i++) {
        struct qn_heir *heir = &hand_over->heirs[i];
        if (heir->key == key && !heir->is_placed) {
            heir->is_placed = true;
            return &heir->run->child_item;
        }
    }
    return NULL;
}

static bool read_runs(struct quern_worker *worker, struct qn_reader *reader)
{
    struct qn_hand_over *hand_over = &worker->hand_over;
    int64_t count = qn_bytes_number(reader);
    if (!reader->ok || count < 0 || (uint64_t)count > reader->left) {
        return false;
    }
    hand_over->heirs = count > 0 ? qn_alloc_zero((size_t)count, sizeof *hand_over->heirs) : NULL;
    if (count > 0 && hand_over->heirs == NULL) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t key = (uint64_t)qn_bytes_number(reader);
        struct quern_run *run = qn_estate_get_run(reader, worker);
        if (run == NULL) {
            return false;
        }
        hand_over->heirs[hand_over->heir_count++] = (struct qn_heir){.key = key, .run = run};
        qn_run_table_take_over(&worker->run_table, run);
    }
    return true;
}

void qn_hand_over_abandon(struct quern_worker *worker)
{
    struct qn_hand_over *hand_over = &worker->hand_over;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->fallen = worker->fallen || hand_over->heir_count > 0;
    for (size_t i = 0; i < hand_over->heir_count; i++) {
        qn_run_release(hand_over->heirs[i].run);
    }
    hand_over->heir_count = 0;
    (void)pthread_mutex_unlock(&worker->mutex);
}

quern_status qn_hand_over_adopt(quern_worker *worker, struct qn_estate *take_estate,
                                quern_error *err)
{
    struct qn_hand_over *hand_over = &worker->hand_over;
    hand_over->estate = *take_estate;
    *take_estate = (struct qn_estate){0};
    const struct qn_bytes body = hand_over->estate.body;
    struct qn_reader reader = {.at = body.data, .left = body.size, .ok = true};
    const char *id = qn_bytes_text(&reader, sizeof worker->id - 1);
    int64_t started_at_ms = qn_bytes_number(&reader);
    bool quiet = qn_bytes_number(&reader) != 0;
    if (id == NULL || !read_runs(worker, &reader)) {
        qn_hand_over_abandon(worker);
        return qn_error_set(err, QUERN_E_CORRUPT, "the runs of the worker before cannot be read");
    }
    (void)memcpy(worker->id, id, strlen(id) + 1);
    worker->started_at_ms = started_at_ms;
    atomic_store(&worker->quiet, quiet);
    hand_over->pool_state = (struct qn_bytes){reader.at, reader.left};
    hand_over->passed_on = (struct qn_prefork_passed_on){hand_over->pool_state, find_item, worker};
    return QUERN_OK;
}

const struct qn_prefork_passed_on *qn_hand_over_passed_on(struct quern_worker *worker)
{
    return worker->hand_over.pool_state.size > 0 ? &worker->hand_over.passed_on : NULL;
}

void qn_hand_over_settle(struct quern_worker *worker)
{
    struct qn_hand_over *hand_over = &worker->hand_over;
    if (hand_over->estate.data == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < hand_over->heir_count; i++) {
        struct qn_heir *heir = &hand_over->heirs[i];
        if (!heir->is_placed && worker->prefork != NULL) {
            qn_execute_submit(worker, heir->run);
        }
    }
    size_t count = hand_over->heir_count;
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_hand_over_finish(worker);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker continues", QN_LOG_TEXT("worker", worker->id),
           QN_LOG_NUMBER("runs", count));
}

void qn_hand_over_finish(struct quern_worker *worker)
{
    struct qn_hand_over *hand_over = &worker->hand_over;
    qn_estate_finish(&hand_over->estate);
    hand_over->pool_state = (struct qn_bytes){0};
    qn_free(hand_over->heirs);
    hand_over->heirs = NULL;
    hand_over->heir_count = 0;
    if (hand_over->has_state) {
        (void)close(hand_over->state_fd);
        hand_over->has_state = false;
    }
}
