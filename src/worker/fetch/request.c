/* SPDX-License-Identifier: MIT */
/* request.c - fills one exchange from the run table.
 *
 * Up to QN_BATCH_MAX outcomes or QN_BATCH_BYTES_MAX bytes of them, the starts that the broker does
 * not know of yet, and as much room as there are free slots and runs to fetch ahead. The request
 * stays as it is, stamp included, until it is answered (response.c): so no outcome is dropped, and
 * none is applied twice. Runs that end without the broker are settled here on the way. */
#include "worker/fetch/request.h"

#include <string.h>

#include "base/bug.h"
#include "task/isolation.h"
#include "worker/internal.h"
#include "worker/run/report.h"
#include "worker/trace/run_trace.h"

enum {
    REPORT_START_AFTER_MS = 20,
    ROOM_PARTS = 4,  /* one of them is asked for after an answer that was lost, or too slow */
    QUICK_PARTS = 12 /* of a lease: a quarter of the time that an exchange has */
};

static const struct qn_exchange_request *other_request(const struct qn_pump *pump,
                                                       const struct qn_exchange_request *request)
{
    return request == &pump->first ? &pump->second : &pump->first;
}

/* Whether all queues still await the answer to an earlier request. */
static bool all_must_wait(const struct quern_worker *worker)
{
    const struct qn_leftovers *leftovers = &worker->pump.leftovers;
    size_t i = 0;
    while (leftovers->first != NULL && i < worker->queue_count &&
           qn_leftovers_has(leftovers, worker->queue_names[i])) {
        i++;
    }
    return leftovers->first != NULL && i == worker->queue_count;
}

uint32_t qn_request_room(struct quern_worker *worker, const struct qn_exchange_request *request,
                         int64_t now_mono_ns, uint32_t *ret_free)
{
    struct qn_pump *pump = &worker->pump;
    const struct qn_run_table *table = &worker->run_table;
    const struct qn_exchange_request *other = other_request(pump, request);
    size_t asked = other->open ? other->exchange.room : 0;
    size_t slots = qn_supply_slots(worker);
    slots = slots > table->stuck_count ? slots - table->stuck_count : 0;
    size_t taken = table->waiting_count - table->parked_count + table->running_count + asked;
    size_t free_slots = slots > taken ? slots - taken : 0;
    *ret_free = (uint32_t)free_slots;
    if (worker->state != QN_WORKER_RUNNING || atomic_load(&worker->quiet) ||
        worker->only_aggregates || all_must_wait(worker) || !qn_solo_is_idle(&pump->solo) ||
        slots == 0 || pump->unplaced_count > 0 || now_mono_ns < pump->unknown.hold_until_mono_ns ||
        qn_shortage_pauses(worker, now_mono_ns)) {
        return 0;
    }
    /* Charged tasks and probes are leased only into a free slot. Where there was none for a second,
     * prefetched runs fill all slots: then no more are prefetched. */
    bool starved = now_mono_ns - pump->starts_at_mono_ns > QN_SAFETY_NET_MS * QN_NS_PER_MS;
    size_t ahead = now_mono_ns < pump->no_ahead_until_mono_ns || starved ? 0 : pump->ahead;
    size_t room = slots + ahead > taken ? slots + ahead - taken : 0;
    return room < pump->room_max ? (uint32_t)room : pump->room_max;
}

void qn_request_learn(struct quern_worker *worker, const struct qn_exchange_request *request,
                      quern_status status, int64_t took_ns)
{
    uint32_t asked = request->exchange.room;
    uint32_t *room_max = &worker->pump.room_max;
    bool is_quick = took_ns < worker->options.lease_ms * QN_NS_PER_MS / QUICK_PARTS;
    if (status == QUERN_E_UNKNOWN && asked > 0 && !request->sent_again &&
        !QN_BUG(ROOM_NOT_LEARNT)) {
        *room_max = asked > ROOM_PARTS ? asked / ROOM_PARTS : 1;
    } else if (status == QUERN_OK && request->reply.run_count > 0 && is_quick) {
        *room_max = *room_max < QN_BATCH_MAX / 2 ? 2 * *room_max : QN_BATCH_MAX;
    }
}

