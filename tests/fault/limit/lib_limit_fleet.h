/* SPDX-License-Identifier: MIT */
/* lib_limit_fleet.h - four workers on queues with limits of several kinds, which are killed and
 * stopped, and the record of all that their handlers did.
 *
 * Each worker also records when it did not get the processor: a start that reaches its handler then
 * may have been counted long before. */
#ifndef TESTS_FAULT_LIMIT_LIB_LIMIT_FLEET_H
#define TESTS_FAULT_LIMIT_LIB_LIMIT_FLEET_H

#include "base/random.h"
#include "lib_fault.h"
#include "lib_limit_judge.h"

#define FLEET_WORKERS 4
#define FLEET_LOSSES_MAX 256

enum {
    FLEET_PLAIN,
    FLEET_WINDOW,
    FLEET_BUCKET,
    FLEET_SLOW,
    FLEET_KEY_A,
    FLEET_KEY_B,
    FLEET_SLOW_KEY_C,
    FLEET_PACED,
    FLEET_PACED_BURST,
    FLEET_TENANT_A,
    FLEET_TENANT_B,
    FLEET_EAST,
    FLEET_WEST,
    FLEET_EAST_KEY,
    FLEET_WEST_KEY,
    FLEET_EAST_PACED,
    FLEET_WEST_PACED,
    FLEET_CONTROL,
    FLEET_KINDS
};

/* A limit as it is set, and what it binds. A limit of each key binds several kinds by itself, so
 * it has a row for each. */
struct fleet_limit {
    quern_limit set;
    struct limit_rule rule;
};
extern const struct fleet_limit fleet_limits[];
extern const size_t fleet_limit_count;
/* No limit: the slots of a worker that is left alone, on a queue of its own. How fully these are
 * used is the most that the machine allows just now. */
extern const struct limit_rule fleet_control;

#define FLEET_PATH_SIZE 300

/* When a process did not get the processor, because it was stopped or the machine was busy: a line
 * of the file of this name. */
struct fleet_stall {
    int64_t pid;
    struct limit_span span;
};
void fleet_stall_path(const char *journal, char out[FLEET_PATH_SIZE]);

struct fleet_loss { /* a kill or a stop */
    pid_t pid;
    int64_t at_ns;
    int64_t until_ns; /* of a stop; of a kill when its runs were recovered, if it had any */
    bool killed;
};

struct fleet {
    struct fault_site site;
    quern_inspector *inspector;
    struct qn_random random;
    struct test_child children[FLEET_WORKERS];
    struct test_child control;
    struct fleet_loss losses[FLEET_LOSSES_MAX];
    size_t loss_count;
    uint32_t shares; /* of the kinds in use */
    uint32_t puts[FLEET_KINDS];
};

/* Sets the limits that the broker has, puts about `tasks` tasks, and starts the workers. */
void fleet_open(struct fleet *fleet, size_t tasks);
/* Ends the workers, which must end well. */
void fleet_stop(struct fleet *fleet);
void fleet_close(struct fleet *fleet);
/* The kind of a task, by its number. */
uint32_t fleet_kind_of(const struct fleet *fleet, uint64_t number);
/* One of the workers is stopped for a moment; is killed, and another one started. */
void fleet_stop_one(struct fleet *fleet);
void fleet_kill_one(struct fleet *fleet);
/* Tasks that are completed. */
size_t fleet_completed(const struct fleet *fleet);

/* After fleet_stop: the record, without the spans from a kill to the recovery of what the process
 * ran, those of the stops, and those without the processor; the longest recovery. The caller frees
 * `events` and `excluded`. */
struct limit_record fleet_read(struct fleet *fleet, int64_t *ret_recovery_ns);

/* Puts each start where the broker has counted it, by its fence, however late it came to its
 * handler. False: this broker's fences do not show that. */
bool fleet_use_count_moments(struct limit_record *record);

/* The role of the workers. */
int fleet_worker(int argc, char **argv);

#endif
