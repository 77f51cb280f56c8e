/* SPDX-License-Identifier: MIT */
/* aggregator.c - the loop that aggregates the groups of some queues, one set at a time.
 *
 * A round asks each queue for one set at most, so that a queue with many does not hold up the
 * others; the broker's cursor does the same for the groups of a queue. After a round without a set
 * the thread sleeps until the first group is due, LOOK_MS at most, since new tasks may change that.
 * A failure ends the round, and the next one begins behind that queue: the servers of other queues
 * may be there. A queue whose data are damaged only passes its turn.
 *
 * A worker that ends when its queues are empty has to know that nothing waits in groups. So the
 * beginning of each full round is kept in which nothing did: one that has looked at all groups of
 * all queues from the first on. Groups that rest after a failure are work left, unless the caller
 * wants to know only what could be done now. */
#include "schedule/group/aggregator.h"

#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/memory/alloc.h"

enum { LOOK_MS = 1000 };

struct qn_aggregator_queue {
    struct qn_group_cursor cursor;
    bool midway;          /* the cursor is not at the first group */
    bool unserved_logged; /* that a group has no aggregator here */
    bool fails;           /* its latest call has failed */
};

/* One round, or one call in it. */
struct round {
    struct qn_aggregator *aggregator;
    size_t queue;
    int64_t began_mono_ns;
    int64_t until_mono_ns; /* when it is the turn of the next group */
    bool more;             /* a set was made, or not all groups were looked at */
    bool waiting;          /* tasks wait in a group, or it rests */
};

quern_status qn_aggregator_init(struct qn_aggregator *aggregator,
                                const struct qn_aggregator_spec *spec, quern_error *err)
{
    *aggregator = (struct qn_aggregator){.spec = *spec};
    struct qn_random random;
    qn_random_init(&random);
    aggregator->stamp.session = qn_random_next(&random);
    qn_id_source_init(&aggregator->ids);
    (void)pthread_mutex_init(&aggregator->mutex, NULL);
    qn_cond_init(&aggregator->cond);
    aggregator->queues = qn_alloc_zero(spec->queues.count, sizeof *aggregator->queues);
    aggregator->rests = qn_alloc_zero(1, sizeof *aggregator->rests);
    if (aggregator->queues == NULL || aggregator->rests == NULL) {
        qn_aggregator_finish(aggregator);
        return qn_error_nomem(err);
    }
    return QUERN_OK;
}

void qn_aggregator_finish(struct qn_aggregator *aggregator)
{
    qn_free(aggregator->queues);
    qn_free(aggregator->rests);
    (void)pthread_cond_destroy(&aggregator->cond);
    (void)pthread_mutex_destroy(&aggregator->mutex);
}

/* --- One set --------------------------------------------------------------------------- */

static void log_set(struct qn_aggregator *aggregator, quern_log_level level, const char *message,
                    const struct qn_group_set *set, const char *error)
{
    QN_LOG(aggregator->spec.log, level, message, QN_LOG_TEXT("queue", set->queue),
           QN_LOG_TEXT("group", set->group), QN_LOG_NUMBER("tasks", set->count),
           QN_LOG_TEXT("error", error));
}

/* The members go back, unless that was done already. */
static void return_set(struct qn_aggregator *aggregator, struct quern_aggregation *aggregation)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    bool done = aggregator->given_up || aggregator->lost;
    (void)pthread_mutex_unlock(&aggregator->mutex);
    quern_error error = {0};
    quern_status status =
        done ? QUERN_OK : qn_broker_return_set(aggregator->spec.broker, aggregation->set, &error);
    if (status != QUERN_OK && status != QUERN_E_STALE) {
        log_set(aggregator, QUERN_LOG_WARN, "set not given back, its lease will run out",
                aggregation->set, error.text);
    }
}

static void note_failure(struct qn_aggregator *aggregator, struct quern_aggregation *aggregation)
{
    static const char *const reasons[] = {
        [QN_AGGREGATION_GOES_ON] = NULL,
        [QN_AGGREGATION_TIMEOUT] = "timeout",
        [QN_AGGREGATION_LEASE_LOST] = "lease lost",
        [QN_AGGREGATION_SHUTDOWN] = NULL,
    };
    const struct qn_group_set *set = aggregation->set;
    enum qn_aggregation_cancel reason = qn_aggregation_cancel_reason(aggregation);
    if (reason == QN_AGGREGATION_SHUTDOWN) {
        log_set(aggregator, QUERN_LOG_INFO, "tasks of a group given back", set, NULL);
        return;
    }
    int64_t rest_ms =
        qn_group_rests_fail(aggregator->rests, set->queue, set->group, qn_clock_mono_ns());
    const char *text = aggregation->error[0] != '\0' ? aggregation->error : NULL;
    QN_LOG(aggregator->spec.log, QUERN_LOG_WARN, "aggregator failed, its tasks go back",
           QN_LOG_TEXT("queue", set->queue), QN_LOG_TEXT("group", set->group),
           QN_LOG_NUMBER("tasks", set->count), QN_LOG_TEXT("cancelled", reasons[reason]),
           QN_LOG_NUMBER("rest_ms", rest_ms), QN_LOG_TEXT("error", text));
}

