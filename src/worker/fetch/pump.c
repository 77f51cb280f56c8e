/* SPDX-License-Identifier: MIT */
/* pump.c - the loop that moves runs between the broker and the pool.
 *
 * A step: move due tasks, give back runs that wait too long, exchange. While exchanges bring or
 * take something the next step follows at once. So under load, the runs that finish during one
 * exchange are the batch of the next. When nothing is left to do the wake-up is armed, and the pump
 * sleeps until a run finishes, the broker sends a notice, or a known moment comes.
 *
 * A notice for a sleeping pump reaches the listener first. It then does the step itself, under
 * step_mutex, instead of waking the pump: that saves a context switch between an enqueue and the
 * start of its handler. When the broker does not answer, steps do nothing until the backoff is
 * over; finished runs keep their outcome meanwhile.
 *
 * While the second pump (second_pump.c) has an exchange in flight, a step waits until that is back
 * or there is enough for another one, so that batches stay full. A request that the second pump
 * failed to send is sent again here. */
#include "worker/fetch/pump.h"

#include "base/bug.h"
#include "base/cond.h"
#include "worker/fetch/drain.h"
#include "worker/fetch/response.h"
#include "worker/internal.h"
#include "worker/run/execute.h"
#include "worker/run/give_back.h"

enum {
    FORWARD_BUSY_MS = 20, /* while busy: how often to look for due tasks */
    FORWARD_AGAIN_MS = 2, /* between two calls for a moment that has come */
    FORWARD_BATCH = 256,
    WAITING_LOOK_MS = 20, /* with prefetched runs: to report starts, to give runs back */
    DRAIN_LOOK_MS = 100,  /* runs of other workers end without a notice */
    FRUITLESS_MS = 10,    /* the work cannot be leased now, e.g. a charged task: look again later */
    FRUITLESS_DOUBLINGS = 7,
    ARM_AGAIN_MS = 5000, /* the brokers look each second whether they missed anything */
    STALL_PARTS = 4,     /* an idle worker asks so often within its stall timeout */
    NO_AHEAD_MS = 1000   /* runs had to be given back: do not fetch ahead for a while */
};

/* How the pump is to sleep. */
struct sleep_plan {
    int64_t until_mono_ns;
    bool in_outage;
    bool has_room; /* for runs, if there were any */
    bool awaits;   /* it awaits the second pump, or enough for an exchange beside it */
};

quern_status qn_pump_init(struct quern_worker *worker, quern_error *err)
{
    struct qn_pump *pump = &worker->pump;
    uint32_t weights[QN_QUEUES_MAX];
    for (size_t i = 0; i < worker->queue_count; i++) {
        weights[i] = worker->options.queues[i].weight;
    }
    qn_choice_init(&pump->choice, weights, worker->queue_count, worker->options.strict_priority,
                   &worker->random);
    qn_prefetch_set_slots(&pump->prefetch, qn_worker_slots(worker));
    qn_unknown_init(&pump->unknown);
    qn_leftovers_init(&pump->leftovers);
    qn_backoff_init(&pump->backoff, &worker->backoffs);
    qn_backoff_init(&pump->forward_backoff, &worker->backoffs);
    qn_backoff_init(&pump->second_backoff, &worker->backoffs);
    pump->forward_backoff.is_lazy = true;
    pump->second_backoff.is_lazy = true; /* the pump sends the request that it failed to send */
    pump->next_due_at_ms = INT64_MAX;
    pump->room_max = QN_BATCH_MAX;
    worker->look = true;
    pump->first.stamp.session = qn_random_next(&worker->random);
    pump->second.stamp.session = qn_random_next(&worker->random);
    quern_status status = qn_request_init(worker, &pump->first, err);
    if (status == QUERN_OK) {
        status = qn_request_init(worker, &pump->second, err);
    }
    if (QN_BUG(SECOND_SHARES_SESSION)) {
        pump->second.stamp.session = pump->first.stamp.session;
    }
    return status;
}

