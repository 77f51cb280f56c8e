/* SPDX-License-Identifier: MIT */
/* upkeep.c - the calls of the keeper to the broker: heartbeat, recovery, due tasks, pruning, and a
 * warning about groups without an aggregator.
 *
 * Every call is bounded by a batch and a number of rounds, so that none of them holds up the other
 * timers for long; the next call does the rest. */
#include "worker/keeper/upkeep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory/alloc.h"
#include "broker/group.h"
#include "broker/listing.h"
#include "worker/internal.h"
#include "worker/keeper/weights.h"
#include "worker/run/mux.h"
#include "worker/run/stuck.h"

enum {
    ROUNDS_MAX = 8,
    FORWARD_BATCH = 256,
    RECOVER_BATCH = 256,
    RECLAIM_BATCH = QN_GROUP_SET_MAX,
    DUE_KNOWN_MS = QN_SAFETY_NET_MS + 500 /* the pump asks once in the first of these */
};

/* With mutex held. */
static const char *status_text(const struct quern_worker *worker)
{
    bool ends = worker->state == QN_WORKER_DRAINING || worker->state == QN_WORKER_STOPPED;
    if (ends && !worker->fallen) {
        return "draining";
    }
    if (atomic_load(&worker->quiet)) {
        return "quiet";
    }
    if (qn_stuck_has_no_slot(worker)) {
        return "stuck";
    }
    if (qn_beats_has_stalled(worker, qn_clock_mono_ns())) {
        return "stalled";
    }
    return worker->braked ? "braked" : "active";
}

/* The running runs, with the references that keep them readable without the mutex. */
struct running_list {
    struct qn_heartbeat_run *runs;
    struct quern_run **held;
    size_t count;
};

/* Out of memory the heartbeat names no runs; the next one will. */
static void list_running(struct quern_worker *worker, struct running_list *ret_list)
{
    struct running_list list = {0};
    (void)pthread_mutex_lock(&worker->mutex);
    size_t capacity = worker->run_table.running_count;
    if (capacity > 0) {
        list.runs = qn_alloc_zero(capacity, sizeof *list.runs);
        list.held = qn_alloc_zero(capacity, sizeof(struct quern_run *));
    }
    struct qn_list *held = &worker->run_table.held;
    struct qn_list *node = list.runs != NULL && list.held != NULL ? held->next : held;
    for (; node != held && list.count < capacity; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->phase != QN_RUN_RUNNING) {
            continue;
        }
        const struct qn_task *task = &run->leased->task;
        run->references++;
        list.held[list.count] = run;
        list.runs[list.count++] = (struct qn_heartbeat_run){
            .task_id = task->id,
            .task_type = task->type,
            .payload = task->payload,
            .payload_size = task->payload_size,
            .queue = task->queue,
            .started_at_ms = run->started_at_wall_ms,
            .deadline_at_ms = run->deadline_at_ms,
        };
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    *ret_list = list;
}

static void release_list(struct quern_worker *worker, struct running_list *list)
{
    qn_run_release_all(list->held, list->count, &worker->mutex);
    qn_free(list->held);
    qn_free(list->runs);
}

#define SERVED_SIZE 8192

/* How many handlers hang, for how many ms the pump has had no answer (-1: it never had one), and
 * the answer to the last command. */
static void describe_state(struct quern_worker *worker, char *text, size_t size)
{
    int64_t answered_at = atomic_load(&worker->beats.answered_at_mono_ns);
    int64_t age_ms = answered_at == 0 ? -1 : (qn_clock_mono_ns() - answered_at) / QN_NS_PER_MS;
    char answer[QN_COMMAND_ANSWER_SIZE + 32];
    qn_steer_write(worker, answer, sizeof answer);
    (void)snprintf(text, size, "%zu %" PRId64 " %s", qn_stuck_hung_count(worker), age_ms, answer);
}

/* The queues, the state, and the types if they fit; see QN_HEARTBEAT_SEPARATOR. The caller's; NULL:
 * out of memory. */
