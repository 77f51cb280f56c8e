/* SPDX-License-Identifier: MIT */
/* world.c - chooses a world, injects faults for a while, and then lets all tasks end.
 *
 * Each seed uses only some of the faults, each at a rate of its own: with all of them at once few
 * tasks would get far enough. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "broker/inspect.h"

enum { MOMENT_MS_MAX = 1000, WATCH_MS = 100, HELP_MS = 500, QUIET_MS_MAX = 300000 };

struct sim_world sim_world;
static struct sim_program programs[SIM_PROCESSES_MAX];
static int program_count;
/* Of all seeds. */
static struct {
    int64_t seeds, programs, tasks, runs, rest_ms_max, quiet_ms, kills_max;
    int64_t events[SIM_EVENTS];
} totals;
static const char *const event_names[SIM_EVENTS] = {
    [SIM_CHARGED] = "charged deaths",
    [SIM_LONE] = "lone deaths",
    [SIM_UNCHARGED] = "deaths without a charge",
    [SIM_EXPIRED] = "expired leases",
    [SIM_SPENT] = "tasks without attempts left",
    [SIM_POISON] = "poison tasks",
    [SIM_BESIDE] = "charged runs beside others",
    [SIM_ALONE] = "runs alone",
    [SIM_BRAKED] = "brakes",
    [SIM_PROBE] = "probes",
    [SIM_RELEASED] = "ended brakes",
    [SIM_SALVAGED] = "salvaged outcomes",
    [SIM_STALE] = "stale outcomes",
    [SIM_REPLAY] = "repeated requests",
    [SIM_STAGE] = "runs from a checkpoint",
    [SIM_MOVED] = "moves to another queue",
    [SIM_GIVEN_AWAY] = "of them by a worker that ends",
};

/* --- Processes -------------------------------------------------------------------------- */

struct sim_program *sim_program_new(const char *kind, int host)
{
    QN_ASSERT(program_count < SIM_PROCESSES_MAX);
    struct sim_program *program = &programs[program_count++];
    *program = (struct sim_program){.process = {.number = program_count, .host = host}};
    (void)snprintf(program->name, sizeof program->name, "%s %d", kind, program_count);
    program->process.name = program->name;
    return program;
}

struct sim_program *sim_program_of(const struct sim_process *process)
{
    return &programs[process->number - 1];
}

struct sim_process *sim_process_of(int number)
{
    return number >= 1 && number <= program_count ? &programs[number - 1].process : NULL;
}

struct sim_worker_facts *sim_facts_of(struct sim_process *process)
{
    return &sim_program_of(process)->facts;
}

bool sim_sees(const struct sim_process *from, const struct sim_process *to)
{
    return from->host == to->host || sim_world.hosts_see;
}

void sim_kill(struct sim_process *process, const char *why)
{
    struct sim_program *program = sim_program_of(process);
    if (process->dead) {
        return;
    }
    sim_trace("%s dies by %s", process->name, why);
    program->died_at_ms = sim_wall_ms();
    sim_die(process);
    for (int i = 0; program->worker != NULL && i < 4; i++) {
        quern_worker_stop(program->worker); /* its threads run down */
    }
}

/* --- Choosing --------------------------------------------------------------------------- */

static int rate(int permille_of_seeds, int most)
{
    return sim_chance(permille_of_seeds) ? (int)sim_between(1, most) : 0;
}

