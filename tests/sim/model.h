/* SPDX-License-Identifier: MIT */
/* model.h - what the broker may do, and the history that it is compared with.
 *
 * Each operation that took effect is reported to the model, in the order of the effects, whether or
 * not the caller got the answer. The model has the state of every task, and fails the seed when the
 * broker did something that this state does not allow. It has facts that a broker cannot have:
 * which processes are alive, and which of them has really started a run. */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "broker/broker.h"
#include "quern/inspector.h"
#include "schedule.h"

enum { SIM_TASKS_MAX = 400, SIM_QUEUES_MAX = 3, SIM_HOSTS_MAX = 2, SIM_KEYS_MAX = 8 };

/* What the handler of a task does. */
enum sim_kind {
    SIM_WORK,    /* takes some time, and is done */
    SIM_FAIL,    /* fails once or more, then it is done */
    SIM_SNOOZE,  /* the same with a snooze */
    SIM_ARCHIVE, /* asks for the archive */
    SIM_DROP,    /* asks to be dropped */
    SIM_EARLY,   /* is acknowledged before it begins */
    SIM_SLOW,    /* runs into its timeout, and obeys; then it is done */
    SIM_HANG,    /* ignores the end of its time for long; then it is done */
    SIM_KILL,    /* ends its process */
    SIM_KINDS
};

enum sim_state { SIM_ABSENT, SIM_WAITING, SIM_ACTIVE, SIM_DONE, SIM_DROPPED, SIM_ARCHIVED };

/* What was seen of a lease. */
struct sim_lease {
    uint64_t token;
    int64_t until_ms;
    bool begun; /* its handler was called */
    bool done;  /* and returned done */
    bool acked; /* and its outcome was done */
};

/* Of the payload that a run has left. */
struct sim_stage {
    int number; /* 0: none has */
    int queue;  /* for which it is meant */
};

struct sim_task {
    /* What the client asked for. */
    char id[8];
    enum sim_kind kind;
    int queue;
    int64_t retry_max;
    int64_t timeout_ms; /* 0: none */
    int64_t retention_ms;
    int64_t delay_ms;
    int key;    /* of its unique lock; 0: none */
    bool roams; /* its runs may send it to another queue */
    int64_t run_ms;
    int ends_before; /* fail, snooze: so often before it is done */

    /* What it is now. */
    enum sim_state state;
    int64_t due_at_ms;
    uint64_t token; /* of the latest lease */
    struct sim_process *holder;
    bool started;          /* the broker has recorded it */
    int64_t started_at_ms; /* the same */
    int64_t lease_until_ms;
    bool is_probe; /* leased while its queue was braked */
    quern_cause cause;
    int64_t retry_count;
    struct sim_stage stage;
    int64_t charges;
    int64_t lone;
    int64_t first_at_ms; /* when its first charged run started */
    bool is_poison;

    /* What was seen of it. */
    int leases; /* since it was stored */
    size_t lease_count;
    int runs;
    int quiet_kills;           /* processes that it has ended since all else is quiet */
    struct sim_lease past[16]; /* the latest ones */
};

struct sim_queue {
    const char *name;
    bool paused;
    uint64_t processed;
    uint64_t failed;
    struct {
        int64_t ok_at_ms; /* a run ended well there */
        int64_t streak;
        int64_t died_at_ms;
    } hosts[SIM_HOSTS_MAX];
};

/* What the promises and the rules of docs/internals/deaths.md are about. A test in which one of
 * them never happens proves nothing about it. */