static char *describe_served(struct quern_worker *worker)
{
    size_t size = strlen(worker->queues_text) + SERVED_SIZE;
    char *text = qn_alloc(size);
    if (text == NULL) {
        return NULL;
    }
    char state[QN_COMMAND_ANSWER_SIZE + 96];
    describe_state(worker, state, sizeof state);
    int used = snprintf(text, size, "%s%c%s", worker->queues_text, QN_HEARTBEAT_SEPARATOR, state);
    QN_ASSERT(used > 0);
    if (!qn_mux_list(worker->mux, QN_HEARTBEAT_SEPARATOR, text + used, size - (size_t)used)) {
        text[used] = '\0';
    }
    return text;
}

quern_status qn_upkeep_heartbeat(struct quern_worker *worker, quern_error *err)
{
    (void)pthread_mutex_lock(&worker->mutex);
    const char *status_of_worker = status_text(worker);
    worker->heartbeat_due = false;
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_weights_refresh(worker);
    char *served = describe_served(worker);
    struct running_list list;
    list_running(worker, &list);
    const struct qn_heartbeat heartbeat = {
        .worker_id = worker->id,
        .owner = worker->owner,
        .host = worker->host,
        .status = status_of_worker,
        .queues = served != NULL ? served : worker->queues_text,
        .pid = worker->opener_pid,
        .started_at_ms = worker->started_at_ms,
        .concurrency = qn_worker_slots(worker),
        .strict = worker->options.strict_priority,
        .queue_shares = worker->queue_shares,
        .queue_count = worker->queue_count,
        .runs = list.runs,
        .run_count = list.count,
    };
    quern_status status = qn_broker_heartbeat(worker->broker, &heartbeat, err);
    release_list(worker, &list);
    qn_free(served);
    return status;
}

struct recovering {
    struct quern_worker *worker;
    size_t count;
};

static void note_recovery(const struct qn_recovery *recovery, void *user)
{
    struct recovering *recovering = user;
    recovering->count++;
    QN_LOG(&recovering->worker->log, QUERN_LOG_WARN, "task recovered",
           QN_LOG_TEXT("queue", recovery->queue), QN_LOG_TEXT("id", recovery->id),
           QN_LOG_TEXT("cause", quern_cause_name(recovery->cause)),
           QN_LOG_TEXT("death", recovery->charged ? "charged" : NULL),
           QN_LOG_TEXT("archived", recovery->archived ? "yes" : NULL));
    if (recovery->archived) {
        struct quern_worker *worker = recovering->worker;
        (void)pthread_mutex_lock(&worker->mutex);
        worker->stats.archived++;
        (void)pthread_mutex_unlock(&worker->mutex);
    }
}

