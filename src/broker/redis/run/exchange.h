/* SPDX-License-Identifier: MIT */
/* exchange.h - the two halves of an exchange, outcomes and leases, which go out in one pipeline:
 * first the outcome script, one call for all queues that need it, then the lease script, which also
 * reports on the queues (paused, braked), so it sees the changes made by the outcomes. */
#ifndef QN_BROKER_REDIS_RUN_EXCHANGE_H
#define QN_BROKER_REDIS_RUN_EXCHANGE_H

#include "broker/broker.h"
#include "redis/pipeline.h"

/* --- The first half: outcome.c ------------------------------------------------------- */

/* Where the outcomes of an exchange are in its pipeline. */
struct qn_outcomes {
    size_t first_command; /* index in the pipeline */
    size_t command_count; /* calls appended; 0: there was nothing to send */
    const void *plan;     /* which outcome is where; in the pipeline's arena, outcome.c knows */
};
/* Appends a call of the script `outcome` for all queues that have outcomes or starts in the
 * exchange; only exchange->stamp, outcomes, starts, host and is_leaving are read. Sequence 0: not
 * remembered. */
QUERN_NODISCARD quern_status qn_redis_outcome_add(struct qn_pipeline *pipeline,
                                                  const struct qn_exchange *exchange,
                                                  struct qn_outcomes *ret_outcomes,
                                                  quern_error *err);
/* After qn_pipeline_run: applied[i] for each outcome of the exchange. In a queue where a key has
 * the wrong type nothing was changed: all are stale there, as that will not get better by asking
 * again, and the other queues must not wait for it. Fails when a script failed otherwise; what the
 * others answered is taken all the same, and the caller returns QUERN_E_UNKNOWN if any script of
 * the pipeline took effect. */
QUERN_NODISCARD quern_status qn_redis_outcome_read(const struct qn_pipeline *pipeline,
                                                   const struct qn_exchange *exchange,
                                                   const struct qn_outcomes *outcomes,
                                                   enum qn_applied *applied, quern_error *err);

/* A leased task whose message cannot be read, or is not its own. */
struct qn_unreadable {
    const char *queue;
    const char *id;
    size_t id_size; /* it may hold NUL bytes */
    uint64_t token; /* of the lease that found it */
    const struct qn_reply *message;
    const char *why;
};
/* Appends one script per task that archives it, where Go can read it, if the token is still valid;
 * tasks that stay keep their lease until it expires. Of the exchange its stamp is read, which is
 * 0. */
QUERN_NODISCARD quern_status qn_redis_outcome_add_unreadable(struct qn_pipeline *pipeline,
                                                             const struct qn_exchange *exchange,
                                                             const struct qn_unreadable *tasks,
                                                             size_t count, quern_error *err);
/* After qn_pipeline_run: whether the script at this index of the pipeline has archived its task. */
bool qn_redis_outcome_is_put_away(const struct qn_pipeline *pipeline, size_t command);

/* --- Without an answer: unanswered.c -------------------------------------------------- */

/* After qn_pipeline_run: notes the queues whose script of outcomes has no answer. */
void qn_redis_unanswered_note(const struct qn_pipeline *pipeline, struct qn_exchange *exchange,
                              struct qn_exchange_reply *reply, const struct qn_outcomes *outcomes);
/* At the end: takes what there is of these queues out of the reply, and notes their outcomes and
 * starts. The status of the exchange. */
QUERN_NODISCARD quern_status qn_redis_unanswered_settle(const struct qn_pipeline *pipeline,
                                                        struct qn_exchange *exchange,
                                                        struct qn_exchange_reply *reply,
                                                        quern_error *err);

/* --- The second half: lease_ask.c, lease.c -------------------------------------------- */

/* The tasks taken for one exchange, in one part or several: tasks past their deadline, and messages
 * that cannot be read, come out of the lease script like others and are put away afterwards, with
 * the next part in the same pipeline. */
/* One script: for some of the queues, which lie on one node. */
struct qn_lease_call {
    size_t command;      /* index in the pipeline */
    size_t size_command; /* spread, strict: of LLEN of its queue; 0: not asked */
    size_t first;        /* queue */
    size_t count;
    uint32_t room;
    uint32_t starts;
    bool has_solo;    /* it deals with the solo lock */
    bool has_charged; /* it may lease charged tasks */
    size_t given;     /* runs that came, with those that are put aside */
};

struct qn_redis_lease_batch {
    struct qn_exchange *exchange;
    struct qn_exchange_reply *reply;
    int64_t leased_at_boot_ms;
    int64_t enough_at_mono_ns;   /* no further part is requested then */
    char digits[4];              /* of the tokens: three, at random */
    size_t part_count;           /* that have come so far */
    size_t round_count;          /* of calls that were asked */
    struct qn_lease_call *calls; /* the latest round; in the pipeline's arena */
    size_t call_count;
    bool is_spread;                  /* a call for each queue, as they are on several nodes */
    bool may_split;                  /* and those that get no answer are left out */
    size_t parts[QN_QUEUES_MAX];     /* that have come from the call that begins with this queue */
    uint32_t waiting[QN_QUEUES_MAX]; /* spread: tasks that may be there */
    uint32_t solo_queue;             /* of the exchange, as it was asked */
    size_t turn;                     /* spread: the queue that may give charged tasks, or a lock */
    size_t aside_count;              /* late or unreadable, in all parts */
    bool ended_early;                /* the latest part: its size, or many ids without a task */
    struct qn_slab slab;             /* of the runs */
    /* The other results of this part; in the pipeline's arena, but the runs are blocks of their
     * own. */
    struct qn_outcome *refused;
    size_t refused_count;
    struct qn_unreadable *unreadable;
    size_t unreadable_count;
};
/* After a round: what its calls gave, for the plan of the next one. */
void qn_redis_lease_note(const struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch);
/* Spread: whether a second round may bring runs that the first one did not. */
bool qn_redis_lease_is_short(const struct qn_redis_lease_batch *batch);
/* Appends the scripts `lease`, for the runs that are still missing. */
void qn_redis_lease_ask(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch);
/* After qn_pipeline_run: adds the runs to the reply, and the others to the two lists. Fails
 * without having added any. */
QUERN_NODISCARD quern_status qn_redis_lease_read(struct qn_pipeline *pipeline,
                                                 struct qn_redis_lease_batch *batch,
                                                 quern_error *err);
/* Frees the runs of the refused. */
void qn_redis_lease_drop_refused(struct qn_redis_lease_batch *batch);

#endif