static void choose_faults(struct sim_world *world)
{
    world->paused = rate(400, 30);
    world->killed = rate(400, 30);
    world->worker_stopped = rate(500, 30);
    world->worker_quiet = rate(150, 20);
    world->queue_paused = rate(200, 20);
    world->operated = rate(250, 40);
    world->faults = (struct sim_faults){
        .refused = rate(400, 100),
        .lost = rate(400, 100),
        .slow = rate(300, 20),
        .slow_ms = (int)sim_between(10, 2 * world->lease_ms),
        .dies_before = rate(250, 10),
        .dies_after = rate(250, 10),
    };
    world->broken_host = sim_chance(100) ? (int)sim_below(world->hosts) : -1;
    world->kinds[SIM_WORK] = 20;
    world->kinds[SIM_FAIL] = rate(600, 10);
    world->kinds[SIM_SNOOZE] = rate(300, 5);
    world->kinds[SIM_ARCHIVE] = rate(300, 3);
    world->kinds[SIM_DROP] = rate(300, 3);
    world->kinds[SIM_EARLY] = rate(200, 5);
    world->kinds[SIM_SLOW] = rate(300, 5);
    world->kinds[SIM_HANG] = rate(200, 3);
    world->kinds[SIM_KILL] = rate(300, 2);
    /* One that ignores its end would hold up the worker. */
    world->shutdown_ms = world->kinds[SIM_HANG] == 0 ? rate(700, 30) : 0;
}

void sim_world_choose(void)
{
    static const char *const names[SIM_QUEUES_MAX] = {"red", "green", "blue"};
    static const uint32_t slots[] = {1, 2, 4, 8, 8};
    static const int64_t leases_ms[] = {1000, 1000, 2000, 5000, 30000};
    struct sim_world *world = &sim_world;
    *world = (struct sim_world){
        .workers = (int)sim_between(1, SIM_WORKERS_MAX - 1),
        .clients = (int)sim_between(1, SIM_CLIENTS_MAX),
        .tasks = (int)sim_between(5, 60),
        .hosts = (int)sim_between(1, SIM_HOSTS_MAX),
        .hosts_see = sim_chance(500),
        .slots = slots[sim_below(5)],
        .prefetch_max = sim_chance(500) ? (int32_t)sim_between(1, 8) : 0,
        .lease_ms = leases_ms[sim_below(5)],
        .chaos_ms = sim_between(1000, 15000),
        .restart_ms_max = sim_chance(500) ? 0 : (int)sim_between(1, 1000),
    };
    world->hosts = world->hosts < world->workers ? world->hosts : world->workers;
    choose_faults(world);
    sim_model.queue_count = (int)sim_between(1, SIM_QUEUES_MAX);
    for (int i = 0; i < sim_model.queue_count; i++) {
        sim_model.queues[i].name = names[i];
    }
}

/* --- A seed ----------------------------------------------------------------------------- */

static void begin_quiet(struct qn_broker *broker)
{
    sim_trace("from here on all is quiet");
    sim_faults = (struct sim_faults){.refused = 0};
    sim_world.is_quiet = true;
    sim_world.quiet_at_ms = sim_wall_ms();
    sim_world.restart_ms_max = 100;
    sim_trouble_end(broker);
}

/* A task is poison only if others end well on its host, so some good tasks are enqueued. */
static void help(quern_client *client)
{
    if (sim_model.task_count < SIM_TASKS_MAX) {
        struct sim_task *task = &sim_model.tasks[sim_model.task_count++];
        sim_make_task(task, SIM_WORK);
        task->key = 0;
        task->delay_ms = 0;
        sim_enqueue_one(client, sim_model.task_count - 1);
    }
}

static void wait_for_rest(quern_client *client)
{
    int64_t helped_at_ms = 0;
    while (!sim_judge_all_ended()) {
        sim_judge_watch();
        if (sim_wall_ms() - helped_at_ms >= HELP_MS) {
            helped_at_ms = sim_wall_ms();
            help(client);
        }
        if (sim_wall_ms() - sim_world.quiet_at_ms > QUIET_MS_MAX) {
            sim_fail("promise 2: not all tasks have ended after %d s without faults",
                     QUIET_MS_MAX / 1000);
        }
        sim_sleep_ms(WATCH_MS);
    }
}

static void stop_all(void)
{
    sim_world.is_over = true;
    for (int i = 0; i < sim_world.workers; i++) {
        struct sim_program *program = sim_world.running[i];
        if (program != NULL && program->worker != NULL) {
            quern_worker_stop(program->worker);
        }
    }
}

