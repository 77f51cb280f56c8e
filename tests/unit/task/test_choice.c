/* SPDX-License-Identifier: MIT */
/* test_choice.c - the shares of queues, slot by slot; in rows: test_choice_rows.c. */
#include "lib_choice.h"

#include <stdlib.h>
#include <string.h>

static void every_window_of_full_queues_has_the_exact_shares(void **state)
{
    (void)state;
    static const size_t rooms[] = {1, 2, 3, 7, 10, 64, 128};
    const uint32_t weights[] = {6, 3, 1};
    for (size_t i = 0; i < TEST_COUNT(rooms); i++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct game game;
            game_init(&game, weights, 3, seed);
            while (game.start_count < 3000) {
                assert_int_equal(play(&game, rooms[i]), rooms[i]);
            }
            assert_windows(&game, weights, 0, 0);
        }
    }
}

static void shares_hold_when_the_room_changes(void **state)
{
    (void)state;
    const uint32_t weights[] = {6, 3, 1};
    struct game game;
    game_init(&game, weights, 3, 1);
    while (game.start_count < 10000) {
        (void)play(&game, 1 + qn_random_below(&game.random, QN_BATCH_MAX));
    }
    assert_windows(&game, weights, 0, 0);
}

static void first_choice_has_the_probability_of_the_weight(void **state)
{
    (void)state;
    const uint32_t weights[] = {6, 3, 1};
    double counts[3] = {0};
    const int tries = 20000;
    for (int i = 0; i < tries; i++) {
        struct game game;
        game_init(&game, weights, 3, (uint64_t)i);
        (void)play(&game, 1);
        counts[game.starts[0]]++;
    }
    for (size_t i = 0; i < 3; i++) {
        double expected = tries * (double)weights[i] / 10;
        assert_true(counts[i] > expected * 0.94 && counts[i] < expected * 1.06);
    }
}

static void other_queues_keep_their_shares_while_some_are_empty(void **state)
{
    (void)state;
    static const struct {
        uint32_t weights[4];
        bool empty[4];
    } cases[] = {
        {{6, 3, 1, 1}, {true, false, false, false}},
        {{6, 3, 1, 2}, {false, true, false, true}},
        {{4, 4, 3, 1}, {true, true, false, false}},
        {{90, 6, 4, 1}, {true, false, false, true}},
        {{1, 1, 20, 9}, {true, true, false, false}},
        {{1000, 6, 5, 5}, {true, false, false, false}},
        {{1, 30, 20, 10000}, {true, false, false, true}},
    };
    static const size_t rooms[] = {1, 2, 5, 16, 128};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        for (size_t j = 0; j < TEST_COUNT(rooms); j++) {
            struct game game;
            game_init(&game, cases[i].weights, 4, i);
            uint32_t weights[4];
            for (size_t k = 0; k < 4; k++) {
                game.stock[k] = cases[i].empty[k] ? 0 : -1;
                weights[k] = cases[i].empty[k] ? 0 : cases[i].weights[k];
            }
            while (game.start_count < 12000) {
                assert_int_equal(play(&game, rooms[j]), rooms[j]);
            }
            assert_windows(&game, weights, 1000, rooms[j] == 1 ? 0 : rooms[j]);
        }
    }
}

static void empty_queues_are_polled_at_least_half_as_often_as_their_weight(void **state)
{
    (void)state;
    const uint32_t weights[] = {4, 10, 5, 1};
    struct game game;
    game_init(&game, weights, 4, 3);
    game.stock[0] = 0;
    game.stock[2] = 0;
    while (game.start_count < 10000) {
        (void)play(&game, 1);
    }
    assert_true(game.request_count[0] >= 10000 / 2 * 4 / 20);
    assert_true(game.request_count[2] >= 10000 / 2 * 5 / 20);
}

static void queue_that_comes_back_after_a_quiet_time_gets_its_share_and_no_more(void **state)
{
    (void)state;
    static const size_t rooms[] = {1, 5, 64};
    const uint32_t weights[] = {6, 3, 1};
    for (size_t i = 0; i < TEST_COUNT(rooms); i++) {
        for (size_t quiet = 0; quiet < 3; quiet++) {
            struct game game;
            game_init(&game, weights, 3, i);
            game.stock[quiet] = 0;
            while (game.start_count < 5000) {
                (void)play(&game, rooms[i]);
            }
            game.stock[quiet] = -1;
            size_t back_at = game.start_count;
            while (game.start_count < 8000) {
                (void)play(&game, rooms[i]);
            }
            assert_windows(&game, weights, back_at, 0);
        }
    }
}

static void slots_that_nobody_took_change_nothing(void **state)
{
    (void)state;
    const uint32_t weights[] = {6, 3, 1};
    struct game game;
    game_init(&game, weights, 3, 5);
    (void)play(&game, 7);
    int64_t before[3];
    memcpy(before, game.choice.credits, sizeof before);
    for (size_t i = 0; i < 3; i++) {
        game.stock[i] = 0;
    }
    for (size_t room = 1; room < 20; room++) {
        assert_int_equal(play(&game, room), 0);
        assert_memory_equal(before, game.choice.credits, sizeof before);
    }
}

