/* SPDX-License-Identifier: MIT */
/* schedule.h - simulated threads and processes, and the one clock of all of them.
 *
 * Threads are fibers. One runs at a time, until it waits or yields; the next one is chosen at
 * random, by the seed. The clock advances a little with each switch, and when no thread can run, to
 * the next moment for which one waits. So a seed determines everything. */
#ifndef TESTS_SIM_SCHEDULE_H
#define TESTS_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NS_PER_MS INT64_C(1000000)

/* A program. When it is dead nothing of it reaches a broker any more; its threads run down. */
struct sim_process {
    int number;
    int host; /* index */
    bool dead;
    int64_t paused_until_ns; /* as by SIGSTOP; 0: it runs */
    const char *name;
};

struct sim_thread;

/* Runs entry(user) as a thread of `process`, and everything that it starts, until all have ended.
 * False: a check failed meanwhile, and what was started is left as it is. */
bool sim_run(uint64_t seed, struct sim_process *process, void (*entry)(void *user), void *user);

/* --- Called from a simulated thread ----------------------------------------------------- */

struct sim_thread *sim_spawn(struct sim_process *process, void *(*entry)(void *), void *argument);
/* Waits for its end. */
void sim_join(struct sim_thread *thread);
/* NULL: the caller is no simulated thread. */
struct sim_process *sim_self(void);
/* Another one may run. */
void sim_yield(void);
/* The same, now and then, unless the caller is in something that counts as one step. */
void sim_maybe_yield(void);
void sim_begin_step(void);
void sim_end_step(void);
/* Until a thread wakes those that wait at `place`, or until a moment (INT64_MAX: never); false: it
 * was the moment. */
bool sim_wait(const void *place, int64_t until_ns);
void sim_wake_one(const void *place);
void sim_wake_all(const void *place);
/* Ends early when the process dies. */
void sim_sleep_ms(int64_t ms);

int64_t sim_now_ns(void);
int64_t sim_wall_ms(void);
/* Notes this moment for the thread. */
void sim_mark(void);
int64_t sim_marked_ns(void);

/* --- Processes -------------------------------------------------------------------------- */

void sim_pause(struct sim_process *process, int64_t ms);
void sim_resume(struct sim_process *process);
/* Its sleeping threads continue. */
void sim_die(struct sim_process *process);

/* --- Chance ----------------------------------------------------------------------------- */

uint64_t sim_random(void);
int64_t sim_below(int64_t bound);
int64_t sim_between(int64_t least, int64_t most);
/* So many times in a thousand. */
bool sim_chance(int permille);

/* --- What happened ---------------------------------------------------------------------- */

/* Goes into the trace, which is hashed, kept for a while, and printed if sim_tracing is set. */
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A promise was broken: the seed ends here. Does not return to a simulated thread. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern bool sim_tracing;
/* Prints the last lines of it. */
void sim_print_trace(size_t lines);
uint64_t sim_trace_hash(void);
const char *sim_failure(void);

#endif
