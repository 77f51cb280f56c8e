/* SPDX-License-Identifier: MIT */
/* choice.h - which queues the free slots of a worker are filled from. No I/O.
 *
 * Weighted: every slot draws a queue with P = weight / sum. The draws follow a smooth weighted
 * round robin that starts at a random point and continues from exchange to exchange, so the first
 * choice has asynq's probabilities and every window of a thousand starts has the exact shares, also
 * where slots are drawn in rows (choice.c). Slots that a queue could not fill are redrawn among the
 * queues that filled their quota. Strict: queues in order of weight, each until it is empty. */
#ifndef QN_TASK_CHOICE_H
#define QN_TASK_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "task/limits.h"

struct qn_choice_row {
    int64_t count; /* of its rows in a round */
    int64_t rest;  /* what they were too short so far, in parts of slots */
};

/* When rows are drawn, and how long they are. */
struct qn_choice_terms {
    uint32_t queues_min;
    uint32_t row_max; /* slots */
};

struct qn_choice {
    size_t queue_count;
    bool strict;
    uint32_t weights[QN_QUEUES_MAX];
    int64_t credits[QN_QUEUES_MAX]; /* of the smooth round robin; a turn costs weight_sum */
    bool empty[QN_QUEUES_MAX];      /* had fewer tasks than requested, last time */
    uint64_t weight_sum;
    /* Enough queues for rows, much room: */
    struct qn_choice_terms terms;
    bool in_rows;                         /* credits are those of rows */
    int64_t other_credits[QN_QUEUES_MAX]; /* of rows, or of single slots: of what is not used now */
    struct qn_choice_row rows[QN_QUEUES_MAX];
    size_t row_queue;  /* whose row it is */
    uint32_t row_left; /* how many of the next slots are its, too */
};

void qn_choice_init(struct qn_choice *choice, const uint32_t *weights, size_t queue_count,
                    bool strict, struct qn_random *random);
/* Before the first draw, where queues are asked apart. */
void qn_choice_ask_apart(struct qn_choice *choice);
/* Draws `room` slots: order[slot] = queue index, quota[queue] = how many slots it got. is_fast: a
 * thousand runs take so little time that a queue may wait for it; many slots are drawn in rows then
 * (by the terms), and in_rows is set. Strict: order is not used and every quota is `room`. */
void qn_choice_draw(struct qn_choice *choice, size_t room, bool is_fast, uint16_t *order,
                    uint32_t *quota);
/* The weights that a broker redraws with, after a draw of `room` slots: those of the queues, moved
 * by what each is owed. So leftover slots go to the queue whose turn it is among those that have
 * tasks, even a single slot. Where rows are drawn they go to queues with quota[queue] > 0, as long
 * as these have tasks. */
void qn_choice_redraw_weights(const struct qn_choice *choice, size_t room, const uint32_t *quota,
                              uint32_t *weights);
/* After the exchange: taken[queue] = how many runs it gave. A slot that was drawn for a queue with
 * nothing to give is handed back, so that the queue keeps a claim for later (of one turn at most),
 * and the queues with tasks share what was taken by their weights, so that one that got more pays
 * for it at the next draws. Nothing taken at all: as if nothing had been drawn. */
void qn_choice_settle(struct qn_choice *choice, const uint32_t *quota, const uint32_t *taken);
/* For brokers. Shares `room` more slots among the queues with more[queue] true by weight, the
 * remaining slots to the largest remainders (on a tie to the higher weight, then to the first);
 * adds to want[queue]. Returns how many it placed: room, or 0 when no queue is left. Pure, so that
 * every broker redraws alike. */
size_t qn_choice_redraw(const uint32_t *weights, const bool *more, size_t queue_count, size_t room,
                        uint32_t *want);

#endif
