/* SPDX-License-Identifier: MIT */
/* child.h - the loop of a child process of prefork.h: receives items, runs them, sends results.
 *
 * One thread, one item at a time. It never returns to the program that forked it. */
#ifndef QN_POOL_PREFORK_CHILD_H
#define QN_POOL_PREFORK_CHILD_H

#include "base/text/buf.h"
#include "pool/prefork/zygote.h"

struct qn_prefork_call; /* the item that runs */

struct qn_prefork_code {
    /* Once, before the first item; NULL: nothing. */
    void (*start)(void *user);
    /* Runs one item; its result goes to `out`. body: followed by a NUL; it may be changed. */
    void (*run)(struct qn_prefork_call *call, struct qn_bytes body, struct qn_buf *out, void *user);
    void *user;
};

/* For qn_zygote_program.run_child; user: a struct qn_prefork_code. */
int qn_prefork_child_main(const struct qn_zygote_ends *ends, void *user);

/* 0: not cancelled; else the reason that was given to qn_prefork_cancel. Any thread. */
uint32_t qn_prefork_call_cancelled(const struct qn_prefork_call *call);
/* Readable once it is cancelled; -1: no descriptor is free. */
int qn_prefork_call_cancel_fd(struct qn_prefork_call *call);
/* Sends a frame to the worker. False: the worker is gone, the child will end. */
bool qn_prefork_call_send(struct qn_prefork_call *call, uint16_t kind, struct qn_bytes body);
/* Waits for the next frame of this kind to the item; false: the worker is gone. */
bool qn_prefork_call_receive(struct qn_prefork_call *call, uint16_t kind, struct qn_buf *out);

#endif