bool qn_request_is_worth_it(struct quern_worker *worker, const struct qn_exchange_request *request,
                            int64_t now_mono_ns)
{
    uint32_t free_slots;
    return worker->run_table.finished_count >= QN_BATCH_WORTH ||
           (worker->pump.plenty &&
            qn_request_room(worker, request, now_mono_ns, &free_slots) >= QN_BATCH_WORTH);
}

/* Why the task will run again. A run that never started keeps the cause that it came with: that a
 * worker or a child died with this task must not be forgotten. */
static quern_cause cause_of_return(const struct qn_leased *leased, bool started, quern_cause cause)
{
    bool inherits = !started && cause == QUERN_CAUSE_GIVEN_BACK;
    return inherits && leased->cause != QUERN_CAUSE_NONE ? leased->cause : cause;
}

static void add_outcome(struct qn_exchange_request *request, struct quern_run *run,
                        int64_t now_mono_ns)
{
    const struct qn_verdict *verdict = &run->verdict;
    size_t i = request->exchange.outcome_count++;
    bool started = qn_run_began(run);
    bool result_is_final = run->phase != QN_RUN_FENCED; /* else its handler may still write it */
    int64_t ended_at_ns = result_is_final ? run->ended_at_mono_ns : now_mono_ns;
    request->ended[i] = run;
    request->outcomes[i] = (struct qn_outcome){
        .run = run->leased,
        .kind = verdict->offered ? verdict->kind : QN_ENDED,
        .started = started,
        .lived_ms = started ? (ended_at_ns - run->started_at_mono_ns) / QN_NS_PER_MS : 0,
        .ago_ms = (now_mono_ns - ended_at_ns) / QN_NS_PER_MS,
        .facts = result_is_final && run->facts.known ? &run->facts : NULL,
        .cause = cause_of_return(run->leased, started, verdict->cause),
        .delay_ms = verdict->delay_ms,
        .error = verdict->error,
        .change = verdict->change,
        .has_result = result_is_final && verdict->kind == QN_DONE && run->has_result,
    };
    if (request->outcomes[i].has_result) {
        request->outcomes[i].result = run->result;
        request->outcomes[i].result_size = run->result_size;
    }
}

static void add_unplaced(struct qn_pump *pump, struct qn_exchange_request *request)
{
    while (
        pump->unplaced_count > 0 && request->exchange.outcome_count < QN_BATCH_MAX &&
        !qn_leftovers_has(&pump->leftovers, pump->unplaced[pump->unplaced_count - 1]->task.queue)) {
        size_t i = request->exchange.outcome_count++;
        request->ended[i] = NULL;
        struct qn_leased *leased = pump->unplaced[--pump->unplaced_count];
        request->returned[i] = leased;
        request->outcomes[i] = (struct qn_outcome){
            .run = leased,
            .kind = QN_GIVE_BACK,
            .cause = cause_of_return(leased, false, QUERN_CAUSE_GIVEN_BACK),
        };
    }
}

/* Bytes that the broker handles for an outcome: of a failed run its whole message is written again,
 * and a checkpoint brings more. */
static size_t size_of(const struct qn_outcome *outcome)
{
    bool is_success = outcome->kind == QN_DONE || outcome->kind == QN_DROP;
    const struct qn_task_change *change = qn_task_change_of(outcome);
    return outcome->result_size + (is_success ? 0 : outcome->run->task.payload_size) +
           (change != NULL ? change->payload_size : 0);
}

/* With mutex held. The broker holds nothing of a run that was acked early. The end of the run,
 * which was not a death, is sent to it nevertheless; a worker that drains does not wait for
 * that. */
static bool is_reported(const struct quern_worker *worker, const struct quern_run *run)
{
    bool died = run->verdict.kind == QN_CRASH || run->verdict.kind == QN_GIVE_BACK;
    bool is_news = run->acked && !died && worker->state == QN_WORKER_RUNNING;
    return run->verdict.offered || is_news;
}

/* Whether its queue still awaits the answer to an earlier request. */
static bool must_wait(const struct quern_worker *worker, const struct quern_run *run)
{
    return qn_leftovers_has(&worker->pump.leftovers, run->leased->task.queue);
}

