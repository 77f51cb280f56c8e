/* SPDX-License-Identifier: MIT */
/* schedule.c - who runs next, and what time it is; see schedule.h. */
#include "schedule.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/random.h"
#include "base/text/hash.h"
#include "fiber.h"

enum {
    THREADS_MAX = 512,
    SWITCH_NS_MAX = 20000,
    SWITCHES_MAX = 20000000, /* a simulation that does not end is a failure */
    YIELD_PERMILLE = 60,
    TRACE_MAX = 256, /* lines that are kept */
    LINE_SIZE = 400
};
#define START_NS INT64_C(1000000000000)      /* since boot */
#define START_WALL_MS INT64_C(1790000000000) /* of the day, at that moment */

enum phase { FREE, READY, WAITING, ENDED };

struct sim_thread {
    struct sim_fiber fiber;
    enum phase phase;
    struct sim_process *process;
    void *(*entry)(void *);
    void *argument;
    const void *place; /* where it waits */
    int64_t until_ns;
    bool woken;
    int steps; /* of sim_begin_step */
    int64_t marked_ns;
};

static struct {
    struct sim_thread threads[THREADS_MAX];
    size_t count; /* used so far; some of them free */
    struct sim_thread *current;
    struct sim_fiber driver;
    struct qn_random random;
    int64_t now_ns;
    uint64_t switches;
    uint64_t hash;
    char trace[TRACE_MAX][LINE_SIZE];
    size_t trace_count;
    char failure[512];
} sim;

bool sim_tracing;

/* --- Chance ----------------------------------------------------------------------------- */

uint64_t sim_random(void)
{
    return qn_random_next(&sim.random);
}

int64_t sim_below(int64_t bound)
{
    return (int64_t)qn_random_below(&sim.random, (uint64_t)bound);
}

int64_t sim_between(int64_t least, int64_t most)
{
    return least + sim_below(most - least + 1);
}

bool sim_chance(int permille)
{
    return permille > 0 && sim_below(1000) < permille;
}

/* --- What happened ---------------------------------------------------------------------- */

static void hash_text(const char *text)
{
    sim.hash = qn_hash_bytes(sim.hash, text, strlen(text));
}

void sim_trace(const char *format, ...)
{
    char *line = sim.trace[sim.trace_count++ % TRACE_MAX];
    int size = snprintf(line, LINE_SIZE, "%10.3f  ", (double)(sim.now_ns - START_NS) / 1e6);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line + size, LINE_SIZE - (size_t)size, format, arguments);
    va_end(arguments);
    hash_text(line);
    if (sim_tracing) {
        (void)puts(line);
    }
}

void sim_print_trace(size_t lines)
{
    size_t count = lines < TRACE_MAX ? lines : TRACE_MAX;
    size_t first = sim.trace_count > count ? sim.trace_count - count : 0;
    for (size_t i = first; i < sim.trace_count; i++) {
        (void)puts(sim.trace[i % TRACE_MAX]);
    }
}

void sim_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (sim.failure[0] == '\0') {
        (void)vsnprintf(sim.failure, sizeof sim.failure, format, arguments);
    }
    va_end(arguments);
    sim_trace("FAILED: %s", sim.failure);
    if (sim.current != NULL) {
        sim_fiber_switch(&sim.current->fiber, &sim.driver); /* for good */
    }
}

uint64_t sim_trace_hash(void)
{
    return sim.hash;
}

const char *sim_failure(void)
{
    return sim.failure;
}

/* --- The scheduler ---------------------------------------------------------------------- */

static bool is_paused(const struct sim_thread *thread)
{
    return thread->process->paused_until_ns > sim.now_ns;
}

static bool can_run(const struct sim_thread *thread)
{
    bool is_due = thread->phase == WAITING && thread->until_ns <= sim.now_ns;
    return (thread->phase == READY || is_due) && !is_paused(thread);
}

/* One of those that can run, at random; NULL: none can. */
static struct sim_thread *choose(void)
{
    struct sim_thread *able[THREADS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < sim.count; i++) {
        if (can_run(&sim.threads[i])) {
            able[count++] = &sim.threads[i];
        }
    }
    return count == 0 ? NULL : able[count == 1 ? 0 : sim_below((int64_t)count)];
}

