/* SPDX-License-Identifier: MIT */
/* pump.c - the loop that moves runs between the broker and the pool.
 *
 * A step: move due tasks, take back what waits too long, exchange. While exchanges bring or take
 * something the next step follows at once, so under load what finishes during one exchange is the
 * batch of the next. When nothing is left to do the wake-up is armed, and the pump sleeps until a
 * run finishes, the broker has news, or a moment comes that it knows of.
 *
 * News for a sleeping pump reach the listener first. It then does the step itself, under
 * turn_mutex, instead of waking the pump: that saves a change of threads between an enqueue and the
 * start of its handler. When the broker does not answer, steps do nothing until the backoff is
 * over; finished runs keep their outcome meanwhile.
 *
 * While the second pump (second_pump.c) has an exchange under way, a step waits until that is back
 * or there is enough for another one, so that batches stay full. What the second pump could not get
 * through is sent again here. */
#include "worker/internal.h"

enum {
    FORWARD_BUSY_MS = 20, /* while busy: how often to look for due tasks nobody told us of */
    FORWARD_AGAIN_MS = 2, /* between two calls for a moment that has come */
    FORWARD_BATCH = 256,
    WAITING_LOOK_MS = 20, /* with runs fetched ahead: to report starts, to take them back */
    DRAIN_LOOK_MS = 100,  /* other workers' runs end without telling us */
    FRUITLESS_MS = 10,    /* work that cannot be had, e.g. of a charged task: look again later */
    FRUITLESS_DOUBLINGS = 7,
    ARM_AGAIN_MS = 5000, /* the brokers look each second whether they missed anything */
    NO_AHEAD_MS = 1000   /* runs had to be taken back: do not fetch ahead for a while */
};

/* How the pump sleeps. */
struct nap {
    int64_t until_mono_ns;
    bool in_outage;
    bool has_room; /* for runs, if there were any */
    bool awaits;   /* the second pump, or enough for an exchange beside it */
};

void qn_pump_poke(struct quern_worker *worker)
{
    if (worker->pump_asleep && !worker->pump_poked) {
        worker->pump_poked = true;
        (void)pthread_cond_signal(&worker->pump_cond);
    }
}

void qn_pump_note_finished(struct quern_worker *worker)
{
    bool many = worker->books.finished_count >= QN_BATCH_WORTH;
    if (many && worker->pump.first.in_flight) {
        qn_second_poke(worker);
    }
    if (many || !worker->pump_awaits) {
        qn_pump_poke(worker);
    }
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
    if (status == QUERN_OK) {
        qn_outage_end(&worker->pump.outage);
    } else {
        qn_outage_fail(&worker->pump.outage, error);
    }
}

/* Moves due tasks to pending when one is known to be due, and while busy from time to time. Not
 * where arm told of the next one a moment ago: a start would have to wait for that. */
