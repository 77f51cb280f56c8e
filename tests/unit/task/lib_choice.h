/* SPDX-License-Identifier: MIT */
/* lib_choice.h - a worker and a broker that are simulated: `play` draws, gives the tasks of each
 * queue, redraws the remaining slots, and settles, as an exchange does. */
#ifndef LIB_CHOICE_H
#define LIB_CHOICE_H

#include "lib_test.h"
#include "task/choice.h"

#define QUEUES_MAX QN_QUEUES_MAX
#define STARTS_MAX 20000
#define WINDOW 1000

struct game {
    struct qn_choice choice;
    struct qn_random random;
    bool is_fast; /* may be drawn in rows */
    size_t queue_count;
    uint32_t weights[QUEUES_MAX];
    int64_t stock[QUEUES_MAX];  /* tasks that a queue holds; negative: without end */
    uint32_t taken[QUEUES_MAX]; /* by the last turn */
    size_t request_count[QUEUES_MAX];
    uint16_t starts[STARTS_MAX];
    size_t start_count;
};

void game_init(struct game *game, const uint32_t *weights, size_t queue_count, uint64_t seed);
/* One exchange; returns how many runs it gave. */
size_t play(struct game *game, size_t room);
/* Every window of starts has the shares of `weights` within 3 % of each queue's own share, or two
 * starts where that is more; four where slots are drawn in rows. The order inside a redraw is
 * undefined, so a window that cuts one at each end may also miss the queue's share of `redrawn_max`
 * slots, twice. */
void assert_windows(const struct game *game, const uint32_t *weights, size_t first,
                    size_t redrawn_max);

#endif
