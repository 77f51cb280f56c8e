/* SPDX-License-Identifier: MIT */
/* test_parent.c - commands that kill their worker, which is started again at once, among commands
 * that rest: few workers are lost, the culprit alone is archived. The same for handlers in
 * children, which may also kill the zygote: that is the end of its worker. One that kills its own
 * guard dies alone. And commands that die by themselves, which cost no company. */
#include "lib_deaths.h"

#define WITHIN_MS (test_full() ? 300000 : 120000)
/* Charged tasks wait for seconds, which the clock makes short. */
#define PACE (test_full() ? 0 : 4)
#define MANY (test_full() ? 400 : 100)
#define SLOTS_OF_CRASHES 8

/* Each has a queue and a worker of its own; all are on at the same time. */
struct play {
    const char *killer;
    const char *resting; /* the type of the others */
    bool prefork;
    unsigned slots;
    size_t count;    /* of the others; 0: MANY */
    size_t lost_min; /* workers */
    size_t lost_max;
    bool only_full;
};
static const struct play plays[] = {
    {"parent", "rest", false, 1, 8, 3, 3},     {"heir", "nap", true, 1, 6, 3, 3},
    {"usurper", "nap", true, 1, 6, 3, 3},      {"despot", "nap", true, 1, 6, 3, 3},
    {"orphan", "nap", true, 4, 24, 0, 0},      {"parent", "rest", false, 50, 0, 3, 7},
    {"heir", "nap", true, 50, 0, 3, 7},        {"usurper", "nap", true, 50, 0, 3, 7, true},
    {"despot", "nap", true, 50, 0, 3, 7, true}};
#define PLAY_COUNT TEST_COUNT(plays)

struct stage {
    struct {
        char queue[16];
        bool is_on;
        int64_t over_ms; /* since the beginning; 0: it is not over */
    } plays[PLAY_COUNT];
    int64_t began_ms;
    int64_t polled_at_ms;
};

static size_t count_of(const struct play *play)
{
    return play->count != 0 ? play->count : MANY;
}

static void begin(struct deaths *deaths, const struct play *play, const char *queue)
{
    size_t count = count_of(play);
    (void)deaths_put(deaths, queue, play->resting, count / 2);
    (void)deaths_put(deaths, queue, play->killer, 1);
    (void)deaths_put(deaths, queue, play->resting, count - count / 2);
    deaths_add(deaths, &(struct deaths_member){.host = queue,
                                               .queues = queue,
                                               .concurrency = play->slots,
                                               .prefork = play->prefork});
}

static bool are_over(struct deaths *deaths, void *user)
{
    struct stage *stage = user;
    bool are = true;
    if (test_now_ms() < stage->polled_at_ms + 100) {
        return false;
    }
    stage->polled_at_ms = test_now_ms();
    for (size_t i = 0; i < PLAY_COUNT; i++) {
        const char *queue = stage->plays[i].queue;
        if (stage->plays[i].is_on && stage->plays[i].over_ms == 0 &&
            deaths_ended(deaths, queue, plays[i].resting) == count_of(&plays[i]) &&
            deaths_poisoned(deaths, queue, plays[i].killer) == 1) {
            stage->plays[i].over_ms = test_now_ms() - stage->began_ms;
        }
        are = are && (!stage->plays[i].is_on || stage->plays[i].over_ms != 0);
    }
    return are;
}

/* The members are in the order of the plays that are on. */
static void show(struct deaths *deaths, const struct stage *stage)
{
    size_t member = 0;
    for (size_t i = 0; i < PLAY_COUNT; i++) {
        if (stage->plays[i].is_on) {
            const struct deaths_member *worker = &deaths->members[member++];
            const char *queue = worker->queues;
            print_message("%s, %u slots: %zu workers died, %zu of their zygote, %zu of %zu rested, "
                          "%zu poison, over after %lld ms\n",
                          plays[i].killer, plays[i].slots, worker->died, worker->fell,
                          deaths_ended(deaths, queue, plays[i].resting), count_of(&plays[i]),
                          deaths_poisoned(deaths, queue, plays[i].killer),
                          (long long)stage->plays[i].over_ms);
        }
    }
}

static void killers_of_parents_cost_three_workers_of_one_slot_and_seven_of_fifty(void **state)
{
    (void)state;
    struct deaths *deaths = deaths_open(PACE);
    struct stage stage = {.began_ms = test_now_ms()};
    for (size_t i = 0; i < PLAY_COUNT; i++) {
        stage.plays[i].is_on = !plays[i].only_full || test_full();
        (void)snprintf(stage.plays[i].queue, sizeof stage.plays[i].queue, "play-%zu", i);
        if (stage.plays[i].is_on) {
            begin(deaths, &plays[i], stage.plays[i].queue);
        }
    }
    bool are = deaths_until(deaths, are_over, &stage, WITHIN_MS);
    show(deaths, &stage);
    assert_true(are);
    const struct deaths_member *member = deaths->members;
    for (size_t i = 0; i < PLAY_COUNT; i++) {
        if (stage.plays[i].is_on) {
            assert_in_range(member->died, plays[i].lost_min, plays[i].lost_max);
            assert_int_equal(deaths_archived(deaths, member->queues, NULL), 1);
            member++;
        }
    }
    deaths_close(deaths);
}

struct wanted {
    size_t rested;
    size_t held;
};

static bool have_rested(struct deaths *deaths, void *user)
{
    return deaths_ended(deaths, NULL, "rest") >= ((const struct wanted *)user)->rested;
}

static bool are_held(struct deaths *deaths, void *user)
{
    return deaths_held(deaths) == ((const struct wanted *)user)->held;
}

/* Were they kept apart, two of them at most would run at a time. */
static void commands_that_die_alone_cost_no_company(void **state)
{
    (void)state;
    struct deaths *deaths = deaths_open(PACE);
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
    assert_true(deaths_until(deaths, have_rested, &wanted, WITHIN_MS));
    deaths_release(deaths);
    assert_int_equal(deaths_archived(deaths, NULL, NULL), 0);
    assert_int_equal(deaths->died, 0);
    deaths_close(deaths);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(killers_of_parents_cost_three_workers_of_one_slot_and_seven_of_fifty),
    cmocka_unit_test(commands_that_die_alone_cost_no_company),
};

DEATHS_MAIN("deaths_parent", tests)