static void room_is_filled_while_any_queue_has_tasks(void **state)
{
    (void)state;
    const uint32_t weights[] = {6, 3, 1};
    struct game game;
    game_init(&game, weights, 3, 7);
    game.stock[0] = 2;
    game.stock[1] = 5;
    game.stock[2] = 100;
    assert_int_equal(play(&game, 50), 50);
    assert_int_equal(game.taken[0], 2);
    assert_int_equal(game.taken[1], 5);
    assert_int_equal(game.taken[2], 43);
    assert_int_equal(play(&game, 128), 57);
}

static void credits_stay_bounded_whatever_comes(void **state)
{
    (void)state;
    const uint32_t weights[] = {7, 1, 30, 12, 5};
    struct game game;
    game_init(&game, weights, 5, test_seed());
    for (int i = 0; i < 20000; i++) {
        size_t queue = qn_random_below(&game.random, 5);
        game.stock[queue] = qn_random_below(&game.random, 2) == 0 ? -1 : (int64_t)(i % 13);
        game.start_count = 0;
        (void)play(&game, 1 + qn_random_below(&game.random, 30));
        for (size_t j = 0; j < 5; j++) {
            assert_true(llabs(game.choice.credits[j]) < INT64_C(55) * 60);
        }
    }
}

static void strict_polls_every_queue_for_the_whole_room(void **state)
{
    (void)state;
    const uint32_t weights[] = {6, 3, 1};
    struct qn_random random;
    struct qn_choice choice;
    uint32_t quota[3];
    qn_random_init_seed(&random, 1);
    qn_choice_init(&choice, weights, 3, true, &random);
    qn_choice_draw(&choice, 9, false, NULL, quota);
    const uint32_t taken[] = {4, 5, 0};
    qn_choice_settle(&choice, quota, taken);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(quota[i], 9);
    }
}

static void draw_lists_each_slot_of_the_quotas_once(void **state)
{
    (void)state;
    const uint32_t weights[] = {6, 3, 1};
    struct qn_random random;
    struct qn_choice choice;
    qn_random_init_seed(&random, 2);
    qn_choice_init(&choice, weights, 3, false, &random);
    for (size_t room = 0; room <= QN_BATCH_MAX; room++) {
        uint16_t order[QN_BATCH_MAX];
        uint32_t quota[3];
        uint32_t counts[3] = {0};
        qn_choice_draw(&choice, room, false, order, quota);
        for (size_t slot = 0; slot < room; slot++) {
            counts[order[slot]]++;
        }
        assert_memory_equal(counts, quota, sizeof counts);
    }
}

static void redraw_shares_by_weight_among_those_that_have_more(void **state)
{
    (void)state;
    static const struct {
        bool more[3];
        size_t room;
        uint32_t want[3];
    } cases[] = {{{true, true, true}, 10, {6, 3, 1}},    {{true, true, true}, 1, {1, 0, 0}},
                 {{false, true, true}, 4, {0, 3, 1}},    {{false, true, true}, 1, {0, 1, 0}},
                 {{false, true, true}, 6, {0, 5, 1}},    {{false, false, true}, 128, {0, 0, 128}},
                 {{true, false, true}, 5, {4, 0, 1}},    {{true, true, true}, 0, {0, 0, 0}},
                 {{true, true, false}, 128, {85, 43, 0}}};
    const uint32_t weights[] = {6, 3, 1};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint32_t want[3] = {100, 200, 300};
        size_t placed = qn_choice_redraw(weights, cases[i].more, 3, cases[i].room, want);
        assert_int_equal(placed, cases[i].room);
        for (size_t j = 0; j < 3; j++) {
            assert_int_equal(want[j], (j + 1) * 100 + cases[i].want[j]);
        }
    }
}

static void redraw_places_nothing_when_no_queue_is_left(void **state)
{
    (void)state;
    const uint32_t weights[] = {6, 3};
    const bool more[] = {false, false};
    uint32_t want[2] = {0};
    assert_int_equal(qn_choice_redraw(weights, more, 2, 10, want), 0);
    assert_int_equal(want[0] + want[1], 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(empty_queues_are_polled_at_least_half_as_often_as_their_weight),
    cmocka_unit_test(queue_that_comes_back_after_a_quiet_time_gets_its_share_and_no_more),
    cmocka_unit_test(slots_that_nobody_took_change_nothing),
    cmocka_unit_test(room_is_filled_while_any_queue_has_tasks),
    cmocka_unit_test(credits_stay_bounded_whatever_comes),
    cmocka_unit_test(strict_polls_every_queue_for_the_whole_room),
    cmocka_unit_test(draw_lists_each_slot_of_the_quotas_once),
    cmocka_unit_test(redraw_shares_by_weight_among_those_that_have_more),
    cmocka_unit_test(redraw_places_nothing_when_no_queue_is_left),
    cmocka_unit_test(every_window_of_full_queues_has_the_exact_shares),
    cmocka_unit_test(shares_hold_when_the_room_changes),
    cmocka_unit_test(first_choice_has_the_probability_of_the_weight),
    cmocka_unit_test(other_queues_keep_their_shares_while_some_are_empty),
};

TEST_MAIN(tests)
