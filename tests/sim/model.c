/* SPDX-License-Identifier: MIT */
/* model.c - what enqueues, exchanges and extensions may do to tasks. Deaths: model_deaths.c. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "lib_test.h"

enum { SESSIONS_MAX = 4096 };

/* The latest request of a session, and its answer. */
struct answer {
    uint64_t session;
    uint64_t sequence;
    size_t result_count;
    int results[QN_BATCH_MAX]; /* a status each, or of an exchange an enum qn_applied */
    size_t token_count;
    uint64_t tokens[QN_BATCH_MAX];
};

struct sim_model sim_model;
static struct answer answers[SESSIONS_MAX];
static size_t answer_count;

void sim_model_init(void)
{
    sim_model = (struct sim_model){.task_count = 0};
    answer_count = 0;
}

int64_t sim_boot_ms(void)
{
    return sim_now_ns() / SIM_NS_PER_MS;
}

struct sim_task *sim_task_of(const char *id)
{
    int index = -1;
    if (sscanf(id, "t%d", &index) != 1 || index < 0 || index >= sim_model.task_count) {
        sim_fail("an unknown task: %s", id);
        return NULL;
    }
    return &sim_model.tasks[index];
}

struct sim_queue *sim_queue_of(const char *name)
{
    for (int i = 0; i < sim_model.queue_count; i++) {
        if (strcmp(sim_model.queues[i].name, name) == 0) {
            return &sim_model.queues[i];
        }
    }
    sim_fail("an unknown queue: %s", name);
    return NULL;
}

/* The latest answer of this session; a new one where there is none. */
static struct answer *answer_of(struct qn_stamp stamp)
{
    for (size_t i = 0; i < answer_count; i++) {
        if (answers[i].session == stamp.session) {
            return &answers[i];
        }
    }
    QN_ASSERT(answer_count < SESSIONS_MAX);
    answers[answer_count] = (struct answer){.session = stamp.session};
    return &answers[answer_count++];
}

/* Promise 5: the same request a second time has the same answer, and changes nothing. */
static bool is_replay(const struct answer *answer, struct qn_stamp stamp)
{
    if (stamp.sequence != 0 && answer->sequence == stamp.sequence) {
        sim_model.events[SIM_REPLAY]++;
        return true;
    }
    if (answer->sequence > stamp.sequence) {
        sim_fail("session %" PRIx64 " goes back to request %" PRIu64, stamp.session,
                 stamp.sequence);
    }
    return false;
}

/* --- Enqueue ---------------------------------------------------------------------------- */

static quern_status expect_enqueue(const struct sim_task *task)
{
    if (task->key != 0 && sim_model.keys[task->key] != 0) {
        return QUERN_E_DUPLICATE;
    }
    bool is_gone = task->state == SIM_ABSENT || task->state == SIM_DROPPED ||
                   (task->state == SIM_DONE && task->retention_ms == 0);
    return is_gone ? QUERN_OK : QUERN_E_CONFLICT;
}

/* A new task, also if one with the same id was done before. */
static void store(struct sim_task *task, const struct qn_task *stored)
{
    task->state = SIM_WAITING;
    task->token = 0;
    task->cause = QUERN_CAUSE_NONE;
    task->retry_count = task->charges = task->lone = 0;
    task->leases = 0;
    task->stage = (struct sim_stage){.number = 0};
    task->due_at_ms = stored->process_at_ms; /* by the clock of the client, earlier */
    sim_model_lock(task);
}

void sim_model_enqueue(const struct qn_enqueue *enqueue)
{
    struct answer *answer = answer_of(enqueue->stamp);
    bool replay = is_replay(answer, enqueue->stamp);
    for (size_t i = 0; i < enqueue->count; i++) {
        struct sim_task *task = sim_task_of(enqueue->tasks[i].id);
        quern_status expected = replay ? (quern_status)answer->results[i] : expect_enqueue(task);
        sim_trace("%s enqueue %s%s: %s", sim_self()->name, task->id, replay ? " again" : "",
                  quern_status_name(enqueue->results[i]));
        if (enqueue->results[i] != expected) {
            sim_fail("promise 5: enqueue of %s is %s, and should be %s", task->id,
                     quern_status_name(enqueue->results[i]), quern_status_name(expected));
        }
        if (!replay && expected == QUERN_OK) {
            store(task, &enqueue->tasks[i]);
        }
        answer->results[i] = (int)expected;
    }
    answer->sequence = enqueue->stamp.sequence;
}

/* What was seen of this lease; of one that is too long ago: nothing. */
static struct sim_lease *lease_of(struct sim_task *task, uint64_t token)
{
    static struct sim_lease none;
    for (size_t i = 0; i < TEST_COUNT(task->past); i++) {
        if (task->past[i].token == token) {
            return &task->past[i];
        }
    }
    none = (struct sim_lease){.token = token};
    return &none;
}

