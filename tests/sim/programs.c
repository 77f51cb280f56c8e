/* SPDX-License-Identifier: MIT */
/* programs.c - what runs in a simulated process: a worker with its handlers, or a client.
 *
 * Both are the library as it is. A supervisor starts a worker again when its process has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "worker/run/execute.h"
#include "world.h"

enum { REST_MS = 25, PAYLOAD_SIZE = 16 };

/* --- Handlers --------------------------------------------------------------------------- */

void __wrap_qn_execute_item(struct qn_pool_item *item);
void __real_qn_execute_item(struct qn_pool_item *item);

void __wrap_qn_execute_item(struct qn_pool_item *item)
{
    sim_mark();
    __real_qn_execute_item(item);
}

/* Until the time is over, or the process ends, or the run is cancelled. */
static void work(const quern_run *run, int64_t ms, bool obeys)
{
    int64_t until_ns = sim_now_ns() + ms * SIM_NS_PER_MS;
    while (!sim_self()->dead && sim_now_ns() < until_ns && !(obeys && quern_run_cancelled(run))) {
        int64_t left_ms = (until_ns - sim_now_ns()) / SIM_NS_PER_MS + 1;
        sim_sleep_ms(left_ms < REST_MS ? left_ms : REST_MS);
    }
}

static quern_outcome done_unless_cancelled(const quern_run *run)
{
    return quern_run_cancelled(run) ? QUERN_RETRY : QUERN_DONE;
}

static quern_outcome act(quern_run *run, struct sim_task *task)
{
    bool is_first = task->runs <= 1;
    switch (task->kind) {
    case SIM_WORK:
        work(run, task->run_ms, true);
        return done_unless_cancelled(run);
    case SIM_FAIL:
        work(run, task->run_ms, true);
        return quern_run_retry_count(run) < task->ends_before ? QUERN_RETRY
                                                              : done_unless_cancelled(run);
    case SIM_SNOOZE:
        work(run, task->run_ms, true);
        return task->runs <= task->ends_before ? quern_run_again_in(run, task->run_ms)
                                               : done_unless_cancelled(run);
    case SIM_EARLY:
        work(run, task->run_ms, true);
        return sim_chance(500) ? QUERN_DONE : QUERN_RETRY; /* ignored */
    case SIM_ARCHIVE:
        work(run, task->run_ms, true);
        return QUERN_ARCHIVE;
    case SIM_DROP:
        work(run, task->run_ms, true);
        return QUERN_DROP;
    case SIM_SLOW:
        work(run, is_first ? 20 * task->timeout_ms : task->run_ms, true);
        return done_unless_cancelled(run);
    case SIM_HANG:
        work(run, is_first ? 20 * task->timeout_ms : 1, false);
        return QUERN_DONE;
    case SIM_KILL:
    case SIM_KINDS:
        work(run, task->run_ms, false);
        task->quiet_kills += sim_world.is_quiet && !sim_self()->dead ? 1 : 0;
        sim_kill(sim_self(), "its handler");
        break;
    }
    return QUERN_DONE;
}

/* Some runs leave a payload for the next one, which may be meant for another queue. */
static void leave_stage(quern_run *run, const struct sim_task *task, quern_outcome outcome)
{
    char text[32];
    quern_error err = {0};
    bool goes_on = outcome == QUERN_RETRY || outcome == QUERN_SNOOZE;
    if (!goes_on || (sim_chance(300) && !quern_run_cancelled(run))) {
        return;
    }
    const struct sim_queue *queue = sim_queue_of(quern_run_queue(run));
    if (task->roams && sim_chance(800)) {
        queue = &sim_model.queues[sim_below(sim_model.queue_count)];
        quern_status moved = quern_run_change_queue(run, queue->name, &err);
        QN_ASSERT(moved == QUERN_OK);
    }
    (void)snprintf(text, sizeof text, "stage %d for %d", task->runs,
                   (int)(queue - sim_model.queues));
    quern_status status = quern_run_change_payload(run, text, strlen(text), &err);
    QN_ASSERT(status == QUERN_OK);
}