/* When the next one can run; INT64_MAX: never. */
static int64_t next_moment(void)
{
    int64_t next_ns = INT64_MAX;
    for (size_t i = 0; i < sim.count; i++) {
        const struct sim_thread *thread = &sim.threads[i];
        if (thread->phase != READY && thread->phase != WAITING) {
            continue;
        }
        int64_t at_ns = thread->phase == READY ? sim.now_ns : thread->until_ns;
        int64_t paused_ns = thread->process->paused_until_ns;
        at_ns = at_ns > paused_ns ? at_ns : paused_ns;
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

static bool all_have_ended(void)
{
    for (size_t i = 0; i < sim.count; i++) {
        if (sim.threads[i].phase == READY || sim.threads[i].phase == WAITING) {
            return false;
        }
    }
    return true;
}

static void run(struct sim_thread *thread)
{
    thread->woken = thread->phase == READY;
    thread->phase = READY;
    thread->place = NULL;
    sim.current = thread;
    sim_fiber_switch(&sim.driver, &thread->fiber);
    sim.current = NULL;
    if (thread->phase == ENDED) {
        sim_fiber_finish(&thread->fiber);
        sim_wake_all(thread);
    }
    sim.now_ns += 1 + sim_below(SWITCH_NS_MAX);
    sim.switches++;
}

static void drive(void)
{
    while (sim.failure[0] == '\0' && !all_have_ended()) {
        struct sim_thread *thread = choose();
        if (thread != NULL) {
            run(thread);
        } else if (next_moment() == INT64_MAX) {
            sim_fail("all threads wait for each other");
        } else {
            int64_t next_ns = next_moment();
            sim.now_ns = next_ns > sim.now_ns ? next_ns : sim.now_ns;
        }
        if (sim.switches > SWITCHES_MAX) {
            sim_fail("no end after %d changes of threads", SWITCHES_MAX);
        }
    }
}

/* --- Threads ---------------------------------------------------------------------------- */

static void begin_thread(void *user)
{
    struct sim_thread *self = user;
    (void)self->entry(self->argument);
    self->phase = ENDED;
    sim_fiber_leave(&self->fiber, &sim.driver);
}

struct sim_thread *sim_spawn(struct sim_process *process, void *(*entry)(void *), void *argument)
{
    size_t i = 0;
    while (i < sim.count && sim.threads[i].phase != FREE) {
        i++;
    }
    QN_ASSERT(i < THREADS_MAX);
    sim.count = i == sim.count ? sim.count + 1 : sim.count;
    struct sim_thread *thread = &sim.threads[i];
    *thread = (struct sim_thread){
        .phase = READY, .process = process, .entry = entry, .argument = argument};
    sim_fiber_init(&thread->fiber, begin_thread, thread);
    return thread;
}

void sim_join(struct sim_thread *thread)
{
    while (thread->phase != ENDED) {
        (void)sim_wait(thread, INT64_MAX);
    }
    thread->phase = FREE;
}

struct sim_process *sim_self(void)
{
    return sim.current == NULL ? NULL : sim.current->process;
}

void sim_yield(void)
{
    sim_fiber_switch(&sim.current->fiber, &sim.driver);
}

void sim_maybe_yield(void)
{
    if (sim.current->steps == 0 && sim_chance(YIELD_PERMILLE)) {
        sim_yield();
    }
}

void sim_begin_step(void)
{
    sim.current->steps++;
}

void sim_end_step(void)
{
    sim.current->steps--;
}

bool sim_wait(const void *place, int64_t until_ns)
{
    struct sim_thread *self = sim.current;
    self->phase = WAITING;
    self->place = place;
    self->until_ns = until_ns;
    sim_fiber_switch(&self->fiber, &sim.driver);
    return self->woken;
}

void sim_wake_one(const void *place)
{
    struct sim_thread *waiting[THREADS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < sim.count; i++) {
        if (sim.threads[i].phase == WAITING && sim.threads[i].place == place) {
            waiting[count++] = &sim.threads[i];
        }
    }
    if (count > 0) {
        waiting[count == 1 ? 0 : sim_below((int64_t)count)]->phase = READY;
    }
}

void sim_wake_all(const void *place)
{
    for (size_t i = 0; i < sim.count; i++) {
        if (sim.threads[i].phase == WAITING && sim.threads[i].place == place) {
            sim.threads[i].phase = READY;
        }
    }
}

void sim_sleep_ms(int64_t ms)
{
    int64_t until_ns = sim.now_ns + ms * SIM_NS_PER_MS;
    struct sim_process *process = sim_self();
    while (!process->dead && sim.now_ns < until_ns) {
        (void)sim_wait(process, until_ns);
    }
}

int64_t sim_now_ns(void)
{
    return sim.now_ns;
}

int64_t sim_wall_ms(void)
{
    return START_WALL_MS + (sim.now_ns - START_NS) / SIM_NS_PER_MS;
}

void sim_mark(void)
{
    sim.current->marked_ns = sim.now_ns;
}

int64_t sim_marked_ns(void)
{
    return sim.current->marked_ns;
}

/* --- Processes -------------------------------------------------------------------------- */

void sim_pause(struct sim_process *process, int64_t ms)
{
    process->paused_until_ns = sim.now_ns + ms * SIM_NS_PER_MS;
}

void sim_resume(struct sim_process *process)
{
    process->paused_until_ns = 0;
}

void sim_die(struct sim_process *process)
{
    process->dead = true;
    process->paused_until_ns = 0;
    sim_wake_all(process);
}

struct first {
    void (*entry)(void *user);
    void *user;
};

static void *begin_first(void *argument)
{
    const struct first *first = argument;
    first->entry(first->user);
    return NULL;
}

bool sim_run(uint64_t seed, struct sim_process *process, void (*entry)(void *user), void *user)
{
    struct first first = {.entry = entry, .user = user};
    qn_random_init_seed(&sim.random, seed);
    sim.count = 0;
    sim.now_ns = START_NS;
    sim.switches = 0;
    sim.trace_count = 0;
    sim.hash = QN_HASH_START;
    sim.failure[0] = '\0';
    sim_fiber_adopt(&sim.driver);
    (void)sim_spawn(process, begin_first, &first);
    drive();
    return sim.failure[0] == '\0';
}
