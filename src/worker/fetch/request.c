/* SPDX-License-Identifier: MIT */
/* request.c - fills one exchange from the books.
 *
 * Up to QN_BATCH_MAX outcomes or QN_BATCH_BYTES_MAX of them, the starts the broker has not heard
 * of, and as much room as there are free slots and runs to fetch ahead. Whatever happens to the
 * request, it stays as it is, stamp included, until it is answered (response.c): so no outcome is
 * dropped, and none is applied twice. Runs that end without the broker are settled here on the way.
 */
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "worker/internal.h"

enum { REPORT_START_AFTER_MS = 20 };

static quern_status init(struct quern_worker *worker, struct qn_turn *turn, quern_error *err)
{
    turn->stamp.session = qn_random_next(&worker->random);
    turn->queues = qn_alloc_zero(worker->queue_count, sizeof *turn->queues);
    turn->quota = qn_alloc_zero(worker->queue_count, sizeof *turn->quota);
    turn->taken = qn_alloc_zero(worker->queue_count, sizeof *turn->taken);
    turn->drawn = qn_alloc_zero(worker->queue_count, sizeof *turn->drawn);
    if (turn->queues == NULL || turn->quota == NULL || turn->taken == NULL || turn->drawn == NULL) {
        return qn_error_nomem(err); /* qn_turns_finish frees the others */
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        turn->queues[i].name = worker->options.queues[i].name;
    }
    return QUERN_OK;
}

quern_status qn_turns_init(struct quern_worker *worker, quern_error *err)
{
    struct qn_pump *pump = &worker->pump;
    quern_status status = init(worker, &pump->first, err);
    if (status == QUERN_OK) {
        status = init(worker, &pump->second, err);
    }
    if (QN_BUG(SECOND_SHARES_SESSION)) {
        pump->second.stamp.session = pump->first.stamp.session;
    }
    return status;
}

static void finish(struct qn_turn *turn)
{
    for (size_t i = 0; turn->open && i < turn->exchange.outcome_count; i++) {
        if (turn->ended[i] == NULL) {
            qn_leased_free(turn->returned[i]);
        }
    }
    for (size_t i = 0; turn->open && i < turn->exchange.start_count; i++) {
        qn_run_release(turn->starting[i]);
    }
    qn_free(turn->queues);
    qn_free(turn->quota);
    qn_free(turn->taken);
    qn_free(turn->drawn);
}

void qn_turns_finish(struct quern_worker *worker)
{
    struct qn_pump *pump = &worker->pump;
    for (size_t i = 0; i < pump->unplaced_count; i++) {
        qn_leased_free(pump->unplaced[i]);
    }
    finish(&pump->first);
    finish(&pump->second);
}

static const struct qn_turn *other_turn(const struct qn_pump *pump, const struct qn_turn *turn)
{
    return turn == &pump->first ? &pump->second : &pump->first;
}

uint32_t qn_turn_room(struct quern_worker *worker, const struct qn_turn *turn, int64_t now_mono_ns,
                      uint32_t *ret_free)
{
    struct qn_pump *pump = &worker->pump;
    const struct qn_books *books = &worker->books;
    const struct qn_turn *other = other_turn(pump, turn);
    size_t asked = other->open ? other->exchange.room : 0;
    size_t slots = worker->options.concurrency;
    slots = slots > books->stuck_count ? slots - books->stuck_count : 0;
    size_t taken = books->waiting_count + books->running_count + asked;
    size_t free_slots = slots > taken ? slots - taken : 0;
    *ret_free = (uint32_t)free_slots;
    if (worker->state != QN_WORKER_RUNNING || atomic_load(&worker->quiet) ||
        !qn_solo_is_idle(&pump->solo) || slots == 0 || pump->unplaced_count > 0 ||
        now_mono_ns < pump->unknown.hold_until_mono_ns || qn_shortage_pauses(worker, now_mono_ns)) {
        return 0;
    }
    /* Charged tasks and probes are leased only into a free slot. Where there was none for a second,
     * runs that were fetched ahead have filled them all: then nothing is fetched ahead. */
    bool starved = now_mono_ns - pump->starts_at_mono_ns > QN_SAFETY_NET_MS * QN_NS_PER_MS;
    size_t ahead = now_mono_ns < pump->no_ahead_until_mono_ns || starved ? 0 : pump->ahead;
    size_t room = slots + ahead > taken ? slots + ahead - taken : 0;
    room = room < QN_BATCH_MAX ? room : QN_BATCH_MAX;
    return (uint32_t)room;
}

bool qn_turn_is_worth_it(struct quern_worker *worker, const struct qn_turn *turn,
                         int64_t now_mono_ns)
{
    uint32_t free_slots;
    return worker->books.finished_count >= QN_BATCH_WORTH ||
           (worker->pump.plenty &&
            qn_turn_room(worker, turn, now_mono_ns, &free_slots) >= QN_BATCH_WORTH);
}

