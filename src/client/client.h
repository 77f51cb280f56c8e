/* SPDX-License-Identifier: MIT */
/* client.h - the private parts of a client that its files share. */
#ifndef QN_CLIENT_CLIENT_H
#define QN_CLIENT_CLIENT_H

#include <pthread.h>

#include "base/assert.h"
#include "base/memory/arena.h"
#include "base/memory/list.h"
#include "base/pace.h"
#include "broker/broker.h"
#include "broker/task_info.h"
#include "client/dispatch.h"
#include "client/request.h"
#include "message/id.h"
#include "quern/client.h"
#include "task/limits.h"

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
    int64_t room_wait_ms;
    struct qn_pace pace; /* of the options and the URL; 0: not given */
    bool no_wait;
    quern_tracer *tracer; /* NULL: none */

    pthread_mutex_t mutex;
    pthread_cond_t idle;    /* calls is 0 */
    size_t calls;           /* threads inside; guarded by mutex */
    bool led;               /* a thread stores, or was made the leader; guarded by mutex */
    struct qn_list waiting; /* of struct qn_request, FIFO; guarded by mutex */

    struct qn_dispatch dispatch;

    pthread_mutex_t ids_mutex;
    struct qn_id_source ids; /* guarded by ids_mutex */

    /* Only the leader touches these. */
    struct qn_stamp stamp;
    struct qn_random random;
    struct qn_arena arena; /* of batches (store.h) */
};

/* Every public call is between these two. QUERN_E_CLOSED: this process is a fork. */
QUERN_NODISCARD quern_status qn_client_enter(quern_client *client, quern_error *err);
void qn_client_leave(quern_client *client);

#endif
