/* SPDX-License-Identifier: MIT */
/* response.c - sends an exchange and takes its answer into the books.
 *
 * Outcomes that were applied (or refused as stale) leave the books. New runs go to the pool in the
 * order in which their queues were drawn; before them runs of charged tasks and those that the
 * broker has noted as started, because these must really start now. A leased task for which there
 * is no memory is given back by the next exchange. A failed exchange changes nothing here: it stays
 * open. */
#include "worker/internal.h"

static void measure(struct qn_pump *pump, const struct quern_run *run)
{
    if (!qn_run_began(run)) {
        return;
    }
    int64_t ended_at_ns = run->phase == QN_RUN_FENCED ? qn_clock_mono_ns() : run->ended_at_mono_ns;
    if (ended_at_ns > run->started_at_mono_ns) {
        qn_fetch_measure(&pump->fetch, run->leased->task.type,
                         ended_at_ns - run->started_at_mono_ns);
    }
}

static void take_applied(struct quern_worker *worker, struct qn_turn *turn)
{
    const size_t count = turn->exchange.outcome_count;
    for (size_t i = 0; i < count; i++) {
        if (turn->ended[i] == NULL) {
            qn_leased_free(turn->returned[i]);
            continue;
        }
        measure(&worker->pump, turn->ended[i]);
        qn_report_run(worker, turn->ended[i], turn->applied[i]);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < count; i++) {
        if (turn->ended[i] != NULL) {
            qn_report_count(worker, turn->ended[i], turn->applied[i]);
            qn_books_drop(&worker->books, turn->ended[i]);
        }
    }
    for (size_t i = 0; i < turn->exchange.start_count; i++) {
        turn->starting[i]->leased->started = true;
        qn_run_release(turn->starting[i]);
    }
    qn_worker_note_settled(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Takes in which queues are braked on this host, and when the next probe, or a task that waits for
 * the solo lock, may be leased. */
static void take_brakes(struct quern_worker *worker, const struct qn_turn *turn)
{
    size_t braked_count = 0;
    int64_t wait_ms = INT64_MAX;
    for (size_t i = 0; i < worker->queue_count; i++) {
        const struct qn_queue_share *queue = &turn->queues[i];
        braked_count += queue->braked ? 1 : 0;
        wait_ms = queue->wait_ms > 0 ? qn_earlier(wait_ms, queue->wait_ms) : wait_ms;
        if (queue->braked && !worker->queue_braked[i]) {
            QN_LOG(&worker->log, QUERN_LOG_ERROR, "run after run dies here, one is tried at a time",
                   QN_LOG_TEXT("queue", queue->name), QN_LOG_NUMBER("deaths", queue->deaths),
                   QN_LOG_NUMBER("next_ms", queue->wait_ms));
        } else if (!queue->braked && worker->queue_braked[i]) {
            QN_LOG(&worker->log, QUERN_LOG_INFO, "runs no longer die here",
                   QN_LOG_TEXT("queue", queue->name));
        }
    }
    (void)pthread_mutex_lock(&worker->mutex);
    bool braked = braked_count == worker->queue_count;
    for (size_t i = 0; i < worker->queue_count; i++) {
        worker->look = worker->look || (worker->queue_braked[i] && !turn->queues[i].braked);
        worker->queue_braked[i] = turn->queues[i].braked;
    }
    if (braked != worker->braked) {
        worker->braked = braked;
        worker->announce_due = true;
        qn_keeper_poke(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (turn->exchange.room > 0) {
        worker->pump.wait_until_mono_ns =
            wait_ms == INT64_MAX ? 0 : qn_clock_mono_ns() + wait_ms * QN_NS_PER_MS;
    }
}

/* The paused and braked queues and the shares of the draw. */
static void take_queues(struct quern_worker *worker, struct qn_turn *turn)
{
    struct qn_pump *pump = &worker->pump;
    for (size_t i = 0; i < worker->queue_count; i++) {
        turn->taken[i] = turn->queues[i].leased;
    }
    if (turn->exchange.room > 0 && !turn->exchange.strict) {
        qn_choice_settle(&pump->choice, turn->quota, turn->taken);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < worker->queue_count; i++) {
        worker->paused[i] = turn->queues[i].paused;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    take_brakes(worker, turn);
}

/* Until when a new lease surely holds. One that was sent again may have been given the first time.
 */
static int64_t lease_until_boot_ms(const struct quern_worker *worker, const struct qn_turn *turn,
                                   const struct qn_leased *leased)
{
    int64_t from_boot_ms = turn->sent_again ? turn->sent_at_boot_ms : leased->leased_at_boot_ms;
    return from_boot_ms + worker->options.lease_ms;
}

/* Makes runs of what was leased, sorted by queue. */
static void make_runs(struct quern_worker *worker, const struct qn_turn *turn,
                      struct qn_list *queues)
{
    struct qn_pump *pump = &worker->pump;
    struct qn_slab lot = {0};
    int64_t now_mono_ns = qn_clock_mono_ns();
    for (size_t i = 0; i < worker->queue_count; i++) {
        qn_list_init(&queues[i]);
    }
    for (size_t i = 0; i < turn->reply.run_count; i++) {
        struct qn_leased *leased = turn->leased[i];
        struct quern_run *run = qn_run_new(&lot, leased, &qn_worker_sink, worker);
        if (run == NULL) {
            pump->unplaced[pump->unplaced_count++] = leased;
            continue;
        }
        run->leased_at_mono_ns = now_mono_ns;
        run->lease_until_boot_ms = lease_until_boot_ms(worker, turn, leased);
        run->lease_unsure = turn->sent_again;
        run->unknown = qn_unknown_judge(&pump->unknown, worker, run, now_mono_ns);
        pump->tell_at_mono_ns = run->unknown ? pump->tell_at_mono_ns : 0;
        run->item.execute = qn_execute;
        qn_list_append(&queues[leased->queue_index], &run->item.node);
    }
    qn_slab_finish(&lot);
}

/* Where a run stands in the pool's line. */
enum rank { RANK_CHARGED, RANK_STARTED, RANK_AHEAD, RANK_COUNT };

static void place(struct qn_list *node, struct qn_list *ranks)
{
    const struct qn_leased *leased = QN_CONTAINER_OF(node, struct quern_run, item.node)->leased;
    enum rank rank = leased->crash_count > 0 ? RANK_CHARGED
                     : leased->started       ? RANK_STARTED
                                             : RANK_AHEAD;
    qn_list_append(&ranks[rank], node);
}

/* Takes from the queues as they were drawn, then what other queues gave in their stead. */
static void arrange(struct quern_worker *worker, const struct qn_turn *turn, struct qn_list *queues,
                    struct qn_list *ranks)
{
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        qn_list_init(&ranks[rank]);
    }
    for (uint32_t slot = 0; slot < turn->exchange.room && !turn->exchange.strict; slot++) {
        struct qn_list *node = qn_list_shift(&queues[turn->order[slot]]);
        if (node != NULL) {
            place(node, ranks);
        }
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        struct qn_list *node = qn_list_shift(&queues[i]);
        while (node != NULL) {
            place(node, ranks);
            node = qn_list_shift(&queues[i]);
        }
    }
}

/* A crash is charged only to runs that are known to have started: what may have killed a worker
 * once must not be fetched ahead, or it could do so again and again. */
static bool survived_a_crash(const struct qn_leased *leased)
{
    return leased->crash_count > 0 || leased->cause == QUERN_CAUSE_WORKER_DIED ||
           leased->cause == QUERN_CAUSE_CHILD_DIED || leased->cause == QUERN_CAUSE_LEASE_EXPIRED;
}

/* How far to fetch ahead next time: as far as the slowest type of this batch allows, and not at all
 * where tasks lie that a worker did not survive. */
static void plan_ahead(struct quern_worker *worker, const struct qn_turn *turn)
{
    struct qn_pump *pump = &worker->pump;
    if (turn->reply.run_count == 0) {
        return;
    }
    uint32_t ahead = QN_PREFETCH_MAX * QN_PREFETCH_DEEP;
    for (size_t i = 0; i < turn->reply.run_count; i++) {
        const char *type = turn->leased[i]->task.type;
        if (!qn_mux_takes(worker->mux, type)) {
            continue; /* it needs no slot: where many lie, the next known one is far behind */
        }
        const struct qn_mux_entry *entry = qn_mux_find(worker->mux, type);
        uint32_t allowed =
            qn_fetch_ahead(&pump->fetch, type, entry != NULL ? entry->options.prefetch_max : 0);
        allowed = survived_a_crash(turn->leased[i]) ? 0 : allowed;
        ahead = allowed < ahead ? allowed : ahead;
    }
    pump->ahead = ahead;
}

/* With mutex held. To the pool, unless it is over already. */
static void add_run(struct qn_books *books, struct qn_list *node, struct qn_list *line)
{
    struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, item.node);
    qn_books_add(books, run);
    if (run->unknown) {
        const struct qn_verdict verdict = run->verdict;
        qn_books_finish(books, run, &verdict);
    } else {
        qn_list_append(line, node);
    }
}

static void take_runs(struct quern_worker *worker, struct qn_turn *turn)
{
    if (turn->reply.run_count == 0) {
        return;
    }
    plan_ahead(worker, turn);
    struct qn_list ranks[RANK_COUNT];
    struct qn_list line;
    qn_list_init(&line);
    make_runs(worker, turn, turn->drawn);
    arrange(worker, turn, turn->drawn, ranks);
    (void)pthread_mutex_lock(&worker->mutex);
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        struct qn_list *node = qn_list_shift(&ranks[rank]);
        while (node != NULL) {
            add_run(&worker->books, node, &line);
            node = qn_list_shift(&ranks[rank]);
        }
    }
    /* Under the mutex, so that nobody takes one back while it is on its way. */
    bool wake = qn_pool_submit(worker->pool, &line);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (wake) {
        qn_pool_wake(worker->pool);
    }
}

/* Whether there may be more to fetch, and what to do when a look found nothing. */
static void take_shortfall(struct quern_worker *worker, const struct qn_turn *turn)
{
    struct qn_pump *pump = &worker->pump;
    if (turn->exchange.room == 0) {
        return;
    }
    bool is_full = turn->reply.run_count == turn->exchange.room || turn->reply.more;
    if (!is_full || turn->reply.run_count >= QN_BATCH_WORTH) {
        pump->plenty = is_full;
    }
    bool found = turn->reply.run_count > 0 || turn->reply.more;
    if (!turn->looks && !found) {
        return; /* nobody had told of work, and there was none: if it was armed, it still is */
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
 * From here until `land` a shutdown waits for what may be fetched. */
static void take_off(struct quern_worker *worker, struct qn_turn *turn)
{
    struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    bool fetches = worker->state == QN_WORKER_RUNNING && !atomic_load(&worker->quiet);
    if (!fetches && !turn->in_doubt) {
        turn->exchange.room = 0;
        turn->exchange.start_count_now = 0;
        turn->exchange.solo =
            turn->exchange.solo == QN_SOLO_ASK ? QN_SOLO_NONE : turn->exchange.solo;
    }
    turn->sent_again = turn->in_doubt;
    if (!turn->sent_again) {
        turn->sent_at_boot_ms = qn_clock_boot_ms(worker->clock);
    }
    worker->owes = worker->owes || turn->exchange.room > 0;
    turn->in_flight = true;
    if (turn == &pump->first && qn_turn_is_worth_it(worker, &pump->second, qn_clock_mono_ns())) {
        qn_second_poke(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Whether there may be leases of it that are not in the books. */
static bool owes(const struct qn_turn *turn)
{
    /* Leases without a run come first among the outcomes. */
    bool returns = turn->open && turn->exchange.outcome_count > 0 && turn->ended[0] == NULL;
    return returns || turn->in_doubt || (turn->in_flight && turn->exchange.room > 0);
}

static void land(struct quern_worker *worker, struct qn_turn *turn, uint32_t channel)
{
    struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    turn->in_flight = false;
    worker->owes = pump->unplaced_count > 0 || owes(&pump->first) || owes(&pump->second);
    qn_worker_note_settled(worker);
    if (channel != 0) {
        qn_pump_poke(worker); /* if it sleeps: it waits for this, or has to take it over */
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

quern_status qn_turn_exchange(struct quern_worker *worker, struct qn_turn *turn, uint32_t channel,
                              quern_error *err)
{
    struct qn_pump *pump = &worker->pump;
    take_off(worker, turn);
    turn->reply.run_count = 0;
    turn->exchange.channel = channel;
    (void)pthread_mutex_unlock(&worker->plan_mutex);
    quern_status status = qn_broker_exchange(worker->broker, &turn->exchange, &turn->reply, err);
    (void)pthread_mutex_lock(&worker->plan_mutex);
    turn->in_doubt = status == QUERN_E_UNKNOWN || (turn->in_doubt && status != QUERN_OK);
    if (status == QUERN_OK) {
        turn->open = false;
        take_applied(worker, turn);
        take_queues(worker, turn);
        qn_solo_answer(worker, turn, qn_clock_mono_ns());
        take_runs(worker, turn);
        take_shortfall(worker, turn);
        pump->leased_count += turn->reply.run_count;
    }
    land(worker, turn, channel);
    return status;
}
