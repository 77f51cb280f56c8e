/* SPDX-License-Identifier: MIT */
/* test_choice_rows.c - many queues whose tasks are over at once: slots are drawn in rows, and the
 * shares of any thousand starts are the same. */
#include "lib_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 50 };

static size_t room_of(struct game *game, size_t room)
{
    return room > 0
               ? room
               : QN_BATCH_WORTH + qn_random_below(&game->random, QN_BATCH_MAX - QN_BATCH_WORTH + 1);
}

/* room: of each exchange; 0: another one each time. */
static void play_until(struct game *game, size_t start_count, size_t room)
{
    size_t next = room_of(game, room);
    while (game->start_count + next <= start_count) {
        assert_int_equal(play(game, next), next);
        next = room_of(game, room);
    }
}

enum pattern { EQUAL, STEPS, ONE_HEAVY, FEW_HEAVY, FALLING, VERY_LIGHT, PATTERN_COUNT };

static uint32_t weight_of(enum pattern pattern, size_t i, size_t queue_count)
{
    switch (pattern) {
    case STEPS:
        return (uint32_t)(1 + i % 7 * 3);
    case ONE_HEAVY:
        return i == 0 ? 100 : 1;
    case FEW_HEAVY:
        return i == 0 ? 100 : i < 4 ? 7 : 1;
    case FALLING:
        return (uint32_t)(queue_count - i);
    case VERY_LIGHT:
        return i == 3 ? 1 : QN_WEIGHT_MAX;
    case EQUAL:
    case PATTERN_COUNT:
        break;
    }
    return 1;
}

static void init(struct game *game, enum pattern pattern, size_t queue_count, uint64_t seed)
{
    uint32_t weights[QUEUES_MAX];
    for (size_t i = 0; i < queue_count; i++) {
        weights[i] = weight_of(pattern, i, queue_count);
    }
    game_init(game, weights, queue_count, seed);
    game->is_fast = true;
}

static void check_windows(const size_t *counts, size_t count, bool apart)
{
    static const size_t rooms[] = {QN_BATCH_WORTH, 100, QN_BATCH_MAX, 0};
    for (size_t pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < TEST_COUNT(rooms); k++) {
                struct game game;
                init(&game, (enum pattern)pattern, counts[i], k);
                if (apart) {
                    qn_choice_ask_apart(&game.choice);
                }
                play_until(&game, 8000, rooms[k]);
                assert_windows(&game, game.weights, 0, 0);
            }
        }
    }
}

static void every_window_of_many_full_queues_has_the_shares(void **state)
{
    (void)state;
    static const size_t counts[] = {9, 12, 20, 60, 100, 256};
    check_windows(counts, TEST_COUNT(counts), false);
}

/* How many queues an exchange took from, and the most that it took from one. */
static size_t used_by(const struct game *game, uint32_t *ret_most)
{
    size_t used = 0;
    *ret_most = 0;
    for (size_t i = 0; i < game->queue_count; i++) {
        used += game->taken[i] > 0 ? 1 : 0;
        *ret_most = game->taken[i] > *ret_most ? game->taken[i] : *ret_most;
    }
    return used;
}

static void much_room_takes_from_some_of_many_queues(void **state)
{
    (void)state;
    struct game game;
    uint32_t most;
    init(&game, EQUAL, 20, 1);
    for (int i = 0; i < 50; i++) {
        (void)play(&game, QN_BATCH_MAX);
        assert_in_range(used_by(&game, &most), 3, 4);
        assert_in_range(most, 2, ROW);
    }
}

static void slots_are_drawn_one_by_one_where_a_row_would_delay(void **state)
{
    (void)state;
    static const struct {
        size_t queue_count;
        size_t room;
        bool is_fast;
    } cases[] = {{20, QN_BATCH_WORTH - 1, true},
                 {20, 10, true},
                 {20, QN_BATCH_MAX, false},
                 {8, QN_BATCH_MAX, true}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct game game;
        init(&game, EQUAL, cases[i].queue_count, i);
        game.is_fast = cases[i].is_fast;
        size_t round = cases[i].room / cases[i].queue_count;
        for (int turn = 0; turn < 50; turn++) {
            uint32_t most;
            (void)play(&game, cases[i].room);
            (void)used_by(&game, &most);
            assert_in_range(most, round, round + 2);
        }
    }
}

/* What rows left unbalanced is settled by rows. */
static void slow_worker_alternates_at_once_after_it_was_fast(void **state)
{
    (void)state;
    struct game game;
    init(&game, EQUAL, 20, 1);
    for (int turn = 0; turn < 100; turn++) {
        game.is_fast = true;
        (void)play(&game, QN_BATCH_MAX);
        game.is_fast = false;
        uint32_t counts[20] = {0};
        for (int slot = 0; slot < 20; slot++) {
            (void)play(&game, 1);
            counts[game.starts[game.start_count - 1]]++;
        }
        for (size_t i = 0; i < 20; i++) {
            assert_in_range(counts[i], 0, 2);
        }
    }
    double counts[20] = {0};
    for (size_t i = 0; i < game.start_count; i++) {
        counts[game.starts[i]]++;
    }
    for (size_t i = 0; i < 20; i++) {
        assert_true(fabs(counts[i] - (double)game.start_count / 20) <= ROW);
    }
}