/* With mutex held. Runs whose end is not reported to the broker are moved to `silent`, those that
 * must wait for an earlier answer are kept. */
static void add_outcomes(struct quern_worker *worker, struct qn_exchange_request *request,
                         struct qn_list *silent, int64_t now_mono_ns)
{
    struct qn_run_table *table = &worker->run_table;
    size_t bytes = 0;
    while (request->exchange.outcome_count < QN_BATCH_MAX && bytes < QN_BATCH_BYTES_MAX &&
           table->finished_count > 0) {
        struct quern_run *run = qn_run_table_take_finished(table);
        if (is_reported(worker, run) && must_wait(worker, run)) {
            qn_list_append(&worker->pump.leftovers.kept, &run->phase_node);
        } else if (is_reported(worker, run)) {
            add_outcome(request, run, now_mono_ns);
            bytes += size_of(&request->outcomes[request->exchange.outcome_count - 1]);
        } else {
            qn_list_append(silent, &run->phase_node);
        }
    }
}

/* With mutex held. An exchange for starts alone is worth it only when these runs have lasted a
 * while: most prefetched runs end before. */
static void add_starts(struct quern_worker *worker, struct qn_exchange_request *request, bool alone,
                       int64_t now_mono_ns)
{
    struct qn_list *starting = &worker->run_table.starting;
    if (qn_list_empty(starting)) {
        return;
    }
    const struct quern_run *oldest = QN_CONTAINER_OF(starting->next, struct quern_run, phase_node);
    if (alone && now_mono_ns - oldest->started_at_mono_ns < REPORT_START_AFTER_MS * QN_NS_PER_MS) {
        return;
    }
    struct qn_list *next = NULL;
    for (struct qn_list *node = starting->next;
         node != starting && request->exchange.start_count < QN_BATCH_MAX; node = next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, phase_node);
        next = node->next;
        if (must_wait(worker, run)) {
            continue;
        }
        qn_list_remove(node);
        run->references++;
        size_t i = request->exchange.start_count++;
        request->starting[i] = run;
        request->starts[i] = run->leased;
    }
}

/* With mutex held. A request that is in flight was drawn with the weights before: for its room the
 * shares may be a little off. */
static void take_weights(struct quern_worker *worker)
{
    uint32_t weights[QN_QUEUES_MAX];
    if (!worker->weights_are_new) {
        return;
    }
    worker->weights_are_new = false;
    for (size_t i = 0; i < worker->queue_count; i++) {
        weights[i] = worker->options.queues[i].weight;
    }
    qn_choice_init(&worker->pump.choice, weights, worker->queue_count,
                   worker->options.strict_priority, &worker->random);
    if (qn_broker_asks_apart(worker->broker)) {
        qn_choice_ask_apart(&worker->pump.choice);
    }
}

static void draw(struct quern_worker *worker, struct qn_exchange_request *request, uint32_t room)
{
    struct qn_pump *pump = &worker->pump;
    memset(request->quota, 0, worker->queue_count * sizeof *request->quota);
    uint32_t weights[QN_QUEUES_MAX];
    if (room > 0) {
        qn_choice_draw(&pump->choice, room, pump->is_fast, request->order, request->quota);
        request->exchange.in_rows = pump->choice.in_rows;
    }
    qn_choice_redraw_weights(&pump->choice, room, request->quota, weights);
    for (size_t i = 0; i < worker->queue_count; i++) {
        request->queues[i].weight = weights[i];
        request->queues[i].quota = request->quota[i];
        request->queues[i].leased = 0;
        request->queues[i].paused = false;
        request->queues[i].braked = false;
        request->queues[i].deaths = 0;
        request->queues[i].wait_ms = 0;
        request->queues[i].skip =
            qn_leftovers_has(&pump->leftovers, worker->options.queues[i].name);
    }
}

