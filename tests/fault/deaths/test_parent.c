/* SPDX-License-Identifier: MIT */
/* test_parent.c - commands that kill their worker, which is started again at once, among commands
 * that rest: few workers are lost, the culprit alone is archived. And commands that die by
 * themselves, which cost no company. */
#include "lib_deaths.h"

#define WITHIN_MS (test_full() ? 300000 : 120000)
#define SLOTS_OF_CRASHES 8

struct wanted {
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
    return deaths_ended(deaths, NULL, "rest") >= wanted->rested && poll_is_due(wanted) &&
           deaths_poisoned(deaths, "default", "parent") >= wanted->poisoned;
}

static void play_parent(unsigned slots, size_t resting, size_t lost_max)
{
    struct deaths *deaths = deaths_open(0);
    struct wanted wanted = {.rested = resting, .poisoned = 1};
    (void)deaths_put(deaths, "default", "rest", resting / 2);
    (void)deaths_put(deaths, "default", "parent", 1);
    (void)deaths_put(deaths, "default", "rest", resting - resting / 2);
    deaths_add(deaths,
               &(struct deaths_member){.host = "h", .queues = "default", .concurrency = slots});
    int64_t began_ms = test_now_ms();
    if (!deaths_until(deaths, all_ended, &wanted, WITHIN_MS)) {
        fail_msg("%zu of %zu rested, %zu poison; %zu workers died",
                 deaths_ended(deaths, NULL, "rest"), resting,
                 deaths_poisoned(deaths, "default", "parent"), deaths->died);
    }
    print_message("%u slots: %zu workers died, all over after %lld ms\n", slots, deaths->died,
                  (long long)(test_now_ms() - began_ms));
    assert_in_range(deaths->died, 3, lost_max);
    assert_int_equal(deaths_archived(deaths, NULL, NULL), 1);
    deaths_close(deaths);
}

static void command_that_kills_its_worker_costs_three_of_one_slot(void **state)
{
    (void)state;
    play_parent(1, 8, 3);
}

static void command_that_kills_its_worker_costs_seven_of_fifty_slots(void **state)
{
    (void)state;
    play_parent(50, test_full() ? 400 : 100, 7);
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
    struct wanted wanted = {.held = SLOTS_OF_CRASHES / 2, .rested = 1};
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
    cmocka_unit_test(commands_that_die_alone_cost_no_company),
};

DEATHS_MAIN("deaths_parent", tests)
