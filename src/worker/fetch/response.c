/* SPDX-License-Identifier: MIT */
/* response.c - sends an exchange and takes its answer into the run table.
 *
 * Runs whose outcome was applied (or refused as stale) leave the table. New runs go to the pool as
 * their queues were drawn; before them those of charged tasks, and those that the broker has noted
 * as started and that must start now. A task without memory for it is given back. */
#include "worker/fetch/response.h"

#include "base/bug.h"
#include "base/error.h"
#include "worker/fetch/leftover.h"
#include "worker/internal.h"
#include "worker/policy/failure.h"
#include "worker/run/execute.h"
#include "worker/run/give_back.h"
#include "worker/run/mux.h"
#include "worker/run/report.h"
#include "worker/run/verdict.h"
#include "worker/trace/run_trace.h"

static void measure_run(struct qn_pump *pump, const struct quern_run *run)
{
    if (!qn_run_began(run)) {
        return;
    }
    int64_t ended_at_ns = run->phase == QN_RUN_FENCED ? qn_clock_mono_ns() : run->ended_at_mono_ns;
    if (ended_at_ns > run->started_at_mono_ns) {
        qn_prefetch_measure(&pump->prefetch, run->leased->task.type,
                            ended_at_ns - run->started_at_mono_ns);
    }
}