/* Calls the aggregator; true: the set is gone. */
static bool call(struct quern_aggregation *aggregation)
{
    const struct qn_group_entry *entry = &aggregation->entry;
    quern_outcome outcome =
        entry->aggregator(aggregation, aggregation->members, aggregation->set->count, entry->user);
    if (aggregation->stored) {
        return true;
    }
    if (outcome == QUERN_DROP) {
        quern_error error = {0};
        quern_status status = qn_aggregation_end(aggregation, NULL, &error);
        if (status != QUERN_OK) {
            (void)quern_aggregation_fail(aggregation, QUERN_RETRY, "tasks not deleted: %s",
                                         error.text);
        }
        return status == QUERN_OK;
    }
    if (outcome == QUERN_DONE && aggregation->error[0] == '\0') {
        (void)quern_aggregation_fail(aggregation, QUERN_RETRY, "it stored no task");
    }
    return false;
}

/* Other threads may use the set from now on, until `current` is NULL again. */
static void set_current(struct qn_aggregator *aggregator, struct quern_aggregation *current)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    while (current == NULL && aggregator->pins > 0) {
        (void)pthread_cond_wait(&aggregator->cond, &aggregator->mutex);
    }
    aggregator->current = current;
    aggregator->lost = false;
    aggregator->given_up = false;
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

static void work_on(struct qn_aggregator *aggregator, struct qn_group_set *set)
{
    const struct qn_group_entry *entry =
        qn_group_table_find(aggregator->spec.table, set->group); /* it was found before */
    struct quern_aggregation aggregation = {
        .broker = aggregator->spec.broker,
        .clock = aggregator->spec.clock,
        .stamp = &aggregator->stamp,
        .ids = &aggregator->ids,
        .launcher = aggregator->spec.launcher,
    };
    quern_error error = {0};
    quern_status status = qn_aggregation_init(&aggregation, set, entry, &error);
    if (entry->options.timeout_ms > 0) {
        aggregation.timeout_at_mono_ns =
            qn_clock_mono_ns() + entry->options.timeout_ms * QN_NS_PER_MS;
    }
    set_current(aggregator, &aggregation);
    bool gone = status == QUERN_OK && call(&aggregation);
    if (gone) {
        qn_group_rests_forget(aggregator->rests, set->queue, set->group);
        log_set(aggregator, QUERN_LOG_DEBUG,
                aggregation.stored ? "group aggregated" : "tasks of a group dropped", set, NULL);
    } else {
        if (status != QUERN_OK) {
            (void)quern_aggregation_fail(&aggregation, QUERN_RETRY, "%s", error.text);
        }
        return_set(aggregator, &aggregation);
        note_failure(aggregator, &aggregation);
    }
    set_current(aggregator, NULL);
    qn_aggregation_finish(&aggregation);
    aggregator->spec.on_settled(aggregator->spec.user);
}

/* --- Rounds ---------------------------------------------------------------------------- */

static bool choose_settings(const char *queue, const char *group,
                            struct qn_group_settings *ret_settings, void *user)
{
    struct round *round = user;
    struct qn_aggregator *aggregator = round->aggregator;
    struct qn_aggregator_queue *state = &aggregator->queues[round->queue];
    const struct qn_group_entry *entry = qn_group_table_find(aggregator->spec.table, group);
    if (entry == NULL) {
        if (!state->unserved_logged) {
            state->unserved_logged = true;
            QN_LOG(aggregator->spec.log, QUERN_LOG_WARN, "no aggregator here serves this group",
                   QN_LOG_TEXT("queue", queue), QN_LOG_TEXT("group", group));
        }
        return false;
    }
    int64_t rests_until = qn_group_rests_until(aggregator->rests, queue, group, qn_clock_mono_ns());
    if (rests_until != 0) {
        round->waiting = round->waiting || !aggregator->spec.ignores_rests;
        round->until_mono_ns =
            rests_until < round->until_mono_ns ? rests_until : round->until_mono_ns;
        return false;
    }
    *ret_settings = (struct qn_group_settings){
        .max_size = entry->options.max_size,
        .max_delay_ms = entry->options.max_delay_ms,
        .grace_ms = entry->options.grace_ms,
    };
    return true;
}