/* Why the task will run again. A run that never started leaves the cause it came with: that a
 * worker or a child died with this task must not be forgotten on the way. */
static quern_cause cause_of_return(const struct qn_leased *leased, bool started, quern_cause cause)
{
    bool inherits = !started && cause == QUERN_CAUSE_GIVEN_BACK;
    return inherits && leased->cause != QUERN_CAUSE_NONE ? leased->cause : cause;
}

static void add_outcome(struct qn_turn *turn, struct quern_run *run)
{
    const struct qn_verdict *verdict = &run->verdict;
    size_t i = turn->exchange.outcome_count++;
    bool started = qn_run_began(run);
    bool own_words = run->phase != QN_RUN_FENCED; /* else its handler may still write them */
    turn->ended[i] = run;
    turn->outcomes[i] = (struct qn_outcome){
        .run = run->leased,
        .kind = verdict->offered ? verdict->kind : QN_ENDED,
        .started = started,
        .lived_ms = verdict->kind == QN_CRASH
                        ? (run->ended_at_mono_ns - run->started_at_mono_ns) / QN_NS_PER_MS
                        : 0,
        .cause = cause_of_return(run->leased, started, verdict->cause),
        .delay_ms = verdict->delay_ms,
        .error = verdict->error,
        .has_result = own_words && verdict->kind == QN_DONE && run->has_result,
    };
    if (turn->outcomes[i].has_result) {
        turn->outcomes[i].result = run->result;
        turn->outcomes[i].result_size = run->result_size;
    }
}

static void add_unplaced(struct qn_pump *pump, struct qn_turn *turn)
{
    while (pump->unplaced_count > 0 && turn->exchange.outcome_count < QN_BATCH_MAX) {
        size_t i = turn->exchange.outcome_count++;
        turn->ended[i] = NULL;
        struct qn_leased *leased = pump->unplaced[--pump->unplaced_count];
        turn->returned[i] = leased;
        turn->outcomes[i] = (struct qn_outcome){
            .run = leased,
            .kind = QN_GIVE_BACK,
            .cause = cause_of_return(leased, false, QUERN_CAUSE_GIVEN_BACK),
        };
    }
}

/* Bytes that go to the broker with an outcome: it writes the message of a failed run anew. */
static size_t size_of(const struct qn_outcome *outcome)
{
    bool is_success = outcome->kind == QN_DONE || outcome->kind == QN_DROP;
    return outcome->result_size + (is_success ? 0 : outcome->run->raw_size);
}

/* With mutex held. The broker holds nothing of a run that was acked early. It hears all the same
 * that the run has ended, and was no death; a worker that drains does not wait for that. */
static bool is_told(const struct quern_worker *worker, const struct quern_run *run)
{
    bool died = run->verdict.kind == QN_CRASH || run->verdict.kind == QN_GIVE_BACK;
    bool is_news = run->acked && !died && worker->state == QN_WORKER_RUNNING;
    return run->verdict.offered || is_news;
}

/* With mutex held. Runs of which the broker hears nothing are moved to `silent`. */
static void add_outcomes(struct quern_worker *worker, struct qn_turn *turn, struct qn_list *silent)
{
    struct qn_books *books = &worker->books;
    size_t bytes = 0;
    while (turn->exchange.outcome_count < QN_BATCH_MAX && bytes < QN_BATCH_BYTES_MAX &&
           books->finished_count > 0) {
        struct quern_run *run = qn_books_take_finished(books);
        if (is_told(worker, run)) {
            add_outcome(turn, run);
            bytes += size_of(&turn->outcomes[turn->exchange.outcome_count - 1]);
        } else {
            qn_list_append(silent, &run->phase_node);
        }
    }
}

/* With mutex held. Alone, starts are worth an exchange only when they have lasted a while: most
 * runs that were fetched ahead are over before. */
static void add_starts(struct quern_worker *worker, struct qn_turn *turn, bool alone,
                       int64_t now_mono_ns)
{
    struct qn_list *starting = &worker->books.starting;
    if (qn_list_empty(starting)) {
        return;
    }
    const struct quern_run *oldest = QN_CONTAINER_OF(starting->next, struct quern_run, phase_node);
    if (alone && now_mono_ns - oldest->started_at_mono_ns < REPORT_START_AFTER_MS * QN_NS_PER_MS) {
        return;
    }
    while (turn->exchange.start_count < QN_BATCH_MAX && !qn_list_empty(starting)) {
        struct quern_run *run =
            QN_CONTAINER_OF(qn_list_shift(starting), struct quern_run, phase_node);
        run->references++;
        size_t i = turn->exchange.start_count++;
        turn->starting[i] = run;
        turn->starts[i] = run->leased;
    }
}

