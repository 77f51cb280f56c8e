/* SPDX-License-Identifier: MIT */
/* request.h - the tasks that one call stores, and the results. */
#ifndef QN_CLIENT_REQUEST_H
#define QN_CLIENT_REQUEST_H

#include <pthread.h>

#include "base/memory/arena.h"
#include "base/memory/list.h"
#include "base/memory/view.h"
#include "quern/client.h"
#include "task/limits.h"
#include "task/task.h"

enum qn_request_phase {
    QN_REQUEST_WAITING, /* in the client's list */
    QN_REQUEST_LEADING, /* its thread has to store the next transaction */
    QN_REQUEST_TAKEN,   /* a leader is storing it */
    QN_REQUEST_DONE
};

/* When a call began, for spans; 0 where there are none. */
struct qn_began {
    int64_t wall_ms;
    int64_t mono_ns;
};

/* The tasks that one calling thread stores: at most qn_broker_enqueue_max tasks and, unless it is a
 * single task, at most QN_BATCH_BYTES_MAX of payload, so that a request is never split. It lives
 * on the stack of its thread, which blocks until the phase is done. */
struct qn_request {
    struct qn_list node;         /* in the list of waiting requests, or in a leader's batch */
    pthread_cond_t changed;      /* the phase is leading or done */
    enum qn_request_phase phase; /* guarded by the client's mutex */
    struct qn_store *inherited;  /* it leads this batch, which another thread left; guarded too */
    int64_t deadline_mono_ns;    /* real time: a turned clock must not hang it */
    /* The input: `count` structs of task_size bytes each, as the caller wrote them. */
    const void *tasks;
    size_t task_size;
    size_t count;
    size_t payload_bytes;
    /* The output; written by the leader, read after done. */
    quern_enqueue_result *results; /* NULL, or `count` of them */
    bool wants_info;               /* of the only task */
    struct qn_began began;
    quern_task_info *info; /* the only task as it was stored; owned by the caller then */
    char holder[QN_NAME_SIZE_MAX + 1]; /* of the lock of the only task; "": none, or not it */
    bool failed;                       /* the fields below are set */
    quern_status broker_status;        /* QUERN_OK, or how the broker itself failed */
    size_t failed_index;
    quern_error error;
    /* Tasks that only the limit of their queue keeps out, which are no failure yet; the first. */
    bool limited;
    size_t limited_index;
    quern_error limit;
};

/* Reads the caller's quern_task, of whatever size, and prepares it in `arena`. Any thread. */
QUERN_NODISCARD quern_status qn_request_prepare(quern_client *client, struct qn_bytes task,
                                                struct qn_arena *arena, struct qn_task *ret_task,
                                                quern_error *err);
struct qn_began qn_request_begin(const quern_client *client);
/* Makes the span of a task, whose status is final. */
void qn_request_trace(const quern_client *client, struct qn_began began, const struct qn_task *task,
                      quern_status status);
/* The text for a task that the broker refused: duplicate or conflict. */
quern_status qn_request_refuse(const struct qn_task *task, quern_status status, quern_error *err);
/* The same where its queue has as many tasks as it may have: QUERN_E_FULL. */
quern_status qn_request_refuse_limited(const struct qn_task *task, quern_error *err);
/* The same where it is stored, but too few replicas confirmed it: QUERN_E_NOT_REPLICATED. */
quern_status qn_request_refuse_replicas(const struct qn_task *task, const quern_error *why,
                                        quern_error *err);
/* Of several failures the first task's is kept. */
void qn_request_fail(struct qn_request *request, size_t index, const quern_error *error);
/* Notes which task holds the lock of the only task; NULL: none. */
void qn_request_set_holder(struct qn_request *request, const char *id);
/* Writes status and id to results[index], where results may be NULL and id may be NULL. */
void qn_request_set_result(quern_enqueue_result *results, size_t index, quern_status status,
                           const char *id);

struct qn_stored_ids {
    const char *own;
    const char *holder; /* of its lock; NULL: it is free */
};
/* The same for the result of a broker. */
void qn_request_set_stored(quern_enqueue_result *results, size_t index, quern_status status,
                           struct qn_stored_ids ids);

#endif