static void take_applied(struct quern_worker *worker, struct qn_exchange_request *request)
{
    const size_t count = request->exchange.outcome_count;
    for (size_t i = 0; i < count; i++) {
        if (request->ended[i] == NULL) {
            qn_leased_free(request->returned[i]);
            continue;
        }
        measure_run(&worker->pump, request->ended[i]);
        qn_report_measure(worker, request->ended[i], request->applied[i]);
        qn_run_trace_end(worker, request->ended[i], request->applied[i]);
        qn_report_run(worker, request->ended[i], request->applied[i]);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < count; i++) {
        if (request->ended[i] != NULL) {
            qn_report_count(worker, request->ended[i], request->applied[i]);
            qn_run_table_drop(&worker->run_table, request->ended[i]);
        }
    }
    for (size_t i = 0; i < request->exchange.start_count; i++) {
        request->starting[i]->leased->started = true;
        qn_run_release(request->starting[i]);
    }
    qn_signals_run_settled(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void take_late(struct quern_worker *worker, const struct qn_exchange_request *request)
{
    if (request->reply.late_count > 0) {
        QN_LOG(&worker->log, QUERN_LOG_WARN,
               "tasks archived, their deadline was over before a run or they did not start in time",
               QN_LOG_NUMBER("tasks", request->reply.late_count));
        (void)pthread_mutex_lock(&worker->mutex);
        worker->stats.archived += request->reply.late_count;
        (void)pthread_mutex_unlock(&worker->mutex);
    }
}

/* Notes which queues are braked on this host, and when the next probe, or a task that waits for the
 * solo lock, may be leased. */
static void take_brakes(struct quern_worker *worker, const struct qn_exchange_request *request)
{
    size_t braked_count = 0;
    int64_t wait_ms = INT64_MAX;
    bool all_asked = true;
    for (size_t i = 0; i < worker->queue_count; i++) {
        const struct qn_queue_share *queue = &request->queues[i];
        all_asked = all_asked && !queue->unasked;
        braked_count += queue->braked ? 1 : 0;
        wait_ms = queue->wait_ms > 0 ? qn_earlier(wait_ms, queue->wait_ms) : wait_ms;
        if (queue->braked && !worker->queue_braked[i]) {
            QN_LOG(&worker->log, QUERN_LOG_ERROR,
                   "runs keep dying on this host, one is tried at a time",
                   QN_LOG_TEXT("queue", queue->name), QN_LOG_NUMBER("deaths", queue->deaths),
                   QN_LOG_NUMBER("next_ms", queue->wait_ms));
        } else if (!queue->braked && worker->queue_braked[i]) {
            QN_LOG(&worker->log, QUERN_LOG_INFO, "runs no longer die on this host",
                   QN_LOG_TEXT("queue", queue->name));
        }
    }
    (void)pthread_mutex_lock(&worker->mutex);
    bool braked = braked_count == worker->queue_count;
    for (size_t i = 0; i < worker->queue_count; i++) {
        worker->look = worker->look || (worker->queue_braked[i] && !request->queues[i].braked);
        worker->queue_braked[i] = request->queues[i].braked;
    }
    if (braked != worker->braked) {
        worker->braked = braked;
        worker->heartbeat_due = true;
        qn_signals_wake_keeper(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (request->exchange.room > 0 && (all_asked || wait_ms < INT64_MAX)) {
        worker->pump.wait_until_mono_ns =
            wait_ms == INT64_MAX ? 0 : qn_clock_mono_ns() + wait_ms * QN_NS_PER_MS;
    }
}

/* Notes which queues are paused or braked, and how much each of them gave of its quota. */
static void take_queues(struct quern_worker *worker, struct qn_exchange_request *request)
{
    struct qn_pump *pump = &worker->pump;
    for (size_t i = 0; i < worker->queue_count; i++) {
        request->taken[i] = request->queues[i].leased;
        if (request->queues[i].skip || request->queues[i].unasked) { /* nothing new is known */
            request->queues[i].paused = worker->paused[i];
            request->queues[i].braked = worker->queue_braked[i];
        }
    }
    if (request->exchange.room > 0 && !request->exchange.strict) {
        qn_choice_settle(&pump->choice, request->quota, request->taken);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < worker->queue_count; i++) {
        worker->paused[i] = request->queues[i].paused;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    take_brakes(worker, request);
}

/* Until when a new lease surely holds. Where the request was sent twice, the first copy may have
 * been the one that counted. */
static int64_t lease_until_boot_ms(const struct quern_worker *worker,
                                   const struct qn_exchange_request *request,
                                   const struct qn_leased *leased)
{
    int64_t from_boot_ms =
        request->sent_again ? request->sent_at_boot_ms : leased->leased_at_boot_ms;
    return from_boot_ms + worker->options.lease_ms;
}

/* Where it will run: a command has a process of its own anyway. */
static void place_run(struct quern_worker *worker, struct quern_run *run)
{
    const char *type = run->leased->task.type;
    const struct qn_mux_entry *entry = run->entry;
    int32_t own_ack = entry != NULL ? entry->options.ack : QUERN_ACK_LATE;
    int32_t ack = own_ack != QUERN_ACK_DEFAULT ? own_ack : worker->options.ack;
    run->acks_first = ack == QUERN_ACK_EARLY;
    run->in_child = worker->prefork != NULL && (entry == NULL || !entry->has_process);
    run->launcher = worker->launcher;
    if (run->in_child) {
        run->child_item.is_short =
            !run->acks_first && qn_prefetch_is_short(&worker->pump.prefetch, type);
        const struct qn_task *task = &run->leased->task;
        int64_t memory_max = entry != NULL ? entry->options.memory_max : 0;
        int64_t cpu_ms = entry != NULL ? entry->options.cpu_ms : 0;
        run->child_item.limits = (struct qn_prefork_limits){
            .address_space_bytes = (uint64_t)(task->memory_max > 0 ? task->memory_max : memory_max),
            .cpu_ms = (uint64_t)(task->cpu_ms > 0 ? task->cpu_ms : cpu_ms),
        };
    }
}

/* Makes runs of the leased tasks, sorted by queue. */
static void make_runs(struct quern_worker *worker, const struct qn_exchange_request *request,
                      struct qn_list *queues)
{
    struct qn_pump *pump = &worker->pump;
    struct qn_slab slab = {0};
    int64_t now_mono_ns = qn_clock_mono_ns();
    for (size_t i = 0; i < worker->queue_count; i++) {
        qn_list_init(&queues[i]);
    }
    for (size_t i = 0; i < request->reply.run_count; i++) {
        struct qn_leased *leased = request->leased[i];
        const struct qn_mux_entry *entry = qn_mux_find(worker->mux, leased->task.type);
        if (entry != NULL) {
            qn_failure_set_defaults(&entry->options, &leased->task);
        }
        struct quern_run *run = qn_run_new(&slab, leased, &qn_execute_sink, worker);
        if (run == NULL) {
            pump->unplaced[pump->unplaced_count++] = leased;
            continue;
        }
        run->entry = entry;
        run->leased_at_mono_ns = now_mono_ns;
        run->lease_until_boot_ms = lease_until_boot_ms(worker, request, leased);
        run->lease_unsure = request->sent_again;
        run->unknown = qn_unknown_judge(&pump->unknown, worker, run, now_mono_ns);
        pump->log_at_mono_ns = run->unknown ? pump->log_at_mono_ns : 0;
        run->item.execute = qn_execute_item;
        place_run(worker, run);
        qn_run_trace_begin(worker, run);
        qn_list_append(&queues[leased->queue_index], &run->item.node);
    }
    qn_slab_finish(&slab);
}

/* Which runs go to the pool first. */
enum rank { RANK_CHARGED, RANK_STARTED, RANK_AHEAD, RANK_COUNT };

static void append_by_rank(struct qn_list *node, struct qn_list *ranks)
{
    const struct qn_leased *leased = QN_CONTAINER_OF(node, struct quern_run, item.node)->leased;
    enum rank rank = leased->crash_count > 0 ? RANK_CHARGED
                     : leased->started       ? RANK_STARTED
                                             : RANK_AHEAD;
    qn_list_append(&ranks[rank], node);
}

/* Takes runs in the order of the draw, then those that other queues gave instead. */
static void sort_runs(struct quern_worker *worker, const struct qn_exchange_request *request,
                      struct qn_list *queues, struct qn_list *ranks)
{
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        qn_list_init(&ranks[rank]);
    }
    for (uint32_t slot = 0; slot < request->exchange.room && !request->exchange.strict; slot++) {
        struct qn_list *node = qn_list_shift(&queues[request->order[slot]]);
        if (node != NULL) {
            append_by_rank(node, ranks);
        }
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        struct qn_list *node = qn_list_shift(&queues[i]);
        while (node != NULL) {
            append_by_rank(node, ranks);
            node = qn_list_shift(&queues[i]);
        }
    }
}

/* A crash is charged only to runs that are known to have started. So a task that may have killed a
 * worker must not be prefetched, or it could do so again and again. */
static bool survived_a_crash(const struct qn_leased *leased)
{
    return leased->crash_count > 0 || leased->cause == QUERN_CAUSE_WORKER_DIED ||
           leased->cause == QUERN_CAUSE_CHILD_DIED || leased->cause == QUERN_CAUSE_LEASE_EXPIRED;
}

/* How far to fetch ahead next time: as far as the slowest type of this batch allows, and not at all
 * where a task of it may have killed a worker. Then, whether they are fast. */
static void plan_ahead(struct quern_worker *worker, const struct qn_exchange_request *request)
{
    struct qn_pump *pump = &worker->pump;
    if (request->reply.run_count == 0) {
        return;
    }
    uint32_t ahead = QN_PREFETCH_MAX * QN_PREFETCH_DEEP;
    bool is_fast = true;
    for (size_t i = 0; i < request->reply.run_count; i++) {
        const char *type = request->leased[i]->task.type;
        if (!qn_mux_takes(worker->mux, type)) {
            continue; /* it needs no slot: where there are many, a known type is far behind */
        }
        const struct qn_mux_entry *entry = qn_mux_find(worker->mux, type);
        int32_t own = entry != NULL ? entry->options.prefetch_max : 0;
        uint32_t allowed =
            qn_prefetch_ahead(&pump->prefetch, type, own != 0 ? own : worker->options.prefetch_max);
        /* Commands do not wait for children: what is ahead would start beyond the concurrency. */
        allowed = survived_a_crash(request->leased[i]) || worker->is_mixed ? 0 : allowed;
        ahead = allowed < ahead ? allowed : ahead;
        is_fast = is_fast && qn_prefetch_ahead(&pump->prefetch, type, 0) >= QN_BATCH_WORTH;
    }
    pump->ahead = ahead;
    pump->is_fast = is_fast;
}

/* With mutex held. To the pool, unless it has already ended, or there is no place for it. */
static void add_run(struct quern_worker *worker, struct qn_list *node, struct qn_list *items)
{
    struct qn_run_table *table = &worker->run_table;
    struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, item.node);
    qn_run_table_add(table, run);
    if (run->unknown) {
        const struct qn_verdict verdict = run->verdict;
        qn_run_table_finish(table, run, &verdict);
    } else if (qn_run_table_place(table, run)) {
        qn_list_append(items, node);
    } else if (run->place == QN_PLACE_NONE) {
        qn_give_back_aside(worker, run, run->leased_at_mono_ns);
    }
}

static void take_runs(struct quern_worker *worker, struct qn_exchange_request *request)
{
    if (request->reply.run_count == 0) {
        return;
    }
    plan_ahead(worker, request);
    struct qn_list ranks[RANK_COUNT];
    struct qn_list items;
    qn_list_init(&items);
    make_runs(worker, request, request->drawn);
    sort_runs(worker, request, request->drawn, ranks);
    (void)pthread_mutex_lock(&worker->mutex);
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        struct qn_list *node = qn_list_shift(&ranks[rank]);
        while (node != NULL) {
            add_run(worker, node, &items);
            node = qn_list_shift(&ranks[rank]);
        }
    }
    /* Under the mutex, so that no thread gives one back while it is on its way. */
    bool wake = qn_execute_give(worker, &items);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (wake) {
        qn_pool_wake(worker->pool);
    }
}

/* Whether there may be more to fetch; handles a reply with fewer runs than requested. */
static void take_shortfall(struct quern_worker *worker, const struct qn_exchange_request *request)
{
    struct qn_pump *pump = &worker->pump;
    if (request->exchange.room == 0) {
        return;
    }
    bool is_full = request->reply.run_count == request->exchange.room || request->reply.more;
    if (!is_full || request->reply.run_count >= QN_BATCH_WORTH) {
        pump->plenty = is_full;
    }
    bool found = request->reply.run_count > 0 || request->reply.more;
    if (!request->looks && !found) {
        return; /* no work was announced, and there was none: if it was armed, it still is */
    }
    pump->armed = false;
    pump->look_at_mono_ns = 0;
    if (found) {
        pump->fruitless = 0;
    }
    if (is_full) {
        (void)pthread_mutex_lock(&worker->mutex);
        worker->look = true;
        (void)pthread_mutex_unlock(&worker->mutex);
    }
}

/* A request that has waited since it was built must not fetch when the worker drains meanwhile.
 * From here until mark_answered a shutdown waits for the runs that may be fetched. */
static void mark_sent(struct quern_worker *worker, struct qn_exchange_request *request)
{
    struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    bool fetches = worker->state == QN_WORKER_RUNNING && !atomic_load(&worker->quiet);
    if (!fetches && !request->in_doubt) {
        request->exchange.room = 0;
        request->exchange.start_count_now = 0;
        request->exchange.solo =
            request->exchange.solo == QN_SOLO_ASK ? QN_SOLO_NONE : request->exchange.solo;
    }
    request->sent_again = request->in_doubt;
    if (!request->sent_again) {
        request->sent_at_boot_ms = qn_clock_boot_ms(worker->clock);
    }
    worker->owes = worker->owes || request->exchange.room > 0;
    request->in_flight = true;
    if (request == &pump->first &&
        qn_request_is_worth_it(worker, &pump->second, qn_clock_mono_ns())) {
        qn_signals_wake_second(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Whether there may be leases of it that are not in the run table. */
static bool may_owe(const struct qn_exchange_request *request)
{
    /* Leases without a run come first among the outcomes. */
    bool returns =
        request->open && request->exchange.outcome_count > 0 && request->ended[0] == NULL;
    return returns || request->in_doubt || (request->in_flight && request->exchange.room > 0);
}

/* With mutex held. */
static void note_owes(struct quern_worker *worker)
{
    const struct qn_pump *pump = &worker->pump;
    worker->owes = pump->unplaced_count > 0 || may_owe(&pump->first) || may_owe(&pump->second) ||
                   pump->leftovers.first != NULL;
    qn_signals_run_settled(worker);
}

static void mark_answered(struct quern_worker *worker, struct qn_exchange_request *request,
                          uint32_t channel)
{
    (void)pthread_mutex_lock(&worker->mutex);
    request->in_flight = false;
    note_owes(worker);
    if (channel != 0) {
        qn_signals_wake_pump(worker); /* if it sleeps: it waits for this, or has to send it again */
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Closes the request, or leaves open what has to be sent again: all of it, where it failed or
 * memory is out for the leftovers. Returns the status of the rest. */
static quern_status keep_unanswered(struct quern_worker *worker,
                                    struct qn_exchange_request *request, quern_status status,
                                    quern_error *err)
{
    request->open = status != QUERN_OK && !request->reply.is_partial;
    if (!request->reply.is_partial) {
        return status;
    }
    quern_status kept = qn_leftovers_split(worker, request, err);
    if (kept != QUERN_OK) {
        request->open = true;
        request->exchange.again = true;
        for (size_t i = 0; i < request->reply.run_count; i++) {
            qn_leased_free(request->leased[i]);
        }
        request->reply.run_count = 0;
        return qn_error_set(err, QUERN_E_UNKNOWN, "out of memory for what was not answered");
    }
    return status;
}

/* False: it has no answer again. */
static bool send_leftover(struct quern_worker *worker, struct qn_leftover *leftover)
{
    struct qn_exchange_request *request = &leftover->request;
    quern_error error = {0};
    request->reply.run_count = 0;
    request->sent_again = true;
    request->exchange.channel = 0;
    (void)pthread_mutex_unlock(&worker->pump.plan_mutex);
    quern_status status =
        qn_broker_exchange(worker->broker, &request->exchange, &request->reply, &error);
    (void)pthread_mutex_lock(&worker->pump.plan_mutex);
    bool answered = status == QUERN_OK && !request->reply.is_partial;
    request->exchange.again = true;
    if (answered) {
        request->open = false;
        take_applied(worker, request);
        take_late(worker, request);
        take_runs(worker, request);
        worker->pump.leased_count += request->reply.run_count;
        qn_leftovers_drop(worker, leftover);
    } else {
        qn_leftovers_put_off(worker, leftover);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    note_owes(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    return answered;
}

void qn_response_leftovers(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_leftovers *leftovers = &worker->pump.leftovers;
    struct qn_leftover *leftover = qn_leftovers_due(leftovers, now_mono_ns);
    while (leftover != NULL) {
        qn_beats_step(worker, worker->pump.stepper);
        if (send_leftover(worker, leftover)) {
            qn_beats_answered(worker);
        }
        leftover = qn_leftovers_due(leftovers, now_mono_ns);
    }
}

quern_status qn_response_exchange(struct quern_worker *worker, struct qn_exchange_request *request,
                                  uint32_t channel, quern_error *err)
{
    struct qn_pump *pump = &worker->pump;
    mark_sent(worker, request);
    request->reply.run_count = 0;
    request->exchange.channel = channel;
    (void)pthread_mutex_unlock(&worker->pump.plan_mutex);
    int64_t sent_at_mono_ns = qn_clock_mono_ns();
    quern_status status =
        qn_broker_exchange(worker->broker, &request->exchange, &request->reply, err);
    int64_t took_ns = qn_clock_mono_ns() - sent_at_mono_ns;
    if (status == QUERN_OK) {
        qn_measure_exchange(&worker->measures, took_ns, request->exchange.outcome_count,
                            request->reply.run_count);
    }
    (void)pthread_mutex_lock(&worker->pump.plan_mutex);
    status = keep_unanswered(worker, request, status, err);
    request->in_doubt = request->open && (status == QUERN_E_UNKNOWN || request->in_doubt);
    qn_request_learn(worker, request, status, took_ns);
    if (QN_BUG(KEPT_OUTCOME_DROPPED) && status != QUERN_OK) {
        request->exchange.outcome_count = 0;
    }
    if (status == QUERN_OK) {
        take_applied(worker, request);
        take_late(worker, request);
        take_queues(worker, request);
        qn_solo_answer(worker, request, qn_clock_mono_ns());
        take_runs(worker, request);
        take_shortfall(worker, request);
        pump->leased_count += request->reply.run_count;
    }
    mark_answered(worker, request, channel);
    return status;
}