static void live(struct qn_broker *broker, quern_client *client)
{
    int numbers[SIM_WORKERS_MAX + SIM_CLIENTS_MAX];
    struct sim_thread *supervisors[SIM_WORKERS_MAX];
    struct sim_thread *clients[SIM_CLIENTS_MAX];
    for (int i = 0; i < sim_world.workers; i++) {
        numbers[i] = i;
        supervisors[i] = sim_spawn(sim_self(), sim_supervise, &numbers[i]);
    }
    sim_model.task_count = sim_world.tasks;
    for (int i = 0; i < sim_world.clients; i++) {
        struct sim_program *program = sim_program_new("client", 0);
        numbers[SIM_WORKERS_MAX + i] = i;
        clients[i] = sim_spawn(&program->process, sim_enqueue_all, &numbers[SIM_WORKERS_MAX + i]);
    }
    int64_t until_ms = sim_wall_ms() + sim_world.chaos_ms;
    sim_faults = sim_world.faults;
    while (sim_wall_ms() < until_ms) {
        sim_sleep_ms(sim_between(1, MOMENT_MS_MAX));
        sim_trouble_make(broker);
    }
    begin_quiet(broker);
    for (int i = 0; i < sim_world.clients; i++) {
        sim_join(clients[i]);
    }
    wait_for_rest(client);
    stop_all();
    for (int i = 0; i < sim_world.workers; i++) {
        sim_join(supervisors[i]);
    }
}

static void direct(void *user)
{
    quern_client *client = NULL;
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    (void)user;
    sim_world_choose();
    quern_status status = quern_client_open(SIM_URL, NULL, &client, &err);
    if (status == QUERN_OK) {
        status = qn_broker_open(SIM_URL, NULL, &broker, &err);
    }
    if (status != QUERN_OK) {
        sim_fail("the broker does not open: %s", err.text);
    }
    live(broker, client);
    sim_judge_end(broker);
    qn_broker_close(broker);
    quern_client_free(client);
}

static void sum_up(void)
{
    totals.seeds++;
    totals.programs += program_count;
    for (int i = 0; i < SIM_EVENTS; i++) {
        totals.events[i] += sim_model.events[i];
    }
    int64_t rest_ms = sim_wall_ms() - sim_world.quiet_at_ms;
    totals.quiet_ms += rest_ms;
    totals.rest_ms_max = rest_ms > totals.rest_ms_max ? rest_ms : totals.rest_ms_max;
    for (int i = 0; i < sim_model.task_count; i++) {
        totals.tasks += sim_model.tasks[i].state != SIM_ABSENT ? 1 : 0;
        totals.runs += sim_model.tasks[i].runs;
        int kills = sim_model.tasks[i].quiet_kills;
        totals.kills_max = kills > totals.kills_max ? kills : totals.kills_max;
    }
}

void sim_world_print_summary(void)
{
    (void)printf("%" PRId64 " seeds: %" PRId64 " programs, %" PRId64 " tasks, %" PRId64
                 " runs; the way to rest took %" PRId64 " s, up to %" PRId64
                 " s; one task killed up to %" PRId64 " times\n",
                 totals.seeds, totals.programs, totals.tasks, totals.runs,
                 totals.quiet_ms / 1000 / (totals.seeds > 0 ? totals.seeds : 1),
                 totals.rest_ms_max / 1000, totals.kills_max);
    for (int i = 0; i < SIM_EVENTS; i++) {
        (void)printf("%8" PRId64 " %s\n", totals.events[i], event_names[i]);
    }
    sim_faults_print();
}

const char *sim_world_missing(void)
{
    for (int i = 0; i < SIM_EVENTS; i++) {
        if (totals.events[i] == 0) {
            return event_names[i];
        }
    }
    return NULL;
}

bool sim_world_run(uint64_t seed)
{
    program_count = 0;
    sim_faults = (struct sim_faults){.refused = 0};
    sim_model_init();
    struct sim_program *director = sim_program_new("director", 0);
    bool held = sim_run(seed, &director->process, direct, NULL);
    sum_up();
    return held;
}