enum sim_event {
    SIM_CHARGED,    /* a death is charged to a task */
    SIM_LONE,       /* to the only one that ran there */
    SIM_UNCHARGED,  /* a death before the start of the run, or of a leaving worker */
    SIM_EXPIRED,    /* a run is recovered because its lease is over */
    SIM_SPENT,      /* a task without attempts left is archived by recovery */
    SIM_POISON,     /* one is archived as poison */
    SIM_BESIDE,     /* a charged task is leased beside others */
    SIM_ALONE,      /* with the solo lock */
    SIM_BRAKED,     /* the deaths in a row brake a queue on a host */
    SIM_PROBE,      /* a lease from a braked queue */
    SIM_RELEASED,   /* a run that ends well ends a brake */
    SIM_SALVAGED,   /* an outcome is taken though its lease was over */
    SIM_STALE,      /* one is refused */
    SIM_REPLAY,     /* a request is repeated, as its answer was lost */
    SIM_STAGE,      /* a run begins where the one before left off */
    SIM_MOVED,      /* a run sends its task to another queue */
    SIM_GIVEN_AWAY, /* the same, as its worker ends */
    SIM_EVENTS
};

struct sim_model {
    struct sim_task tasks[SIM_TASKS_MAX];
    int task_count;
    struct sim_queue queues[SIM_QUEUES_MAX];
    int queue_count;
    int keys[SIM_KEYS_MAX + 1]; /* holder of the lock: index of the task + 1; 0: none */
    uint64_t last_token;
    int64_t events[SIM_EVENTS]; /* how often each happened */
};
extern struct sim_model sim_model;

/* What the model has to know of a process that is a worker (world.h). */
struct sim_worker_facts {
    bool leaving;      /* its record says draining or quiet */
    bool deregistered; /* its record is gone */
    int64_t heartbeat_at_ms;
    bool death_noted; /* one of its runs was recovered because of it */
    int death_runs;   /* so many started ones it had then */
    int running;      /* handlers, but those that ignore their end */
};
struct sim_worker_facts *sim_facts_of(struct sim_process *process);
/* Whether processes of one host can see those of another. */
bool sim_sees(const struct sim_process *from, const struct sim_process *to);

/* A change is written with the outcome that brings it, or not at all. */
void sim_model_take_change(struct sim_task *task, const struct qn_outcome *outcome);
void sim_model_check_stage(const struct sim_task *task, const struct qn_leased *run);

void sim_model_init(void);
struct sim_task *sim_task_of(const char *id);
struct sim_queue *sim_queue_of(const char *name);

/* Operations that took effect. */
void sim_model_enqueue(const struct qn_enqueue *enqueue);
void sim_model_exchange(struct sim_process *process, const struct qn_exchange *exchange,
                        const struct qn_exchange_reply *reply);
void sim_model_extend(struct sim_process *process, const struct qn_extension *extensions,
                      size_t count, int64_t lease_ms);
void sim_model_recover(struct sim_process *by, const struct qn_recovery *recovery);
void sim_model_heartbeat(struct sim_process *process, const struct qn_heartbeat *heartbeat);
void sim_model_deregister(struct sim_process *process);
/* model_operate.c: by hand, with the answer. */
void sim_model_operate(struct sim_task *task, quern_action action, quern_status status);

/* Handlers, in processes that live. entered_ns: when its thread took it up. */
void sim_model_run_begins(struct sim_process *process, struct sim_task *task, uint64_t token,
                          int64_t entered_ns);
void sim_model_run_ends(struct sim_process *process, struct sim_task *task, uint64_t token,
                        bool done);

/* For the files of the model. */
void sim_model_archive(struct sim_task *task);
/* A unique task that lives takes its lock again where no other has it. */
void sim_model_lock(struct sim_task *task);
void sim_model_unlock(struct sim_task *task);
int64_t sim_boot_ms(void);

/* model_deaths.c: a run ended otherwise than by a death. */
void sim_model_release(const struct sim_process *process, struct sim_queue *queue);
/* Before the leases of an exchange, each lease, and afterwards. */
void sim_model_check_lease(struct sim_process *process, struct sim_task *task,
                           const struct qn_exchange *exchange, int leased_of_queue);
void sim_model_check_brakes(const struct sim_process *process, const struct qn_exchange *exchange);

#endif