/* --- Outcomes --------------------------------------------------------------------------- */

static void leave(struct sim_task *task, enum sim_state state)
{
    task->state = state;
    task->holder = NULL;
    task->started = false;
    task->is_probe = false;
    task->lease_until_ms = 0;
}

static void finish(struct sim_task *task, enum sim_state state)
{
    leave(task, state);
    sim_model_unlock(task);
}

void sim_model_archive(struct sim_task *task)
{
    leave(task, SIM_ARCHIVED); /* its lock is kept */
    sim_model.queues[task->queue].processed++;
    sim_model.queues[task->queue].failed++;
}

static bool holds(const struct sim_task *task, uint64_t token)
{
    return task->state == SIM_ACTIVE && task->token == token;
}

/* Promise 4: what the broker must make of an outcome. */
static enum qn_applied expect_outcome(const struct sim_task *task, const struct qn_outcome *outcome)
{
    bool spent = task->retry_count >= task->retry_max;
    if (outcome->kind == QN_ENDED) {
        return QN_APPLIED;
    }
    if (holds(task, outcome->run->token)) {
        return outcome->kind == QN_RETRY && spent ? QN_ARCHIVED : QN_APPLIED;
    }
    bool waits =
        task->state == SIM_WAITING && task->token == outcome->run->token &&
        (task->cause == QUERN_CAUSE_LEASE_EXPIRED || task->cause == QUERN_CAUSE_WORKER_DIED);
    return outcome->kind == QN_DONE && waits ? QN_SALVAGED : QN_STALE;
}

static void wait_again(struct sim_task *task, int64_t delay_ms, quern_cause cause)
{
    leave(task, SIM_WAITING);
    sim_model_lock(task);
    task->due_at_ms = sim_wall_ms() + delay_ms;
    task->cause = cause;
}

static void give_back(struct sim_task *task, const struct qn_outcome *outcome)
{
    bool inherits = !outcome->started && task->cause != QUERN_CAUSE_NONE;
    quern_cause cause = inherits ? task->cause : QUERN_CAUSE_GIVEN_BACK;
    if (outcome->cause != cause) {
        sim_fail("promise 3: %s was given back as %s instead of %s", task->id,
                 quern_cause_name(outcome->cause), quern_cause_name(cause));
    }
    wait_again(task, 0, cause);
}

/* An outcome that was applied, or salvaged. */
static void apply(struct sim_process *process, struct sim_task *task,
                  const struct qn_outcome *outcome, bool is_leaving)
{
    struct sim_queue *queue = &sim_model.queues[task->queue];
    bool releases = outcome->started && !is_leaving && outcome->kind != QN_GIVE_BACK;
    sim_model_take_change(task, outcome);
    switch (outcome->kind) {
    case QN_DONE:
        if (!lease_of(task, outcome->run->token)->done && task->kind != SIM_EARLY) {
            sim_fail("promise 1: %s is done, and no handler returned that", task->id);
        }
        queue->processed++;
        lease_of(task, outcome->run->token)->acked = true;
        finish(task, SIM_DONE);
        break;
    case QN_DROP:
        queue->processed++;
        finish(task, SIM_DROPPED);
        break;
    case QN_RETRY:
        if (task->retry_count >= task->retry_max) {
            sim_model_archive(task);
        } else {
            queue->processed++;
            queue->failed++;
            task->retry_count++;
            wait_again(task, outcome->delay_ms, QUERN_CAUSE_RETRY);
            task->token = 0; /* nothing is left to salvage */
        }
        break;
    case QN_SNOOZE:
        wait_again(task, outcome->delay_ms, QUERN_CAUSE_SNOOZE);
        task->token = 0;
        break;
    case QN_ARCHIVE:
    case QN_CANCEL:
        sim_model_archive(task);
        break;
    case QN_GIVE_BACK:
        give_back(task, outcome);
        break;
    case QN_ENDED: /* it was acknowledged before */
        break;
    case QN_CRASH:
    case QN_ASIDE:
        sim_fail("%s ended with an outcome that no handler here returns", task->id);
        break;
    }
    if (releases) {
        sim_model_release(process, queue);
    }
}

static const char *kind_name(enum qn_outcome_kind kind)
{
    static const char *const names[] = {"done",      "drop",  "retry",  "snooze", "archive",
                                        "give back", "crash", "cancel", "aside",  "ended"};
    _Static_assert(sizeof names / sizeof names[0] == QN_OUTCOME_KINDS, "each kind has a name");
    return names[kind];
}

