/* SPDX-License-Identifier: MIT */
/* call.h - runs handlers in a child. */
#ifndef QN_WORKER_PREFORK_CALL_H
#define QN_WORKER_PREFORK_CALL_H

#include "pool/prefork/child.h"
#include "quern/mux.h"
#include "quern/run.h"

/* What a child needs to know; lives as long as the process. */
struct qn_call_setup {
    const quern_mux *mux;
    void (*on_child_start)(void *user); /* NULL: nothing */
    void *user;
};

/* The functions of struct qn_prefork_code; user: a struct qn_call_setup. */
void qn_call_start(void *user);
void qn_call_run(struct qn_prefork_call *call, struct qn_bytes body, struct qn_buf *out,
                 void *user);

#endif