static void draw(struct quern_worker *worker, struct qn_turn *turn, uint32_t room)
{
    struct qn_pump *pump = &worker->pump;
    memset(turn->quota, 0, worker->queue_count * sizeof *turn->quota);
    uint32_t weights[QN_QUEUES_MAX];
    if (room > 0) {
        qn_choice_draw(&pump->choice, room, turn->order, turn->quota);
    }
    qn_choice_redraw_weights(&pump->choice, room, weights);
    for (size_t i = 0; i < worker->queue_count; i++) {
        turn->queues[i].weight = weights[i];
        turn->queues[i].quota = turn->quota[i];
        turn->queues[i].leased = 0;
        turn->queues[i].paused = false;
        turn->queues[i].braked = false;
        turn->queues[i].deaths = 0;
        turn->queues[i].wait_ms = 0;
    }
}

/* Without mutex: runs that ended without the broker. */
static void settle_silent(struct quern_worker *worker, struct qn_list *silent)
{
    struct qn_list *node = qn_list_shift(silent);
    while (node != NULL) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, phase_node);
        enum qn_applied applied = run->verdict.refused ? QN_STALE : QN_APPLIED;
        qn_report_run(worker, run, applied);
        (void)pthread_mutex_lock(&worker->mutex);
        qn_report_count(worker, run, applied);
        qn_books_drop(&worker->books, run);
        qn_worker_note_settled(worker);
        (void)pthread_mutex_unlock(&worker->mutex);
        node = qn_list_shift(silent);
    }
}

/* With mutex held. How many runs of charged tasks it has besides those that this exchange ends. */
static struct qn_isolation isolation_of(const struct quern_worker *worker,
                                        const struct qn_turn *turn)
{
    struct qn_isolation isolation = {0};
    if (!worker->shares_process) {
        return isolation;
    }
    isolation.slots = worker->options.concurrency;
    for (int64_t c = 1; c < QN_ALONE_CHARGES; c++) {
        uint32_t *held = &isolation.held[c - 1];
        *held = worker->books.charged[c - 1];
        for (size_t i = 0; i < turn->exchange.outcome_count; i++) {
            *held -= turn->ended[i] != NULL && turn->ended[i]->leased->crash_count >= c ? 1 : 0;
        }
        if (turn == &worker->pump.second) {
            *held = isolation.slots; /* only the pump's own turn brings runs of charged tasks */
        }
    }
    return isolation;
}

/* With mutex held. What to fetch: as usual, or the one task that must be alone. */
static void add_room(struct quern_worker *worker, struct qn_turn *turn, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    const struct qn_turn *other = other_turn(pump, turn);
    struct qn_exchange *exchange = &turn->exchange;
    uint32_t free_slots;
    qn_solo_plan(worker, turn, now_mono_ns);
    uint32_t room = qn_turn_room(worker, turn, now_mono_ns, &free_slots);
    turn->looks = room > 0 && (worker->look || (pump->plenty && other->in_flight));
    bool alone = exchange->outcome_count == 0 && !turn->looks && exchange->solo == QN_SOLO_NONE;
    add_starts(worker, turn, alone, now_mono_ns);
    turn->open = !alone || exchange->start_count > 0;
    if (!turn->open) {
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
    exchange->isolation = isolation_of(worker, turn);
    if (exchange->start_count_now > 0) {
        pump->starts_at_mono_ns = now_mono_ns;
    }
    if (exchange->room > 0) {
        qn_solo_ask(worker, turn, now_mono_ns);
    }
}

void qn_turn_build(struct quern_worker *worker, struct qn_turn *turn, int64_t now_mono_ns)
{
    struct qn_list silent;
    qn_list_init(&silent);
    turn->exchange = (struct qn_exchange){
        .outcomes = turn->outcomes,
        .starts = turn->starts,
        .worker_id = worker->id,
        .host = worker->host,
        .lease_ms = worker->options.lease_ms,
        .queues = turn->queues,
        .queue_count = worker->queue_count,
        .strict = worker->options.strict_priority != 0,
        .on_unusable = qn_report_unusable,
        .user = worker,
    };
    turn->reply = (struct qn_exchange_reply){.applied = turn->applied, .runs = turn->leased};
    (void)pthread_mutex_lock(&worker->mutex);
    add_unplaced(&worker->pump, turn);
    add_outcomes(worker, turn, &silent);
    turn->exchange.is_leaving = worker->state != QN_WORKER_RUNNING || atomic_load(&worker->quiet);
    add_room(worker, turn, now_mono_ns);
    (void)pthread_mutex_unlock(&worker->mutex);
    settle_silent(worker, &silent);
    if (turn->open) {
        draw(worker, turn, turn->exchange.room);
        turn->stamp.sequence++;
        turn->exchange.stamp = turn->stamp;
    }
}