static void take_outcome(struct sim_process *process, const struct qn_exchange *exchange, size_t i,
                         enum qn_applied applied)
{
    static const char *const answers_of[] = {"applied", "stale", "salvaged", "archived", "unmoved"};
    const struct qn_outcome *outcome = &exchange->outcomes[i];
    struct sim_task *task = sim_task_of(outcome->run->task.id);
    enum qn_applied expected = expect_outcome(task, outcome);
    sim_trace("%s %s of %s by %" PRIu64 ": %s", process->name, kind_name(outcome->kind), task->id,
              outcome->run->token, answers_of[applied]);
    if (applied != expected) {
        sim_fail("promise 4: %s of %s by %s is %s, and should be %s", kind_name(outcome->kind),
                 task->id, process->name, answers_of[applied], answers_of[expected]);
    }
    sim_model.events[SIM_STALE] += applied == QN_STALE ? 1 : 0;
    sim_model.events[SIM_SALVAGED] += applied == QN_SALVAGED ? 1 : 0;
    if (applied != QN_STALE) {
        apply(process, task, outcome, exchange->is_leaving);
    }
}

/* --- Leases ----------------------------------------------------------------------------- */

static void note_lease(struct sim_task *task)
{
    size_t i = task->lease_count++ % TEST_COUNT(task->past);
    task->past[i] = (struct sim_lease){.token = task->token, .until_ms = task->lease_until_ms};
}

static void check_facts(const struct sim_task *task, const struct qn_leased *run)
{
    if (task->state != SIM_WAITING) {
        sim_fail("promise 1: %s is leased in state %d", task->id, (int)task->state);
    }
    if (task->due_at_ms > sim_wall_ms()) {
        sim_fail("%s is leased %" PRId64 " ms before it is due", task->id,
                 task->due_at_ms - sim_wall_ms());
    }
    if (run->token <= sim_model.last_token) {
        sim_fail("promise 4: token %" PRIu64 " of %s is no later than %" PRIu64, run->token,
                 task->id, sim_model.last_token);
    }
    if (run->retry_count != task->retry_count || run->crash_count != task->charges) {
        sim_fail("%s has %" PRId64 " retries and %" PRId64 " charges, and should have %" PRId64
                 " and %" PRId64,
                 task->id, run->retry_count, run->crash_count, task->retry_count, task->charges);
    }
    sim_model_check_stage(task, run);
    if (run->cause != task->cause || (task->leases > 0 && run->cause == QUERN_CAUSE_NONE)) {
        sim_fail("promise 3: %s runs again by cause %s, and should by %s", task->id,
                 quern_cause_name(run->cause), quern_cause_name(task->cause));
    }
    if (sim_model.queues[task->queue].paused) {
        sim_fail("%s is leased from a paused queue", task->id);
    }
}

static void take_lease(struct sim_process *process, const struct qn_exchange *exchange,
                       const struct qn_leased *run, int leased_of_queue)
{
    struct sim_task *task = sim_task_of(run->task.id);
    sim_trace("%s leases %s by %" PRIu64 "%s%s, retries %" PRId64 ", charges %" PRId64 ", cause %s",
              process->name, task->id, run->token, run->started ? ", started" : "",
              exchange->solo == QN_SOLO_RUN ? ", alone" : "", run->retry_count, run->crash_count,
              quern_cause_name(run->cause));
    check_facts(task, run);
    sim_model.last_token = run->token;
    task->state = SIM_ACTIVE;
    task->holder = process;
    task->token = run->token;
    task->started = run->started;
    task->started_at_ms = sim_wall_ms();
    task->lease_until_ms = sim_boot_ms() + exchange->lease_ms;
    note_lease(task);
    sim_model_lock(task);
    task->leases++;
    sim_model_check_lease(process, task, exchange, leased_of_queue);
}

static void take_leases(struct sim_process *process, const struct qn_exchange *exchange,
                        const struct qn_exchange_reply *reply, struct answer *answer)
{
    int leased[SIM_QUEUES_MAX] = {0};
    answer->token_count = reply->run_count;
    if (reply->run_count > exchange->room) {
        sim_fail("%s asked for %u runs and got %zu", process->name, exchange->room,
                 reply->run_count);
    }
    for (size_t i = 0; i < reply->run_count; i++) {
        const struct sim_queue *queue = sim_queue_of(reply->runs[i]->task.queue);
        take_lease(process, exchange, reply->runs[i], ++leased[queue - sim_model.queues]);
        answer->tokens[i] = reply->runs[i]->token;
    }
}

/* The runs of an answer that was lost, as far as they are still leased. */
static void check_leases_again(const struct sim_process *process,
                               const struct qn_exchange_reply *reply, const struct answer *answer)
{
    size_t held = 0;
    for (size_t i = 0; i < answer->token_count; i++) {
        for (int t = 0; t < sim_model.task_count; t++) {
            held += holds(&sim_model.tasks[t], answer->tokens[i]) ? 1 : 0;
        }
    }
    for (size_t i = 0; i < reply->run_count; i++) {
        const struct sim_task *task = sim_task_of(reply->runs[i]->task.id);
        if (!holds(task, reply->runs[i]->token) || task->holder != process) {
            sim_fail("promise 4: %s gets %s again, which it no longer holds", process->name,
                     task->id);
        }
    }
    if (reply->run_count != held) {
        sim_fail("promise 1: %s holds %zu runs of its last request and gets %zu again",
                 process->name, held, reply->run_count);
    }
}