static quern_outcome handle(quern_run *run, const quern_task *given, void *user)
{
    struct sim_task *task = sim_task_of(given->id);
    struct sim_process *process = sim_self();
    uint64_t token = quern_run_fence(run);
    (void)user;
    if (process->dead) {
        return QUERN_RETRY;
    }
    sim_model_run_begins(process, task, token, sim_marked_ns());
    quern_outcome outcome = act(run, task);
    if (!process->dead && process->host == sim_world.broken_host && !sim_world.is_quiet) {
        sim_kill(process, "its broken host");
    }
    if (!process->dead) {
        leave_stage(run, task, outcome);
        sim_model_run_ends(process, task, token, outcome == QUERN_DONE);
    }
    return outcome;
}

/* --- Workers ---------------------------------------------------------------------------- */

static void trace_log(quern_log_level level, const char *line, void *user)
{
    const struct sim_program *program = user;
    if (level > QUERN_LOG_DEBUG && !program->process.dead) {
        sim_trace("%s logs: %s", program->name, line);
    }
}

static quern_status open_worker(struct sim_program *program, const quern_mux *mux, quern_error *err)
{
    static const char *const hosts[SIM_HOSTS_MAX] = {"alpha", "beta"};
    quern_queue queues[SIM_QUEUES_MAX] = {{0}};
    for (int i = 0; i < sim_model.queue_count; i++) {
        queues[i] = (quern_queue){.name = sim_model.queues[i].name, .weight = (uint32_t)i + 1};
    }
    const quern_worker_options options = {
        .queues = queues,
        .queue_count = (size_t)sim_model.queue_count,
        .concurrency = sim_world.slots,
        .lease_ms = sim_world.lease_ms,
        .shutdown_timeout_ms = sim_world.shutdown_ms,
        .quarantine_after_ms = 500,
        .retry = QUERN_BACKOFF_EXPONENTIAL(200, 2000),
        .on_log = trace_log,
        .user = program,
        .host = hosts[program->process.host],
    };
    return quern_worker_new(SIM_URL, mux, &options, &program->worker, err);
}

static void *run_worker(void *argument)
{
    struct sim_program *program = argument;
    quern_mux *mux = NULL;
    quern_error err = {0};
    quern_status status = quern_mux_new(&mux, &err);
    if (status == QUERN_OK) {
        const quern_handler_options options = {.prefetch_max = sim_world.prefetch_max};
        status = quern_mux_handle(mux, "*", handle, NULL, &options, &err);
    }
    if (status == QUERN_OK) {
        const quern_handler_options early = {.ack = QUERN_ACK_EARLY};
        status = quern_mux_handle(mux, "early", handle, NULL, &early, &err);
    }
    if (status == QUERN_OK) {
        status = open_worker(program, mux, &err);
    }
    if (status != QUERN_OK) {
        sim_fail("%s does not start: %s", program->name, err.text);
    }
    sim_trace("%s starts", program->name);
    status = program->process.dead ? QUERN_OK : quern_worker_run(program->worker, &err);
    quern_worker *worker = program->worker;
    program->worker = NULL;
    if (!program->process.dead) {
        sim_trace("%s ends: %s", program->name, quern_status_name(status));
        sim_die(&program->process);
        program->died_at_ms = sim_wall_ms();
    }
    quern_worker_free(worker);
    quern_mux_free(mux);
    return NULL;
}

void *sim_supervise(void *slot)
{
    int number = *(const int *)slot;
    while (!sim_world.is_over) {
        struct sim_program *program = sim_program_new("worker", number % sim_world.hosts);
        sim_world.running[number] = program;
        sim_join(sim_spawn(&program->process, run_worker, program));
        sim_world.running[number] = NULL;
        sim_sleep_ms(sim_below(sim_world.restart_ms_max + 1));
    }
    return NULL;
}

/* --- Clients ---------------------------------------------------------------------------- */