static void other_queues_keep_their_shares_while_some_of_many_are_empty(void **state)
{
    (void)state;
    for (size_t pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        for (size_t every = 2; every <= 7; every++) {
            struct game game;
            uint32_t weights[QUEUES_MAX];
            init(&game, (enum pattern)pattern, 20, every);
            double sum = 0;
            double counts[20] = {0};
            for (size_t i = 0; i < 20; i++) {
                game.stock[i] = i % every == 0 ? 0 : -1;
                weights[i] = i % every == 0 ? 0 : game.weights[i];
                sum += weights[i];
            }
            play_until(&game, STARTS_MAX, QN_BATCH_MAX);
            for (size_t i = 0; i < game.start_count; i++) {
                counts[game.starts[i]]++;
            }
            for (size_t i = 0; i < 20; i++) {
                double share = (double)game.start_count * weights[i] / sum;
                assert_true(fabs(counts[i] - share) <= 2 * ROW);
            }
        }
    }
}

static void empty_one_of_many_queues_is_polled_every_other_round(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct game game;
        init(&game, EQUAL, 20, seed);
        game.stock[3] = 0;
        play_until(&game, STARTS_MAX / 2, QN_BATCH_MAX);
        assert_true(game.request_count[3] >= STARTS_MAX / 2 / (20 * ROW) / 2);
        /* When it has tasks again it gets its share, and no more than a row besides. */
        size_t back_at = game.start_count;
        game.stock[3] = -1;
        play_until(&game, STARTS_MAX, QN_BATCH_MAX);
        double count = 0;
        for (size_t at = back_at; at < game.start_count; at++) {
            count += game.starts[at] == 3 ? 1 : 0;
        }
        assert_true(fabs(count - (double)(game.start_count - back_at) / 20) <= 2 * ROW);
    }
}

/* What an empty queue could not give comes from queues that are asked anyway, as long as these have
 * tasks, and from all others then. */
static void row_of_an_empty_queue_is_taken_from_those_that_are_asked_anyway(void **state)
{
    (void)state;
    struct game game;
    uint32_t most;
    init(&game, EQUAL, 20, 1);
    for (size_t i = 0; i < 20; i += 2) {
        game.stock[i] = 0;
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(play(&game, QN_BATCH_MAX), QN_BATCH_MAX);
        assert_in_range(used_by(&game, &most), 1, 12);
    }
    for (size_t only = 0; only < 20; only++) {
        for (size_t i = 0; i < 20; i++) {
            game.stock[i] = i == only ? 200 : 0;
        }
        game.start_count = 0;
        assert_int_equal(play(&game, QN_BATCH_MAX), QN_BATCH_MAX);
        assert_int_equal(play(&game, QN_BATCH_MAX), 200 - QN_BATCH_MAX);
    }
}

static void credits_of_rows_stay_bounded_whatever_comes(void **state)
{
    (void)state;
    struct game game;
    init(&game, STEPS, 20, test_seed());
    for (int i = 0; i < 20000; i++) {
        size_t queue = qn_random_below(&game.random, 20);
        game.stock[queue] = qn_random_below(&game.random, 2) == 0 ? -1 : (int64_t)(i % 13);
        game.is_fast = i / 8 % 3 != 0;
        game.start_count = 0;
        (void)play(&game, room_of(&game, 0));
        for (size_t j = 0; j < 20; j++) {
            int64_t max = (int64_t)game.choice.weight_sum * 2000;
            assert_true(llabs(game.choice.credits[j]) < max);
            assert_true(llabs(game.choice.other_credits[j]) < max);
        }
    }
}

/* Where each queue is asked by a call of its own, few queues are drawn in rows, too, and in longer
 * ones. */
static void every_window_of_queues_that_are_asked_apart_has_the_shares(void **state)
{
    (void)state;
    static const size_t counts[] = {2, 3, 8, 9, 20, 256};
    check_windows(counts, TEST_COUNT(counts), true);
}

static void nearly_each_exchange_is_about_one_of_few_queues_that_are_asked_apart(void **state)
{
    (void)state;
    for (size_t queue_count = 2; queue_count <= 8; queue_count++) {
        struct game game;
        uint32_t most;
        size_t used = 0;
        init(&game, EQUAL, queue_count, queue_count);
        qn_choice_ask_apart(&game.choice);
        enum { TURNS = 100 };
        for (int i = 0; i < TURNS; i++) {
            (void)play(&game, QN_BATCH_MAX);
            used += used_by(&game, &most);
        }
        /* Besides one for each exchange, one for each row that begins within one. */
        size_t rows = TURNS * QN_BATCH_MAX * queue_count / 1000;
        assert_in_range(used, TURNS, TURNS + rows + queue_count);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_window_of_many_full_queues_has_the_shares),
    cmocka_unit_test(much_room_takes_from_some_of_many_queues),
    cmocka_unit_test(slots_are_drawn_one_by_one_where_a_row_would_delay),
    cmocka_unit_test(slow_worker_alternates_at_once_after_it_was_fast),
    cmocka_unit_test(other_queues_keep_their_shares_while_some_of_many_are_empty),
    cmocka_unit_test(empty_one_of_many_queues_is_polled_every_other_round),
    cmocka_unit_test(row_of_an_empty_queue_is_taken_from_those_that_are_asked_anyway),
    cmocka_unit_test(credits_of_rows_stay_bounded_whatever_comes),
    cmocka_unit_test(every_window_of_queues_that_are_asked_apart_has_the_shares),
    cmocka_unit_test(nearly_each_exchange_is_about_one_of_few_queues_that_are_asked_apart),
};

TEST_MAIN(tests)
