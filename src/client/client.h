/* SPDX-License-Identifier: MIT */
/* client.h - the inside of a client: what client.c, combine.c, batch.c and enqueue_tx.c share. */
#ifndef QN_CLIENT_CLIENT_H
#define QN_CLIENT_CLIENT_H

#include <pthread.h>

#include "base/assert.h"
#include "base/memory/arena.h"
#include "base/memory/list.h"
#include "broker/broker.h"
#include "broker/task_info.h"
#include "message/id.h"
#include "quern/client.h"
#include "task/limits.h"

enum qn_request_phase {
    QN_REQUEST_WAITING, /* in the client's list */
    QN_REQUEST_LEADING, /* its thread has to store the next transaction */
    QN_REQUEST_TAKEN,   /* a leader is storing it */
    QN_REQUEST_DONE
};

/* What one calling thread wants stored: at most qn_broker_enqueue_max tasks and, unless it is a
 * single task, at most QN_BATCH_BYTES_MAX of payload, so that a request is never split. It lives
 * on the stack of its thread, which blocks until the phase is done. */
struct qn_request {
    struct qn_list node;         /* in the list of waiting requests, or in a leader's batch */
    pthread_cond_t changed;      /* the phase is leading or done */
    enum qn_request_phase phase; /* guarded by the client's mutex */
    int64_t deadline_mono_ns;    /* real time: a turned clock must not hang it */
    /* What to store: `count` structs of task_size bytes each, as the caller wrote them. */
    const void *tasks;
    size_t task_size;
    size_t count;
    size_t payload_bytes;
    /* What became of it; written by the leader, read after done. */
    quern_enqueue_result *results; /* NULL, or `count` of them */
    bool wants_info;               /* of the only task */
    quern_task_info *info;         /* the only task as it was stored; owned by the caller then */
    bool failed;                   /* the fields below are set */
    quern_status broker_status;    /* QUERN_OK, or how the broker itself failed */
    size_t failed_index;
    quern_error error;
};

/* Where a prepared task came from. */
struct qn_origin {
    struct qn_request *request;
    size_t index;
};

struct quern_client {
    struct qn_broker *broker;
    const struct quern_clock *clock;
    int64_t command_timeout_ms;
    size_t payload_size_max;

    pthread_mutex_t mutex;
    pthread_cond_t idle;    /* calls is 0 */
    size_t calls;           /* threads inside; guarded by mutex */
    bool led;               /* somebody stores, or was told to; guarded by mutex */
    struct qn_list waiting; /* of struct qn_request, FIFO; guarded by mutex */

    pthread_mutex_t ids_mutex;
    struct qn_id_source ids; /* guarded by ids_mutex */

    /* Only the leader touches these. */
    struct qn_stamp stamp;
    struct qn_random random;
    struct qn_arena arena; /* of what is being stored: the tasks and the arrays below */
    size_t prepared_count;
    struct qn_task *prepared;
    struct qn_origin *origins;
    quern_status *statuses;
};

/* Every public call is between these two. QUERN_E_CLOSED: this process is a fork. */
QUERN_NODISCARD quern_status qn_client_enter(quern_client *client, quern_error *err);
void qn_client_leave(quern_client *client);

/* Reads the caller's struct of task_size bytes and prepares it in `arena`. Any thread. */
QUERN_NODISCARD quern_status qn_client_prepare(quern_client *client, const void *task,
                                               size_t task_size, struct qn_arena *arena,
                                               struct qn_task *ret_task, quern_error *err);
/* The text for a task that the broker refused: duplicate or conflict. */
quern_status qn_client_refused(const struct qn_task *task, quern_status status, quern_error *err);
/* Writes status and id to results[index], where results may be NULL and id may be NULL. */
void qn_client_result_set(quern_enqueue_result *results, size_t index, quern_status status,
                          const char *id);

/* Stores the request, together with those of other threads. Blocks until request->failed and the
 * rest of its outputs say what became of it. */
void qn_client_combine(quern_client *client, struct qn_request *request);

#endif
