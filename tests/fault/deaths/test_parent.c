/* SPDX-License-Identifier: MIT */
/* test_parent.c - commands that kill their worker, which is started again at once, among commands
 * that rest: few workers are lost, the culprit alone is archived. And commands that die by
 * themselves, which cost no company. The same for handlers in children, which may also kill the
 * zygote: that is the end of its worker. */
#include "lib_deaths.h"

#define WITHIN_MS (test_full() ? 300000 : 120000)
#define SLOTS_OF_CRASHES 8

struct wanted {
    const char *killer;
    const char *resting;
    size_t rested;
    size_t poisoned;
    size_t held;
    int64_t polled_at_ms;
};

static bool poll_is_due(struct wanted *wanted)
{
    bool is_due = test_now_ms() >= wanted->polled_at_ms + 100;
    wanted->polled_at_ms = is_due ? test_now_ms() : wanted->polled_at_ms;
    return is_due;
}

static bool all_ended(struct deaths *deaths, void *user)
{
    struct wanted *wanted = user;
    return deaths_ended(deaths, NULL, wanted->resting) >= wanted->rested && poll_is_due(wanted) &&
           deaths_poisoned(deaths, "default", wanted->killer) >= wanted->poisoned;
}

struct play {
    const char *killer;
    const char *resting; /* the type of the others */
    bool prefork;
    unsigned slots;
    size_t count;    /* of the others */
    size_t lost_min; /* workers */
    size_t lost_max;
};

static void play(const struct play *play)
{
    struct deaths *deaths = deaths_open(0);
    struct wanted wanted = {
        .killer = play->killer, .resting = play->resting, .rested = play->count, .poisoned = 1};
    (void)deaths_put(deaths, "default", play->resting, play->count / 2);
    (void)deaths_put(deaths, "default", play->killer, 1);
    (void)deaths_put(deaths, "default", play->resting, play->count - play->count / 2);
    deaths_add(deaths, &(struct deaths_member){.host = "h",
                                               .queues = "default",
                                               .concurrency = play->slots,
                                               .prefork = play->prefork});
    int64_t began_ms = test_now_ms();
    if (!deaths_until(deaths, all_ended, &wanted, WITHIN_MS)) {
        fail_msg("%zu of %zu rested, %zu poison; %zu workers died",
                 deaths_ended(deaths, NULL, play->resting), play->count,
                 deaths_poisoned(deaths, "default", play->killer), deaths->died);
    }
    print_message("%s, %u slots: %zu workers died, %zu of their zygote, all over after %lld ms\n",
                  play->killer, play->slots, deaths->died, deaths->fell,
                  (long long)(test_now_ms() - began_ms));
    assert_in_range(deaths->died, play->lost_min, play->lost_max);
    assert_int_equal(deaths_archived(deaths, NULL, NULL), 1);
    deaths_close(deaths);
}

static void command_that_kills_its_worker_costs_three_of_one_slot(void **state)
{
    (void)state;
    play(&(struct play){"parent", "rest", .slots = 1, .count = 8, .lost_min = 3, .lost_max = 3});
}

static void command_that_kills_its_worker_costs_seven_of_fifty_slots(void **state)
{
    (void)state;
    size_t count = test_full() ? 400 : 100;
    play(&(struct play){"parent", "rest", .slots = 50, .count = count, .lost_min = 3,
                        .lost_max = 7});
}

static const char *const killers[] = {"heir", "usurper", "despot"};

static void child_that_kills_its_parent_costs_itself(void **state)
{
    (void)state;
    play(&(struct play){"orphan", "nap", true, .slots = 4, .count = 24});
}

static void child_that_kills_zygote_or_worker_costs_three_of_one_slot(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(killers); i++) {
        play(&(struct play){killers[i], "nap", true, .slots = 1, .count = 6, .lost_min = 3,
                            .lost_max = 3});
    }
}

static void child_that_kills_zygote_or_worker_costs_seven_of_fifty_slots(void **state)
{
    (void)state;
    size_t count = test_full() ? 400 : 100;
    for (size_t i = 0; i < (test_full() ? TEST_COUNT(killers) : 1); i++) {
        play(&(struct play){killers[i], "nap", true, .slots = 50, .count = count, .lost_min = 3,
                            .lost_max = 7});
    }
}

static bool are_held(struct deaths *deaths, void *user)
{
    return deaths_held(deaths) == ((const struct wanted *)user)->held;
}

/* Were they kept apart, two of them at most would run at a time. */
static void commands_that_die_alone_cost_no_company(void **state)
{
    (void)state;
    struct deaths *deaths = deaths_open(0);
    struct wanted wanted = {
        .killer = "parent", .resting = "rest", .held = SLOTS_OF_CRASHES / 2, .rested = 1};
    (void)deaths_put(deaths, "default", "twice", SLOTS_OF_CRASHES / 2);
    (void)deaths_put(deaths, "default", "rest", 1);
    deaths_add(deaths, &(struct deaths_member){
                           .host = "h", .queues = "default", .concurrency = SLOTS_OF_CRASHES});
    assert_true(deaths_until(deaths, are_held, &wanted, WITHIN_MS));
    assert_int_equal(deaths_charged(deaths, NULL, "twice"), SLOTS_OF_CRASHES / 2);
    /* The other slots are not kept empty meanwhile. */
    (void)deaths_put(deaths, "default", "rest", SLOTS_OF_CRASHES);
    wanted.rested = 1 + SLOTS_OF_CRASHES;
    assert_true(deaths_until(deaths, all_ended, &wanted, WITHIN_MS));
    deaths_release(deaths);
    assert_int_equal(deaths_archived(deaths, NULL, NULL), 0);
    assert_int_equal(deaths->died, 0);
    deaths_close(deaths);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(command_that_kills_its_worker_costs_three_of_one_slot),
    cmocka_unit_test(command_that_kills_its_worker_costs_seven_of_fifty_slots),
    cmocka_unit_test(child_that_kills_its_parent_costs_itself),
    cmocka_unit_test(child_that_kills_zygote_or_worker_costs_three_of_one_slot),
    cmocka_unit_test(child_that_kills_zygote_or_worker_costs_seven_of_fifty_slots),
    cmocka_unit_test(commands_that_die_alone_cost_no_company),
};

DEATHS_MAIN("deaths_parent", tests)
