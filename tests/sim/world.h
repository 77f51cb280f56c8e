/* SPDX-License-Identifier: MIT */
/* world.h - one seed: its programs, what they do, and the faults. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "model.h"
#include "operations.h"
#include "quern/client.h"
#include "quern/mux.h"
#include "quern/worker.h"

#define SIM_URL "memory:sim"

enum { SIM_PROCESSES_MAX = 2000, SIM_WORKERS_MAX = 4, SIM_CLIENTS_MAX = 3 };

/* A program. */
struct sim_program {
    struct sim_process process;
    struct sim_worker_facts facts;
    char name[24];
    quern_worker *worker; /* while it runs one */
    int64_t died_at_ms;
    int64_t unseen_at_ms; /* when no worker could last see that it is dead */
};

/* What was chosen at random for the seed. */
struct sim_world {
    int workers;
    int clients;
    int tasks; /* of the clients together */
    int hosts;
    bool hosts_see;       /* processes of one host see those of another */
    int broken_host;      /* until the quiet each handler there ends its process; -1: none */
    uint32_t slots;       /* of each worker */
    int32_t prefetch_max; /* see quern_handler_options */
    int64_t lease_ms;
    int64_t chaos_ms;   /* how long there are faults; then comes the quiet */
    int shutdown_ms;    /* so long a worker that ends waits for its runs; 0: as by default */
    int restart_ms_max; /* until a supervisor starts a worker again */
    int paused;         /* percent of the moments with faults: a worker gets SIGSTOP */
    int killed;
    int worker_stopped;
    int worker_quiet;
    int queue_paused;
    int operated; /* the same, for a task */
    struct sim_faults faults;
    int kinds[SIM_KINDS]; /* weights */

    bool is_quiet;
    int64_t quiet_at_ms;
    bool is_over;
    struct sim_program *running[SIM_WORKERS_MAX]; /* NULL: it is not started now */
};
extern struct sim_world sim_world;

/* world.c */
struct sim_program *sim_program_new(const char *kind, int host);
struct sim_process *sim_process_of(int number);
struct sim_program *sim_program_of(const struct sim_process *process);
/* The program ends here and now, as by SIGKILL. */
void sim_kill(struct sim_process *process, const char *why);
void sim_world_choose(void);
/* Runs one seed. False: see sim_failure. */
bool sim_world_run(uint64_t seed);
/* What happened in all seeds together. */
void sim_world_print_summary(void);
/* An event that did not happen in any of them; NULL: each did. */
const char *sim_world_missing(void);

/* programs.c */
void *sim_supervise(void *slot);     /* int *: starts a worker again and again */
void *sim_enqueue_all(void *client); /* int *: its number */
void sim_make_task(struct sim_task *task, enum sim_kind kind);
void sim_enqueue_one(struct quern_client *client, int index);

/* trouble.c */
void sim_trouble_make(struct qn_broker *broker);
void sim_trouble_end(struct qn_broker *broker);

/* judge.c */
void sim_judge_watch(void); /* each moment of the quiet */
bool sim_judge_all_ended(void);
void sim_judge_end(struct qn_broker *broker);

#endif