static void forward_due(struct quern_worker *worker, bool busy, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    int64_t since_ns = now_mono_ns - pump->forwarded_at_mono_ns;
    bool due = pump->next_due_at_ms <= qn_clock_wall_ms(worker->clock) &&
               since_ns >= FORWARD_AGAIN_MS * QN_NS_PER_MS;
    if (now_mono_ns < pump->forward_outage.retry_at_mono_ns) {
        return;
    }
    bool is_known = now_mono_ns - pump->due_known_at_mono_ns < FORWARD_BUSY_MS * QN_NS_PER_MS;
    if (!due && (!busy || is_known)) {
        return;
    }
    size_t moved = 0;
    int64_t next_due_at_ms = INT64_MAX;
    quern_error error = {0};
    (void)pthread_mutex_unlock(&worker->plan_mutex);
    quern_status status =
        qn_broker_forward(worker->broker, worker->queue_names, worker->queue_count, FORWARD_BATCH,
                          &moved, &next_due_at_ms, &error);
    (void)pthread_mutex_lock(&worker->plan_mutex);
    pump->forwarded_at_mono_ns = now_mono_ns;
    pump->due_known_at_mono_ns = now_mono_ns;
    if (status != QUERN_OK) {
        qn_outage_fail(&pump->forward_outage, &error);
        return;
    }
    qn_outage_end(&pump->forward_outage);
    pump->next_due_at_ms = next_due_at_ms;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->due_known_at_mono_ns = now_mono_ns;
    worker->look = worker->look || moved > 0;
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Returns whether the worker has something to do, and may forward often. */
static bool take_back(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    if (qn_take_back_waiting(worker, now_mono_ns) > 0) {
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
        pump->due_known_at_mono_ns = now_mono_ns; /* we would have been told otherwise */
    }
    bool busy = worker->look || worker->books.held_count > 0;
    (void)pthread_mutex_unlock(&worker->mutex);
    return busy;
}

/* The keeper need not look for due tasks. */
static void note_due_known(struct quern_worker *worker, int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->due_known_at_mono_ns = now_mono_ns;
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Arms the wake-up. True when there is work right now: then the pump must not sleep. */
static bool arm(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    if (pump->armed && now_mono_ns - pump->armed_at_mono_ns < ARM_AGAIN_MS * QN_NS_PER_MS) {
        note_due_known(worker, now_mono_ns);
        return false;
    }
    bool work = false;
    int64_t next_due_at_ms = INT64_MAX;
    quern_error error = {0};
    quern_status status = qn_broker_arm(worker->broker, worker->queue_names, worker->queue_count,
                                        &work, &next_due_at_ms, &error);
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

/* A worker told to drain stops by itself once its queues hold nothing more for it. */
static void stop_if_drained(struct quern_worker *worker, int64_t now_mono_ns)
{
    bool drained = false;
    quern_error error = {0};
    quern_status status = qn_broker_drained(worker->broker, worker->queue_names,
                                            worker->queue_count, &drained, &error);
    note_call(worker, status, &error);
    if (status == QUERN_OK && drained && atomic_load(&worker->stops) == 0) {
        quern_worker_stop(worker);
    } else if (status == QUERN_OK && !drained) {
        qn_drain_tell(worker, now_mono_ns);
    }
}

/* Until when there is nothing to do unless somebody says so. */
static int64_t next_moment(struct quern_worker *worker, int64_t now_mono_ns, bool drains)
{
    const struct qn_pump *pump = &worker->pump;
    int64_t until = now_mono_ns + QN_SAFETY_NET_MS * QN_NS_PER_MS;
    if (pump->outage.retry_at_mono_ns > now_mono_ns) {
        return qn_earlier(until, pump->outage.retry_at_mono_ns);
    }
    if (pump->next_due_at_ms != INT64_MAX) {
        int64_t soonest = pump->forwarded_at_mono_ns + FORWARD_AGAIN_MS * QN_NS_PER_MS;
        int64_t due = now_mono_ns + qn_clock_until_wall_ns(worker->clock, pump->next_due_at_ms);
        soonest = later(soonest, pump->forward_outage.retry_at_mono_ns);
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
    if (drains) {
        until = qn_earlier(until, now_mono_ns + DRAIN_LOOK_MS * QN_NS_PER_MS);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    if (worker->books.waiting_count > 0 || !qn_list_empty(&worker->books.starting)) {
        until = qn_earlier(until, now_mono_ns + WAITING_LOOK_MS * QN_NS_PER_MS);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return until;
}

/* Nothing to exchange: arms if there is room, and says how long to sleep. True: go on instead. */
static bool rest(struct quern_worker *worker, int64_t now_mono_ns, struct nap *ret_nap)
{
    (void)pthread_mutex_lock(&worker->mutex);
    uint32_t free_slots;
    bool has_room = qn_turn_room(worker, &worker->pump.first, now_mono_ns, &free_slots) > 0;
    bool drains = worker->options.drain != 0 && worker->state == QN_WORKER_RUNNING &&
                  worker->books.held_count == 0;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (has_room && arm(worker, now_mono_ns)) {
        return true;
    }
    if (drains && worker->pump.outage.since_mono_ns == 0) {
        stop_if_drained(worker, now_mono_ns);
    }
    *ret_nap = (struct nap){.until_mono_ns = next_moment(worker, now_mono_ns, drains),
                            .in_outage = worker->pump.outage.since_mono_ns != 0,
                            .has_room = has_room};
    return false;
}

/* The turn to be sent next; NULL: the second pump's comes back first. */
static struct qn_turn *choose_turn(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    (void)pthread_mutex_lock(&worker->mutex);
    bool beside = pump->second.in_flight;
    bool waits =
        beside && !pump->first.open && !qn_turn_is_worth_it(worker, &pump->first, now_mono_ns);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (pump->second.open && !beside) {
        return &pump->second; /* it failed */
    }
    return waits ? NULL : &pump->first;
}

/* With turn_mutex and plan_mutex held. True: there is more to do. */
static bool step(struct quern_worker *worker, struct nap *ret_nap)
{
    struct qn_pump *pump = &worker->pump;
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (now_mono_ns < pump->outage.retry_at_mono_ns) {
        *ret_nap = (struct nap){.until_mono_ns = pump->outage.retry_at_mono_ns, .in_outage = true};
        return false;
    }
    bool busy = take_back(worker, now_mono_ns);
    forward_due(worker, busy, now_mono_ns);
    struct qn_turn *turn = choose_turn(worker, now_mono_ns);
    if (turn == NULL) {
        *ret_nap =
            (struct nap){.until_mono_ns = next_moment(worker, now_mono_ns, false), .awaits = true};
        return false;
    }
    if (!turn->open) {
        qn_turn_build(worker, turn, now_mono_ns);
    }
    if (!turn->open) {
        return rest(worker, now_mono_ns, ret_nap);
    }
    quern_error error = {0};
    quern_status status = qn_turn_exchange(worker, turn, 0, &error);
    note_call(worker, status, &error);
    if (status != QUERN_OK) {
        *ret_nap = (struct nap){.until_mono_ns = pump->outage.retry_at_mono_ns, .in_outage = true};
    }
    return status == QUERN_OK;
}

bool qn_pump_help(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->look = true;
    bool asleep = worker->pump_asleep;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!asleep) {
        return true; /* it looks before it falls asleep */
    }
    (void)pthread_mutex_lock(&worker->turn_mutex);
    (void)pthread_mutex_lock(&worker->plan_mutex);
    uint64_t leased_before = worker->pump.leased_count;
    if (worker->pump.armed) {
        worker->pump.due_known_at_mono_ns = qn_clock_mono_ns(); /* until now */
        worker->pump.armed = false;                             /* the wake-up was used up */
    }
    struct nap nap = {0};
    bool more = step(worker, &nap);
    if (more) {
        /* Mostly only the wake-up is left to be armed: the pump need not be woken for that. */
        more = step(worker, &nap);
    }
    bool leased = worker->pump.leased_count != leased_before;
    (void)pthread_mutex_unlock(&worker->plan_mutex);
    (void)pthread_mutex_unlock(&worker->turn_mutex);
    (void)pthread_mutex_lock(&worker->mutex);
    if (more || nap.until_mono_ns < worker->pump_until_mono_ns) {
        qn_pump_poke(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return more || leased || nap.awaits;
}

/* With mutex held. Whether something happened for which the pump must not sleep: during an outage
 * it would only be told the same again, and without room a look finds nothing. */
static bool has_news(const struct quern_worker *worker, const struct nap *nap)
{
    if (worker->pump_poked || worker->state == QN_WORKER_STOPPED) {
        return true;
    }
    if (nap->awaits) {
        return !worker->pump.second.in_flight || worker->books.finished_count >= QN_BATCH_WORTH;
    }
    return !nap->in_outage &&
           (!qn_list_empty(&worker->books.finished) || (nap->has_room && worker->look));
}

/* True when the worker has stopped. */
static bool sleep_until(struct quern_worker *worker, const struct nap *nap)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->pump_until_mono_ns = nap->until_mono_ns;
    worker->pump_asleep = true;
    worker->pump_awaits = nap->awaits;
    bool in_time = true;
    while (!has_news(worker, nap) && in_time) {
        in_time = qn_cond_wait_until(&worker->pump_cond, &worker->mutex, nap->until_mono_ns);
    }
    worker->pump_asleep = false;
    worker->pump_awaits = false;
    worker->pump_poked = false;
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
        struct nap nap = {0};
        (void)pthread_mutex_lock(&worker->turn_mutex);
        (void)pthread_mutex_lock(&worker->plan_mutex);
        bool more = step(worker, &nap);
        (void)pthread_mutex_unlock(&worker->plan_mutex);
        (void)pthread_mutex_unlock(&worker->turn_mutex);
        stopped = more ? has_stopped(worker) : sleep_until(worker, &nap);
    }
    return NULL;
}