/* There may be something to fetch for which the broker does not wake this process. */
static void wake_pump(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->look = true;
    qn_signals_wake_pump(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void note_recovered(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    if (!worker->has_recovered && worker->options.until_idle) {
        qn_signals_wake_pump(worker); /* it may have waited for this alone */
    }
    worker->has_recovered = true;
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Where the data of some queues is damaged, the others are recovered all the same. */
quern_status qn_upkeep_recover(struct quern_worker *worker, quern_error *err)
{
    struct recovering recovering = {.worker = worker, .count = RECOVER_BATCH};
    const struct qn_recovery_sink sink = {.on_recovery = note_recovery, .user = &recovering};
    quern_status status = QUERN_OK;
    for (int round = 0; round < ROUNDS_MAX && recovering.count == RECOVER_BATCH; round++) {
        size_t recovered;
        qn_beats_step(worker, QN_BEAT_KEEPER);
        recovering.count = 0;
        status = qn_broker_recover(worker->broker,
                                   (struct qn_upkeep){qn_worker_names(worker), RECOVER_BATCH},
                                   &sink, &recovered, err);
        if (recovering.count > 0) {
            wake_pump(worker);
        }
        if (status != QUERN_OK && status != QUERN_E_CORRUPT) {
            return status;
        }
    }
    note_recovered(worker);
    return status;
}

quern_status qn_upkeep_forward(struct quern_worker *worker, quern_error *err)
{
    (void)pthread_mutex_lock(&worker->mutex);
    int64_t since_ns = qn_clock_mono_ns() - worker->due_known_at_mono_ns;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (since_ns < DUE_KNOWN_MS * QN_NS_PER_MS) {
        return QUERN_OK; /* the pump does it */
    }
    size_t moved = FORWARD_BATCH;
    for (int round = 0; round < ROUNDS_MAX && moved == FORWARD_BATCH; round++) {
        int64_t next_due_at_ms;
        qn_beats_step(worker, QN_BEAT_KEEPER);
        quern_status status = qn_broker_forward(
            worker->broker, (struct qn_upkeep){qn_worker_names(worker), FORWARD_BATCH}, &moved,
            &next_due_at_ms, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (moved > 0) {
            wake_pump(worker);
        }
    }
    return QUERN_OK;
}

quern_status qn_upkeep_prune(struct quern_worker *worker, quern_error *err)
{
    size_t removed = QN_PRUNE_BATCH_MAX;
    quern_status status = QUERN_OK;
    for (int round = 0; round < ROUNDS_MAX && removed >= QN_PRUNE_BATCH_MAX; round++) {
        removed = 0;
        qn_beats_step(worker, QN_BEAT_KEEPER);
        status = qn_broker_prune(worker->broker,
                                 (struct qn_upkeep){qn_worker_names(worker), QN_PRUNE_BATCH_MAX},
                                 &removed, err);
    }
    return status;
}

quern_status qn_upkeep_check_groups(struct quern_worker *worker, quern_error *err)
{
    (void)err;
    if (worker->groups.served) {
        qn_aggregator_check_timeout(&worker->groups.aggregator);
    }
    return QUERN_OK;
}

quern_status qn_upkeep_reclaim_sets(struct quern_worker *worker, quern_error *err)
{
    size_t reclaimed = RECLAIM_BATCH;
    quern_status status = QUERN_OK;
    for (int round = 0; round < ROUNDS_MAX && status == QUERN_OK && reclaimed >= RECLAIM_BATCH;
         round++) {
        reclaimed = 0;
        qn_beats_step(worker, QN_BEAT_KEEPER);
        status = qn_broker_reclaim_sets(worker->broker,
                                        (struct qn_upkeep){qn_worker_names(worker), RECLAIM_BATCH},
                                        &reclaimed, err);
        if (reclaimed > 0) {
            QN_LOG(&worker->log, QUERN_LOG_INFO, "tasks of dead aggregators back in their groups",
                   QN_LOG_NUMBER("tasks", reclaimed));
        }
        if (reclaimed > 0 && worker->groups.served) {
            qn_aggregator_wake(&worker->groups.aggregator);
        }
    }
    return status;
}

static bool note_groups(const quern_queue_info *queue, void *user)
{
    struct quern_worker *worker = user;
    for (size_t i = 0; i < worker->queue_count; i++) {
        if (strcmp(worker->queue_names[i], queue->name) == 0) {
            worker->keeper.group_notes[i].tasks = queue->counts[QUERN_TASK_AGGREGATING];
            worker->keeper.group_notes[i].groups = queue->group_count;
        }
    }
    return true;
}

quern_status qn_upkeep_warn_groups(struct quern_worker *worker, quern_error *err)
{
    if (worker->groups.served) {
        return QUERN_OK; /* it logs the groups for which it has no aggregator */
    }
    const struct qn_names names = qn_worker_names(worker);
    quern_status status = qn_broker_queues(worker->broker, &names, note_groups, worker, err);
    if (status != QUERN_OK) {
        return status;
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        struct qn_group_note *note = &worker->keeper.group_notes[i];
        if (note->tasks > 0 && !note->logged) {
            note->logged = true;
            QN_LOG(&worker->log, QUERN_LOG_WARN, "no aggregator serves the groups of this queue",
                   QN_LOG_TEXT("queue", worker->queue_names[i]),
                   QN_LOG_NUMBER("groups", note->groups), QN_LOG_NUMBER("tasks", note->tasks));
        }
    }
    return QUERN_OK;
}