/* Without mutex: runs that ended without the broker. */
static void settle_silent(struct quern_worker *worker, struct qn_list *silent)
{
    struct qn_list *node = qn_list_shift(silent);
    while (node != NULL) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, phase_node);
        enum qn_applied applied = run->verdict.refused ? QN_STALE : QN_APPLIED;
        qn_run_trace_end(worker, run, applied);
        qn_report_run(worker, run, applied);
        (void)pthread_mutex_lock(&worker->mutex);
        qn_report_count(worker, run, applied);
        qn_run_table_drop(&worker->run_table, run);
        qn_signals_run_settled(worker);
        (void)pthread_mutex_unlock(&worker->mutex);
        node = qn_list_shift(silent);
    }
}

/* With mutex held. How many runs of charged tasks it has besides those that this exchange ends. */
static struct qn_isolation isolation_of(const struct quern_worker *worker,
                                        const struct qn_exchange_request *request)
{
    struct qn_isolation isolation = {.slots = qn_worker_slots(worker)};
    for (int64_t c = 1; c < QN_ALONE_CHARGES; c++) {
        uint32_t *held = &isolation.held[c - 1];
        *held = worker->run_table.charged[c - 1];
        for (size_t i = 0; i < request->exchange.outcome_count; i++) {
            *held -= request->ended[i] != NULL && request->ended[i]->leased->level >= c ? 1 : 0;
        }
        if (request == &worker->pump.second) {
            *held = isolation.slots; /* only the pump's own request brings runs of charged tasks */
        }
    }
    return isolation;
}

/* With mutex held. Chooses what to fetch: as usual, or the one task that must be alone. */
static void add_room(struct quern_worker *worker, struct qn_exchange_request *request,
                     int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    const struct qn_exchange_request *other = other_request(pump, request);
    struct qn_exchange *exchange = &request->exchange;
    uint32_t free_slots;
    qn_solo_plan(worker, request, now_mono_ns);
    uint32_t room = qn_request_room(worker, request, now_mono_ns, &free_slots);
    request->looks = room > 0 && (worker->look || (pump->plenty && other->in_flight));
    bool alone = exchange->outcome_count == 0 && !request->looks && exchange->solo == QN_SOLO_NONE;
    add_starts(worker, request, alone, now_mono_ns);
    request->open = !alone || exchange->start_count > 0;
    if (!request->open) {
        return;
    }
    if (exchange->solo == QN_SOLO_RUN) {
        exchange->room = 1;
        exchange->start_count_now = 1;
    } else if (room > 0) {
        worker->look = false;
        exchange->room = room;
        exchange->start_count_now = free_slots < room ? free_slots : room;
    }
    exchange->isolation = isolation_of(worker, request);
    if (exchange->start_count_now > 0) {
        pump->starts_at_mono_ns = now_mono_ns;
    }
    if (exchange->room > 0) {
        qn_solo_ask(worker, request, now_mono_ns);
    }
}

void qn_request_build(struct quern_worker *worker, struct qn_exchange_request *request,
                      int64_t now_mono_ns)
{
    struct qn_list silent;
    qn_list_init(&silent);
    request->exchange = (struct qn_exchange){
        .outcomes = request->outcomes,
        .starts = request->starts,
        .worker_id = worker->id,
        .host = worker->host,
        .lease_ms = worker->options.lease_ms,
        .queues = request->queues,
        .queue_count = worker->queue_count,
        .strict = worker->options.strict_priority,
        .on_unusable = qn_report_unusable,
        .user = worker,
    };
    request->reply = (struct qn_exchange_reply){
        .applied = request->applied, .runs = request->leased, .unanswered = request->unanswered};
    qn_prefetch_set_slots(&worker->pump.prefetch, qn_worker_slots(worker));
    (void)pthread_mutex_lock(&worker->mutex);
    take_weights(worker);
    add_unplaced(&worker->pump, request);
    add_outcomes(worker, request, &silent, now_mono_ns);
    bool leaves = worker->state != QN_WORKER_RUNNING && !worker->fallen;
    request->exchange.is_leaving = leaves || atomic_load(&worker->quiet);
    add_room(worker, request, now_mono_ns);
    (void)pthread_mutex_unlock(&worker->mutex);
    settle_silent(worker, &silent);
    if (request->open) {
        draw(worker, request, request->exchange.room);
        request->stamp.sequence++;
        request->exchange.stamp = request->stamp;
    }
}