static void mark_started(const struct qn_leased *run)
{
    struct sim_task *task = sim_task_of(run->task.id);
    if (holds(task, run->token)) {
        task->started = true;
        task->started_at_ms = sim_wall_ms();
    }
}

void sim_model_exchange(struct sim_process *process, const struct qn_exchange *exchange,
                        const struct qn_exchange_reply *reply)
{
    struct answer *answer = answer_of(exchange->stamp);
    if (is_replay(answer, exchange->stamp)) {
        sim_trace("%s gets its answer again", process->name);
        for (size_t i = 0; i < exchange->outcome_count; i++) {
            if (answer->results[i] != (int)reply->applied[i]) {
                sim_fail("promise 5: %s gets another answer for the same request", process->name);
            }
        }
        check_leases_again(process, reply, answer);
        return;
    }
    for (size_t i = 0; i < exchange->outcome_count; i++) {
        take_outcome(process, exchange, i, reply->applied[i]);
        answer->results[i] = (int)reply->applied[i];
    }
    for (size_t i = 0; i < exchange->start_count; i++) {
        mark_started(exchange->starts[i]);
    }
    take_leases(process, exchange, reply, answer);
    sim_model_check_brakes(process, exchange);
    answer->sequence = exchange->stamp.sequence;
}

void sim_model_extend(struct sim_process *process, const struct qn_extension *extensions,
                      size_t count, int64_t lease_ms)
{
    for (size_t i = 0; i < count; i++) {
        struct sim_task *task = sim_task_of(extensions[i].run->task.id);
        bool held = holds(task, extensions[i].run->token);
        if (extensions[i].held != held) {
            sim_fail("promise 4: %s gets the answer that it %s %s", process->name,
                     extensions[i].held ? "holds" : "has lost", task->id);
        }
        if (held) {
            sim_model_lock(task);
            task->lease_until_ms = sim_boot_ms() + lease_ms;
            lease_of(task, task->token)->until_ms = task->lease_until_ms;
        }
    }
}

/* --- Handlers --------------------------------------------------------------------------- */

/* Whether a worker may have to go on without the end of its handler: that one then counts as none.
 * A task that kills its process does so in its time, cancelled or not. */
static bool ignores_cancellation(const struct sim_task *task)
{
    return task->kind == SIM_HANG || task->kind == SIM_KILL || task->kind == SIM_KINDS;
}

void sim_model_run_begins(struct sim_process *process, struct sim_task *task, uint64_t token,
                          int64_t entered_ns)
{
    sim_trace("%s runs %s by %" PRIu64, process->name, task->id, token);
    struct sim_lease *lease = lease_of(task, token);
    if (lease->begun) {
        sim_fail("promise 3: %s runs twice by token %" PRIu64, task->id, token);
    }
    /* A process that was stopped after it had read the clock may begin it all the same. */
    bool acked = task->kind == SIM_EARLY && lease->acked;
    if (!acked && !holds(task, token) && entered_ns / SIM_NS_PER_MS >= lease->until_ms) {
        sim_fail("promise 4: %s begins %s, and its lease was over before", process->name, task->id);
    }
    if (task->kind == SIM_EARLY && !lease->acked) {
        sim_fail("promise 3: %s runs before it is acknowledged", task->id);
    }
    lease->begun = true;
    task->runs++;
    sim_facts_of(process)->running += ignores_cancellation(task) ? 0 : 1;
}

void sim_model_run_ends(struct sim_process *process, struct sim_task *task, uint64_t token,
                        bool done)
{
    sim_trace("%s has run %s%s", process->name, task->id, done ? ", done" : "");
    sim_facts_of(process)->running -= ignores_cancellation(task) ? 0 : 1;
    lease_of(task, token)->done = done;
}

/* --- Records of workers ----------------------------------------------------------------- */

void sim_model_heartbeat(struct sim_process *process, const struct qn_heartbeat *heartbeat)
{
    struct sim_worker_facts *facts = sim_facts_of(process);
    facts->leaving =
        strcmp(heartbeat->status, "draining") == 0 || strcmp(heartbeat->status, "quiet") == 0;
    facts->heartbeat_at_ms = sim_wall_ms();
    facts->death_noted = false;
}

void sim_model_deregister(struct sim_process *process)
{
    sim_trace("%s deregisters", process->name);
    sim_facts_of(process)->deregistered = true;
}