void sim_make_task(struct sim_task *task, enum sim_kind kind)
{
    int index = (int)(task - sim_model.tasks);
    bool takes_time = kind == SIM_SLOW || kind == SIM_HANG;
    *task = (struct sim_task){
        .kind = kind,
        .queue = (int)sim_below(sim_model.queue_count),
        .retry_max = sim_chance(200) ? sim_below(3) : 25,
        .timeout_ms = takes_time ? sim_between(100, 400) : 60000,
        .retention_ms = sim_chance(500) ? 3600000 : 0,
        .delay_ms = sim_chance(250) ? sim_between(1, 4000) : 0,
        .run_ms = sim_chance(300) ? sim_between(0, 2000) : sim_between(0, 50),
        .ends_before = (int)sim_between(1, 3),
    };
    (void)snprintf(task->id, sizeof task->id, "t%d", index);
    if (sim_chance(100) && kind != SIM_EARLY) { /* a key is that of the type, too */
        task->key = (int)sim_between(1, SIM_KEYS_MAX);
        task->queue = task->key % sim_model.queue_count;
    }
    task->roams = task->key == 0 && sim_chance(800);
}

static enum sim_kind draw_kind(void)
{
    int sum = 0;
    for (int i = 0; i < SIM_KINDS; i++) {
        sum += sim_world.kinds[i];
    }
    int64_t drawn = sim_below(sum);
    int kind = 0;
    while (drawn >= sim_world.kinds[kind]) {
        drawn -= sim_world.kinds[kind++];
    }
    return (enum sim_kind)kind;
}

/* The answer that the client gets must agree with what is stored. */
static void check_answer(const struct sim_task *task, bool was_there, quern_status status)
{
    bool is_there = task->state != SIM_ABSENT;
    sim_trace("%s gets the answer for %s: %s", sim_self()->name, task->id,
              quern_status_name(status));
    if (status == QUERN_OK && !is_there) {
        sim_fail("promise 1: the enqueue of %s returned ok, and nothing is stored", task->id);
    }
    if (status != QUERN_OK && status != QUERN_E_UNKNOWN && is_there && !was_there) {
        sim_fail("promise 5: the enqueue of %s returned %s, and it is stored", task->id,
                 quern_status_name(status));
    }
}

void sim_enqueue_one(quern_client *client, int index)
{
    struct sim_task *task = &sim_model.tasks[index];
    char payload[PAYLOAD_SIZE];
    int size = task->key != 0 ? snprintf(payload, sizeof payload, "key %d", task->key)
                              : snprintf(payload, sizeof payload, "%s", task->id);
    const quern_task wanted = {
        .type = task->kind == SIM_EARLY ? "early" : "work",
        .payload = payload,
        .payload_size = (size_t)size,
        .id = task->id,
        .queue = sim_model.queues[task->queue].name,
        .retry_max = task->retry_max == 0 ? QUERN_RETRY_NEVER : task->retry_max,
        .delay_ms = task->delay_ms,
        .timeout_ms = task->timeout_ms,
        .unique_ms = task->key != 0 ? 3600000 : 0,
        .retention_ms = task->retention_ms,
    };
    bool was_there = task->state != SIM_ABSENT;
    quern_status status = quern_client_enqueue(client, &wanted, NULL, NULL);
    if (!sim_self()->dead) {
        check_answer(task, was_there, status);
    }
}

void *sim_enqueue_all(void *number)
{
    int client_number = *(const int *)number;
    quern_client *client = NULL;
    quern_error err = {0};
    if (quern_client_open(SIM_URL, NULL, &client, &err) != QUERN_OK) {
        sim_fail("a client does not open: %s", err.text);
    }
    int64_t gap_ms = sim_world.chaos_ms * sim_world.clients / (sim_world.tasks + 1);
    for (int i = client_number; i < sim_world.tasks && !sim_self()->dead; i += sim_world.clients) {
        sim_make_task(&sim_model.tasks[i], draw_kind());
        sim_enqueue_one(client, i);
        int again = (int)sim_below(i + 1) / sim_world.clients * sim_world.clients + client_number;
        if (sim_chance(50) && !sim_model.tasks[again].roams) { /* else its id may be free here */
            sim_enqueue_one(client, again);
        }
        sim_sleep_ms(sim_chance(300) ? 2 * sim_below(gap_ms + 1) : 0);
    }
    quern_client_free(client);
    return NULL;
}
