/* SPDX-License-Identifier: MIT */
#include "lib_choice.h"

#include <string.h>

void game_init(struct game *game, const uint32_t *weights, size_t queue_count, uint64_t seed)
{
    memset(game, 0, sizeof *game);
    game->queue_count = queue_count;
    memcpy(game->weights, weights, queue_count * sizeof *weights);
    for (size_t i = 0; i < queue_count; i++) {
        game->stock[i] = -1;
    }
    qn_random_init_seed(&game->random, seed);
    qn_choice_init(&game->choice, weights, queue_count, false, &game->random);
}

static uint32_t give(struct game *game, size_t queue, uint32_t wanted)
{
    int64_t stock = game->stock[queue];
    uint32_t given = stock >= 0 && stock < (int64_t)wanted ? (uint32_t)stock : wanted;
    game->stock[queue] -= stock >= 0 ? given : 0;
    game->taken[queue] += given;
    for (uint32_t i = 0; i < given; i++) {
        assert_true(game->start_count < STARTS_MAX);
        game->starts[game->start_count++] = (uint16_t)queue;
    }
    return given;
}

/* The runs of a turn start in drawn order, and those of the redraw behind them. */
static void start_in_order(struct game *game, size_t first, const uint16_t *order, size_t room)
{
    uint32_t left[QUEUES_MAX];
    memcpy(left, game->taken, sizeof left);
    size_t at = first;
    for (size_t slot = 0; slot < room; slot++) {
        if (left[order[slot]] > 0) {
            left[order[slot]]--;
            game->starts[at++] = order[slot];
        }
    }
    for (size_t i = 0; i < game->queue_count; i++) {
        for (; left[i] > 0; left[i]--) {
            game->starts[at++] = (uint16_t)i;
        }
    }
    assert_int_equal(at, game->start_count);
}

size_t play(struct game *game, size_t room)
{
    uint16_t order[QN_BATCH_MAX];
    uint32_t quota[QUEUES_MAX];
    bool more[QUEUES_MAX];
    size_t first = game->start_count;
    memset(game->taken, 0, sizeof game->taken);
    qn_choice_draw(&game->choice, room, game->is_fast, order, quota);
    uint32_t weights[QUEUES_MAX];
    qn_choice_redraw_weights(&game->choice, room, quota, weights);
    size_t left = room;
    for (size_t i = 0; i < game->queue_count; i++) {
        game->request_count[i] += quota[i] > 0;
        uint32_t given = give(game, i, quota[i]);
        more[i] = given == quota[i];
        left -= given;
    }
    while (left > 0) {
        uint32_t want[QUEUES_MAX] = {0};
        if (qn_choice_redraw(weights, more, game->queue_count, left, want) == 0) {
            break;
        }
        for (size_t i = 0; i < game->queue_count; i++) {
            uint32_t given = give(game, i, want[i]);
            more[i] = more[i] && given == want[i];
            left -= given;
        }
    }
    start_in_order(game, first, order, room);
    qn_choice_settle(&game->choice, quota, game->taken);
    return room - left;
}

void assert_windows(const struct game *game, const uint32_t *weights, size_t first,
                    size_t redrawn_max)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < game->queue_count; i++) {
        sum += weights[i];
    }
    double counts[QUEUES_MAX] = {0};
    double least = game->is_fast ? 4 : 2;
    for (size_t i = first; i < first + WINDOW - 1 && i < game->start_count; i++) {
        counts[game->starts[i]]++;
    }
    for (size_t at = first; at + WINDOW <= game->start_count; at++) {
        counts[game->starts[at + WINDOW - 1]]++;
        for (size_t i = 0; i < game->queue_count; i++) {
            double share = (double)WINDOW * weights[i] / sum;
            double slack = share * 0.03 < least ? least : share * 0.03;
            slack += 2 * share / WINDOW * (double)redrawn_max;
            if (counts[i] < share - slack || counts[i] > share + slack) {
                fail_msg("window at %zu: queue %zu has %.0f of %.1f starts", at, i, counts[i],
                         share);
            }
        }
        counts[game->starts[at]]--;
    }
}
