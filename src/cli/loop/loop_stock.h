/* SPDX-License-Identifier: MIT */
/* loop_stock.h - the processes of one command of --exec-loop that run nothing. Any thread. */
#ifndef QN_CLI_LOOP_LOOP_STOCK_H
#define QN_CLI_LOOP_LOOP_STOCK_H

#include <pthread.h>

#include "pool/exec/loop_process.h"

struct qn_loop_stock {
    uint64_t runs_max; /* then a process is replaced; 0: never */
    pthread_mutex_t mutex;
    struct qn_list idle;      /* guarded by mutex, as all below; the last used one first */
    struct qn_list ending;    /* their input is closed */
    int64_t pause_ms;         /* after a start that failed; 0: the last one went well */
    int64_t start_at_mono_ns; /* no start before */
};

void qn_loop_stock_init(struct qn_loop_stock *stock, uint64_t runs_max);
/* Ends all its processes; no other thread uses it any more. */
void qn_loop_stock_finish(struct qn_loop_stock *stock);
/* One that lives and is quiet; NULL: none is idle. Those that are not quiet are killed;
 * *ret_was_noisy: one of them has written since its last answer. */
struct qn_loop_process *qn_loop_stock_take(struct qn_loop_stock *stock, bool *ret_was_noisy);
/* It has answered. */
void qn_loop_stock_give_back(struct qn_loop_stock *stock, struct qn_loop_process *process);
/* A start went well; or it did not, and the next one has to wait: 100 ms, then twice as long each
 * time, up to 10 s. */
void qn_loop_stock_note_start(struct qn_loop_stock *stock, bool is_ready);
/* How long the next start has to wait; 0 or less: not at all. */
int64_t qn_loop_stock_pause_ns(struct qn_loop_stock *stock);

#endif