void qn_pump_finish(struct quern_worker *worker)
{
    struct qn_pump *pump = &worker->pump;
    for (size_t i = 0; i < pump->unplaced_count; i++) {
        qn_leased_free(pump->unplaced[i]);
    }
    qn_request_finish(&pump->first);
    qn_request_finish(&pump->second);
    qn_leftovers_finish(&pump->leftovers);
    qn_prefetch_finish(&pump->prefetch);
    qn_unknown_finish(&pump->unknown);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void set_look(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->look = true;
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void note_call(struct quern_worker *worker, quern_status status, const quern_error *error)
{
    qn_beats_step(worker, worker->pump.stepper);
    if (status == QUERN_OK) {
        qn_beats_answered(worker);
        qn_backoff_end(&worker->pump.backoff);
    } else {
        qn_backoff_fail(&worker->pump.backoff, error);
    }
}

/* Moves due tasks to pending when one is known to be due, and while busy from time to time. Not if
 * arm has just returned when the next one is due, because a start would have to wait for it. */
static void forward_due(struct quern_worker *worker, bool busy, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    int64_t since_ns = now_mono_ns - pump->forwarded_at_mono_ns;
    bool due = pump->next_due_at_ms <= qn_clock_wall_ms(worker->clock) &&
               since_ns >= FORWARD_AGAIN_MS * QN_NS_PER_MS;
    if (now_mono_ns < pump->forward_backoff.retry_at_mono_ns) {
        return;
    }
    bool is_known = now_mono_ns - pump->due_known_at_mono_ns < FORWARD_BUSY_MS * QN_NS_PER_MS;
    if (!due && (!busy || is_known)) {
        return;
    }
    size_t moved = 0;
    int64_t next_due_at_ms = INT64_MAX;
    quern_error error = {0};
    (void)pthread_mutex_unlock(&worker->pump.plan_mutex);
    quern_status status = qn_broker_forward(
        worker->broker, (struct qn_upkeep){qn_worker_names(worker), FORWARD_BATCH}, &moved,
        &next_due_at_ms, &error);
    (void)pthread_mutex_lock(&worker->pump.plan_mutex);
    pump->forwarded_at_mono_ns = now_mono_ns;
    pump->due_known_at_mono_ns = now_mono_ns;
    if (status != QUERN_OK) {
        qn_backoff_fail(&pump->forward_backoff, &error);
        return;
    }
    qn_backoff_end(&pump->forward_backoff);
    pump->next_due_at_ms = next_due_at_ms;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->due_known_at_mono_ns = now_mono_ns;
    worker->look = worker->look || moved > 0;
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Gives back runs that wait too long, and notes which waits have ended. Returns whether the worker
 * has something to do, and may forward often. */
static bool give_back_late(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    if (qn_give_back_waiting(worker, now_mono_ns) > 0) {
        pump->no_ahead_until_mono_ns = now_mono_ns + NO_AHEAD_MS * QN_NS_PER_MS;
    }
    if (pump->look_at_mono_ns != 0 && now_mono_ns >= pump->look_at_mono_ns) {
        pump->look_at_mono_ns = 0;
        worker->look = true;
    }
    if (pump->wait_until_mono_ns != 0 && now_mono_ns >= pump->wait_until_mono_ns) {
        pump->wait_until_mono_ns = 0;
        worker->look = true;
    }
    worker->look = qn_solo_rest_is_over(&pump->solo, now_mono_ns) || worker->look;
    if (pump->armed && !worker->look) {
        pump->due_known_at_mono_ns = now_mono_ns; /* else there would have been a notice */
    }
    bool busy = worker->look || worker->run_table.held_count > 0;
    bool wake = qn_execute_submit_ready(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (wake) {
        qn_pool_wake(worker->pool);
    }
    return busy;
}

/* The keeper need not look for due tasks. */
static void note_due_known(struct quern_worker *worker, int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->due_known_at_mono_ns = now_mono_ns;
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* After how long an idle worker arms again, which also shows that the broker answers. */
static int64_t arm_again_ns(const struct quern_worker *worker)
{
    int64_t stall_ms = worker->options.stall_timeout_ms;
    int64_t part_ms = stall_ms > 0 ? stall_ms / STALL_PARTS : ARM_AGAIN_MS;
    return qn_earlier(part_ms, ARM_AGAIN_MS) * QN_NS_PER_MS;
}

/* Arms the wake-up. True when there is work right now: then the pump must not sleep. */
static bool arm(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    if (pump->armed && now_mono_ns - pump->armed_at_mono_ns < arm_again_ns(worker)) {
        note_due_known(worker, now_mono_ns);
        return false;
    }
    bool work = false;
    int64_t next_due_at_ms = INT64_MAX;
    quern_error error = {0};
    quern_status status =
        qn_broker_arm(worker->broker, qn_worker_names(worker), &work, &next_due_at_ms, &error);
    note_call(worker, status, &error);
    if (status != QUERN_OK) {
        return false;
    }
    pump->armed = true;
    pump->armed_at_mono_ns = now_mono_ns;
    pump->next_due_at_ms = next_due_at_ms;
    note_due_known(worker, now_mono_ns);
    if (!work) {
        pump->fruitless = 0;
        return false;
    }
    if (pump->fruitless++ == 0) {
        set_look(worker);
        return true;
    }
    uint32_t doublings =
        pump->fruitless < FRUITLESS_DOUBLINGS ? pump->fruitless : FRUITLESS_DOUBLINGS;
    int64_t delay_ms = qn_earlier(QN_SAFETY_NET_MS, (int64_t)FRUITLESS_MS << doublings);
    pump->look_at_mono_ns = now_mono_ns + delay_ms * QN_NS_PER_MS;
    return false;
}

/* Whether a worker that stops when nothing is due has to continue all the same: tasks of workers
 * that died may be pending soon, delayed ones may be due that no worker has moved yet, and those
 * that the limit of a pattern holds up come back. */
static bool expects_tasks(struct quern_worker *worker)
{
    const struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    bool has_recovered = worker->has_recovered;
    bool has_aside = qn_clock_mono_ns() < worker->run_table.aside_until_mono_ns;
    (void)pthread_mutex_unlock(&worker->mutex);
    return !has_recovered || has_aside || !pump->armed || pump->second.open ||
           pump->leftovers.first != NULL || pump->next_due_at_ms <= qn_clock_wall_ms(worker->clock);
}

/* Whether nothing waits in the groups that this worker aggregates. They must have been looked at
 * since the rest was found empty, because delayed tasks may have joined them before. */
static bool groups_are_empty(struct quern_worker *worker, bool drained, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    if (!worker->groups.served || !drained) {
        pump->drained_since_mono_ns = 0;
        return true;
    }
    if (pump->drained_since_mono_ns == 0) {
        pump->drained_since_mono_ns = now_mono_ns;
        qn_aggregator_wake(&worker->groups.aggregator);
    }
    return qn_aggregator_empty_since(&worker->groups.aggregator) >= pump->drained_since_mono_ns;
}

/* A worker with the option drain stops once its queues hold nothing more for it, one with
 * until_idle once nothing is due. For one that only aggregates that is so for its groups. */
static void stop_if_drained(struct quern_worker *worker, int64_t now_mono_ns)
{
    bool drained = worker->only_aggregates;
    quern_error error = {0};
    quern_status status = QUERN_OK;
    bool is_idle = worker->options.until_idle;
    if ((is_idle || worker->only_aggregates) && expects_tasks(worker)) {
        return;
    }
    if (!worker->only_aggregates) {
        status = qn_broker_drained(worker->broker, qn_worker_names(worker),
                                   is_idle ? QN_UNTIL_IDLE : QN_UNTIL_EMPTY, &drained, &error);
    }
    note_call(worker, status, &error);
    drained =
        groups_are_empty(worker, status == QUERN_OK && drained, qn_clock_mono_ns()) && drained;
    if (status == QUERN_OK && drained && atomic_load(&worker->stops) == 0) {
        quern_worker_stop(worker);
    } else if (status == QUERN_OK && !drained) {
        qn_drain_log(worker, now_mono_ns);
    }
}

/* Until when there is nothing to do if no notice comes. */
static int64_t next_moment(struct quern_worker *worker, int64_t now_mono_ns, bool drains)
{
    const struct qn_pump *pump = &worker->pump;
    int64_t until = now_mono_ns + QN_SAFETY_NET_MS * QN_NS_PER_MS;
    if (pump->backoff.retry_at_mono_ns > now_mono_ns) {
        return qn_earlier(until, pump->backoff.retry_at_mono_ns);
    }
    if (pump->next_due_at_ms != INT64_MAX) {
        int64_t soonest = pump->forwarded_at_mono_ns + FORWARD_AGAIN_MS * QN_NS_PER_MS;
        int64_t due = now_mono_ns + qn_clock_until_wall_ns(worker->clock, pump->next_due_at_ms);
        soonest = later(soonest, pump->forward_backoff.retry_at_mono_ns);
        until = qn_earlier(until, later(due, soonest));
    }
    if (pump->look_at_mono_ns != 0) {
        until = qn_earlier(until, pump->look_at_mono_ns);
    }
    if (pump->wait_until_mono_ns != 0) {
        until = qn_earlier(until, pump->wait_until_mono_ns);
    }
    if (!pump->second.in_flight) {
        until = qn_earlier(until, qn_solo_moment(&pump->solo));
    }
    if (pump->unknown.hold_until_mono_ns > now_mono_ns) {
        until = qn_earlier(until, pump->unknown.hold_until_mono_ns);
    }
    until = qn_earlier(until, qn_leftovers_moment(&pump->leftovers));
    if (drains) {
        until = qn_earlier(until, now_mono_ns + DRAIN_LOOK_MS * QN_NS_PER_MS);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    if (worker->run_table.waiting_count > 0 || !qn_list_empty(&worker->run_table.starting)) {
        until = qn_earlier(until, now_mono_ns + WAITING_LOOK_MS * QN_NS_PER_MS);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return until;
}

/* Nothing to exchange: arms if there is room, and plans the sleep. True: continue instead. */
static bool rest(struct quern_worker *worker, int64_t now_mono_ns, struct sleep_plan *ret_plan)
{
    (void)pthread_mutex_lock(&worker->mutex);
    uint32_t free_slots;
    bool has_room = qn_request_room(worker, &worker->pump.first, now_mono_ns, &free_slots) > 0;
    bool drains = (worker->options.drain || worker->options.until_idle) &&
                  worker->state == QN_WORKER_RUNNING && worker->run_table.held_count == 0;
    (void)pthread_mutex_unlock(&worker->mutex);
    /* One that only aggregates must know when the next delayed task joins its group. */
    bool arms = has_room || (worker->only_aggregates && drains);
    qn_beats_ask(worker, arms || drains);
    if (arms && arm(worker, now_mono_ns)) {
        return true;
    }
    if (drains && worker->pump.backoff.since_mono_ns == 0) {
        stop_if_drained(worker, now_mono_ns);
    }
    *ret_plan = (struct sleep_plan){.until_mono_ns = next_moment(worker, now_mono_ns, drains),
                                    .in_outage = worker->pump.backoff.since_mono_ns != 0,
                                    .has_room = has_room};
    return false;
}

/* The request to be sent next; NULL: that of the second pump comes back first. */
static struct qn_exchange_request *choose_request(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    bool beside = pump->second.in_flight;
    bool waits =
        beside && !pump->first.open && !qn_request_is_worth_it(worker, &pump->first, now_mono_ns);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (pump->second.open && !beside) {
        return &pump->second; /* it failed */
    }
    return waits ? NULL : &pump->first;
}

/* With step_mutex and plan_mutex held. True: there is more to do. */
static bool step(struct quern_worker *worker, struct sleep_plan *ret_plan)
{
    struct qn_pump *pump = &worker->pump;
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (now_mono_ns < pump->backoff.retry_at_mono_ns) {
        *ret_plan =
            (struct sleep_plan){.until_mono_ns = pump->backoff.retry_at_mono_ns, .in_outage = true};
        return false;
    }
    bool busy = give_back_late(worker, now_mono_ns);
    forward_due(worker, busy, now_mono_ns);
    qn_response_leftovers(worker, now_mono_ns);
    struct qn_exchange_request *request = choose_request(worker, now_mono_ns);
    if (request == NULL) {
        *ret_plan = (struct sleep_plan){.until_mono_ns = next_moment(worker, now_mono_ns, false),
                                        .awaits = true};
        return false;
    }
    if (!request->open) {
        qn_request_build(worker, request, now_mono_ns);
    }
    if (!request->open) {
        return rest(worker, now_mono_ns, ret_plan);
    }
    quern_error error = {0};
    qn_beats_ask(worker, true);
    quern_status status = qn_response_exchange(worker, request, 0, &error);
    note_call(worker, status, &error);
    if (status != QUERN_OK) {
        *ret_plan =
            (struct sleep_plan){.until_mono_ns = pump->backoff.retry_at_mono_ns, .in_outage = true};
    }
    return status == QUERN_OK;
}

bool qn_pump_help(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->look = true;
    bool asleep = worker->signals.pump_asleep;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!asleep) {
        return true; /* it looks before it falls asleep */
    }
    (void)pthread_mutex_lock(&worker->pump.step_mutex);
    (void)pthread_mutex_lock(&worker->pump.plan_mutex);
    worker->pump.stepper = QN_BEAT_LISTENER;
    uint64_t leased_before = worker->pump.leased_count;
    if (worker->pump.armed) {
        worker->pump.due_known_at_mono_ns = qn_clock_mono_ns(); /* until now */
        worker->pump.armed = false;                             /* the wake-up was used up */
    }
    struct sleep_plan plan = {0};
    bool more = step(worker, &plan);
    if (more) {
        /* Mostly only the wake-up is left to be armed: the pump need not be woken for that. */
        more = step(worker, &plan);
    }
    bool leased = worker->pump.leased_count != leased_before;
    (void)pthread_mutex_unlock(&worker->pump.plan_mutex);
    (void)pthread_mutex_unlock(&worker->pump.step_mutex);
    (void)pthread_mutex_lock(&worker->mutex);
    if (more || plan.until_mono_ns < worker->signals.pump_until_mono_ns) {
        qn_signals_wake_pump(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return more || leased || plan.awaits;
}

/* With mutex held. Whether something happened for which the pump must not sleep. During an outage
 * it would only fail again, and without room an exchange finds nothing. */
static bool has_news(const struct quern_worker *worker, const struct sleep_plan *plan)
{
    if (worker->signals.pump_signalled || worker->state == QN_WORKER_STOPPED) {
        return true;
    }
    if (plan->awaits) {
        return !worker->pump.second.in_flight || worker->run_table.finished_count >= QN_BATCH_WORTH;
    }
    return !plan->in_outage &&
           (!qn_list_empty(&worker->run_table.finished) || (plan->has_room && worker->look));
}

/* True when the worker has stopped. */
static bool sleep_until(struct quern_worker *worker, const struct sleep_plan *plan)
{
    qn_beats_sleep(worker, QN_BEAT_PUMP, plan->until_mono_ns);
    (void)pthread_mutex_lock(&worker->mutex);
    worker->signals.pump_until_mono_ns = plan->until_mono_ns;
    worker->signals.pump_asleep = true;
    worker->signals.pump_awaits = plan->awaits;
    bool in_time = true;
    while (!has_news(worker, plan) && in_time) {
        in_time =
            qn_cond_wait_until(&worker->signals.pump_cond, &worker->mutex, plan->until_mono_ns);
    }
    worker->signals.pump_asleep = false;
    worker->signals.pump_awaits = false;
    worker->signals.pump_signalled = false;
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

static bool has_stopped(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

void *qn_pump_main(void *argument)
{
    struct quern_worker *worker = argument;
    bool stopped = false;
    while (!stopped) {
        struct sleep_plan plan = {0};
        qn_beats_step(worker, QN_BEAT_PUMP);
        (void)pthread_mutex_lock(&worker->pump.step_mutex);
        (void)pthread_mutex_lock(&worker->pump.plan_mutex);
        worker->pump.stepper = QN_BEAT_PUMP;
        bool more = step(worker, &plan);
        (void)pthread_mutex_unlock(&worker->pump.plan_mutex);
        (void)pthread_mutex_unlock(&worker->pump.step_mutex);
        stopped = more ? has_stopped(worker) : sleep_until(worker, &plan);
    }
    qn_beats_end(worker, QN_BEAT_PUMP);
    return NULL;
}