static void note_unusable(const struct qn_unusable *unusable, void *user)
{
    const struct round *round = user;
    const struct qn_aggregator_spec *spec = &round->aggregator->spec;
    spec->on_unusable(unusable, spec->user);
}

static bool may_take(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    bool stopped = aggregator->stopped || aggregator->ended;
    (void)pthread_mutex_unlock(&aggregator->mutex);
    return !stopped && aggregator->spec.may_take(aggregator->spec.user);
}

static bool any_fails(const struct qn_aggregator *aggregator)
{
    bool fails = false;
    for (size_t i = 0; !fails && i < aggregator->spec.queues.count; i++) {
        fails = aggregator->queues[i].fails;
    }
    return fails;
}

/* An outage ends when no queue fails any more; else it would begin and end with each round. */
static void note_answer(struct round *round, quern_status status, const quern_error *error)
{
    struct qn_aggregator *aggregator = round->aggregator;
    const struct qn_aggregator_spec *spec = &aggregator->spec;
    aggregator->queues[round->queue].fails = status != QUERN_OK;
    if (status == QUERN_OK && any_fails(aggregator)) {
        return;
    }
    int64_t retry_at_mono_ns = spec->on_answer(status, error, spec->user);
    if (status != QUERN_OK && status != QUERN_E_CORRUPT) {
        round->until_mono_ns = retry_at_mono_ns;
    }
}

/* False: the broker did not answer. */
static bool serve_queue(struct round *round)
{
    struct qn_aggregator *aggregator = round->aggregator;
    const struct qn_aggregator_spec *spec = &aggregator->spec;
    struct qn_aggregator_queue *state = &aggregator->queues[round->queue];
    const struct qn_aggregate aggregate = {
        .queue = spec->queues.items[round->queue],
        .worker_id = spec->worker_id,
        .lease_ms = spec->lease_ms,
        .cursor = &state->cursor,
        .settings = choose_settings,
        .on_unusable = note_unusable,
        .user = round,
    };
    struct qn_aggregate_reply reply = {0};
    round->more = round->more || state->midway;
    while (!reply.end && reply.set == NULL && may_take(aggregator)) {
        quern_error error = {0};
        reply = (struct qn_aggregate_reply){0};
        quern_status status = qn_broker_aggregate(spec->broker, &aggregate, &reply, &error);
        note_answer(round, status, &error);
        if (status != QUERN_OK) {
            return status == QUERN_E_CORRUPT;
        }
        state->midway = !reply.end;
        round->waiting = round->waiting || reply.waiting;
        if (reply.next_ms < LOOK_MS) {
            int64_t due_mono_ns = qn_clock_mono_ns() + reply.next_ms * QN_NS_PER_MS;
            round->until_mono_ns =
                due_mono_ns < round->until_mono_ns ? due_mono_ns : round->until_mono_ns;
        }
    }
    round->more = round->more || reply.set != NULL || !reply.end;
    if (reply.set != NULL) {
        work_on(aggregator, reply.set);
    }
    return true;
}

static void publish(const struct round *round)
{
    struct qn_aggregator *aggregator = round->aggregator;
    bool empty = !round->more && !round->waiting;
    (void)pthread_mutex_lock(&aggregator->mutex);
    aggregator->empty_round_began_mono_ns = empty ? round->began_mono_ns : 0;
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

/* Returns until when there is nothing to do. */
static int64_t run_round(struct qn_aggregator *aggregator)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    struct round round = {
        .aggregator = aggregator,
        .began_mono_ns = now_mono_ns,
        .until_mono_ns = now_mono_ns + LOOK_MS * QN_NS_PER_MS,
    };
    bool answered = true;
    size_t first = aggregator->first;
    for (size_t i = 0; answered && i < aggregator->spec.queues.count; i++) {
        round.queue = (first + i) % aggregator->spec.queues.count;
        answered = serve_queue(&round);
        aggregator->first = answered ? first : round.queue + 1;
    }
    round.more = round.more || !answered;
    publish(&round);
    return answered && round.more && may_take(aggregator) ? 0 : round.until_mono_ns;
}

/* True: it has to end. */
static bool sleep_until(struct qn_aggregator *aggregator, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    bool in_time = until_mono_ns != 0;
    while (!aggregator->ended && !aggregator->look && in_time) {
        in_time = qn_cond_wait_until(&aggregator->cond, &aggregator->mutex, until_mono_ns);
    }
    aggregator->look = false;
    bool ended = aggregator->ended;
    (void)pthread_mutex_unlock(&aggregator->mutex);
    return ended;
}

void qn_aggregator_run(struct qn_aggregator *aggregator)
{
    while (!sleep_until(aggregator, run_round(aggregator))) {
    }
    (void)pthread_mutex_lock(&aggregator->mutex);
    aggregator->finished = true;
    (void)pthread_cond_broadcast(&aggregator->cond);
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

/* --- What other threads do ------------------------------------------------------------- */

/* With the mutex held: the set may be used without it, until unpin. NULL: none is held. */
static struct quern_aggregation *pin(struct qn_aggregator *aggregator)
{
    if (aggregator->current == NULL || aggregator->given_up || aggregator->lost) {
        return NULL;
    }
    aggregator->pins++;
    return aggregator->current;
}

static void unpin(struct qn_aggregator *aggregator)
{
    aggregator->pins--;
    (void)pthread_cond_broadcast(&aggregator->cond);
}

quern_status qn_aggregator_extend(struct qn_aggregator *aggregator, quern_error *err)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    struct quern_aggregation *aggregation = pin(aggregator);
    (void)pthread_mutex_unlock(&aggregator->mutex);
    if (aggregation == NULL) {
        return QUERN_OK;
    }
    struct qn_set_extension extension = {.set = aggregation->set, .held = true};
    /* After its timeout the lease may run out: others need not wait for one that hangs. */
    bool extends = qn_aggregation_cancel_reason(aggregation) != QN_AGGREGATION_TIMEOUT &&
                   !QN_BUG(SET_NOT_EXTENDED);
    quern_status status = !extends ? QUERN_OK
                                   : qn_broker_extend_sets(aggregator->spec.broker, &extension, 1,
                                                           aggregator->spec.lease_ms, err);
    bool lost = status == QUERN_OK && !extension.held && !atomic_load(&aggregation->ends);
    if (lost) {
        log_set(aggregator, QUERN_LOG_WARN, "lease of a set lost", aggregation->set, NULL);
        qn_aggregation_cancel(aggregation, QN_AGGREGATION_LEASE_LOST);
    }
    (void)pthread_mutex_lock(&aggregator->mutex);
    aggregator->lost = aggregator->lost || lost;
    unpin(aggregator);
    (void)pthread_mutex_unlock(&aggregator->mutex);
    return status;
}

void qn_aggregator_check_timeout(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    struct quern_aggregation *current = aggregator->current;
    if (current != NULL && current->timeout_at_mono_ns != 0 &&
        qn_clock_mono_ns() >= current->timeout_at_mono_ns) {
        qn_aggregation_cancel(current, QN_AGGREGATION_TIMEOUT);
    }
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

void qn_aggregator_wake(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    aggregator->look = true;
    (void)pthread_cond_broadcast(&aggregator->cond);
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

int64_t qn_aggregator_empty_since(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    int64_t since = aggregator->current == NULL ? aggregator->empty_round_began_mono_ns : 0;
    (void)pthread_mutex_unlock(&aggregator->mutex);
    return since;
}

bool qn_aggregator_is_busy(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    bool busy = aggregator->current != NULL && !aggregator->given_up;
    (void)pthread_mutex_unlock(&aggregator->mutex);
    return busy;
}

void qn_aggregator_stop(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    aggregator->stopped = true;
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

void qn_aggregator_cancel(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    if (aggregator->current != NULL) {
        qn_aggregation_cancel(aggregator->current, QN_AGGREGATION_SHUTDOWN);
    }
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

bool qn_aggregator_give_up(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    struct quern_aggregation *aggregation = pin(aggregator);
    if (aggregation != NULL) {
        aggregator->given_up = true;
        atomic_store(&aggregation->abandoned, true);
    }
    (void)pthread_mutex_unlock(&aggregator->mutex);
    if (aggregation == NULL) {
        return false;
    }
    quern_error error = {0};
    quern_status status = qn_broker_return_set(aggregator->spec.broker, aggregation->set, &error);
    if (status != QUERN_OK && status != QUERN_E_STALE) {
        log_set(aggregator, QUERN_LOG_WARN, "set not given back, its lease will run out",
                aggregation->set, error.text);
    }
    (void)pthread_mutex_lock(&aggregator->mutex);
    unpin(aggregator);
    (void)pthread_mutex_unlock(&aggregator->mutex);
    return true;
}

void qn_aggregator_end(struct qn_aggregator *aggregator)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    aggregator->ended = true;
    (void)pthread_cond_broadcast(&aggregator->cond);
    (void)pthread_mutex_unlock(&aggregator->mutex);
}

bool qn_aggregator_wait(struct qn_aggregator *aggregator, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&aggregator->mutex);
    bool in_time = true;
    while (!aggregator->finished && (in_time || aggregator->current == NULL)) {
        int64_t until = in_time ? until_mono_ns : INT64_MAX;
        in_time = qn_cond_wait_until(&aggregator->cond, &aggregator->mutex, until) && in_time;
    }
    bool finished = aggregator->finished;
    (void)pthread_mutex_unlock(&aggregator->mutex);
    return finished;
}
