/* SPDX-License-Identifier: MIT */
/* lib_scenario.c - plays a scenario of lib_scenario.h: puts the tasks, starts the workers, and
 * asserts the promises, step by step. */
#include "lib_scenario.h"

#include "lib_deaths.h"

#define GOOD_WITHIN_MS 30000
#define OTHER_WITHIN_MS 1000
#define STREAM_GAP_MS 50
/* A hundred tasks at least for an exact count: of fewer the 99th percentile is the last one. */
#define STREAM_MIN_MS (test_full() ? 6000 : 3000)
#define POISON_WITHIN_MS (test_full() ? 600000 : 60000)
#define STREAM_QUEUE "other"

struct play {
    const struct scenario *scenario;
    size_t stream_first;
    int64_t streamed_at_ms;
    size_t good_wanted;
    int64_t polled_at_ms;
};

static void stream(struct deaths *deaths, struct play *play)
{
    if (play->scenario->other && test_now_ms() >= play->streamed_at_ms + STREAM_GAP_MS) {
        play->streamed_at_ms = test_now_ms();
        (void)deaths_put(deaths, STREAM_QUEUE, "good", 1);
    }
}

static bool good_are_done(struct deaths *deaths, void *user)
{
    struct play *play = user;
    stream(deaths, play);
    return deaths_ended(deaths, "default", "good") >= play->good_wanted;
}

static bool time_is_over(struct deaths *deaths, void *user)
{
    stream(deaths, user);
    return false;
}

static bool stream_is_done(struct deaths *deaths, void *user)
{
    (void)user;
    return deaths_ended(deaths, STREAM_QUEUE, "good") == deaths_count(deaths, STREAM_QUEUE, "good");
}

static bool bad_are_poison(struct deaths *deaths, void *user)
{
    struct play *play = user;
    if (test_now_ms() < play->polled_at_ms + 100) {
        return false;
    }
    play->polled_at_ms = test_now_ms();
    return deaths_poisoned(deaths, "default", play->scenario->type) == play->scenario->bad;
}

/* Only a good end after its first death can distinguish a bad task from a broken program. */
static bool bad_have_died(struct deaths *deaths, void *user)
{
    struct play *play = user;
    if (test_now_ms() < play->polled_at_ms + 100) {
        return false;
    }
    play->polled_at_ms = test_now_ms();
    return deaths_charged(deaths, "default", play->scenario->type) == play->scenario->bad;
}

/* Bad ones first, then one and its share of the good ones in turns. */
static void put_all(struct deaths *deaths, const struct scenario *scenario)
{
    size_t share = scenario->good / scenario->bad;
    if (share < 10) {
        (void)deaths_put(deaths, "default", scenario->type, scenario->bad);
        (void)deaths_put(deaths, "default", "good", scenario->good);
        return;
    }
    for (size_t i = 0; i < scenario->bad; i++) {
        (void)deaths_put(deaths, "default", scenario->type, 1);
        (void)deaths_put(deaths, "default", "good", share);
    }
}

static void play_good(struct deaths *deaths, struct play *play)
{
    play->good_wanted = deaths_count(deaths, "default", "good");
    if (!deaths_until(deaths, good_are_done, play, GOOD_WITHIN_MS)) {
        fail_msg("%zu of %zu good tasks are done in time; %zu workers died",
                 deaths_ended(deaths, "default", "good"), play->good_wanted, deaths->died);
    }
}

static void play_other(struct deaths *deaths, struct play *play, size_t first)
{
    if (!play->scenario->other) {
        return;
    }
    (void)deaths_until(deaths, time_is_over, play, STREAM_MIN_MS);
    size_t end = deaths->site.task_count;
    assert_true(deaths_until(deaths, stream_is_done, NULL, GOOD_WITHIN_MS));
    int64_t late_ms = deaths_late_ms(deaths, first, end, 99);
    print_message("  other queue: p50 %lld ms, p99 %lld ms, max %lld ms of %zu\n",
                  (long long)deaths_late_ms(deaths, first, end, 50), (long long)late_ms,
                  (long long)deaths_late_ms(deaths, first, end, 100), end - first);
    assert_in_range(late_ms + OTHER_WITHIN_MS, 0, 2 * OTHER_WITHIN_MS);
}

static void play_poison(struct deaths *deaths, struct play *play)
{
    int64_t began_ms = test_now_ms();
    if (!deaths_until(deaths, bad_are_poison, play, POISON_WITHIN_MS)) {
        fail_msg("%zu of %zu are poison; %zu workers died",
                 deaths_poisoned(deaths, "default", play->scenario->type), play->scenario->bad,
                 deaths->died);
    }
    print_message("  poison after %lld ms; %zu workers died\n",
                  (long long)(test_now_ms() - began_ms), deaths->died);
    assert_int_equal(deaths_archived(deaths, NULL, "good"), 0);
    assert_int_equal(deaths_archived(deaths, NULL, NULL), play->scenario->bad);
}

void scenario_play(const struct scenario *scenario)
{
    struct deaths *deaths = deaths_open(scenario->pace);
    struct play play = {.scenario = scenario};
    const struct deaths_member member = {.host = "h",
                                         .queues =
                                             scenario->other ? "default," STREAM_QUEUE : "default",
                                         .concurrency = scenario->slots};
    print_message("%zu %s, %zu good, %u workers of %u slots, %s\n", scenario->bad, scenario->type,
                  scenario->good, scenario->workers, scenario->slots,
                  scenario->other ? "two queues" : "one queue");
    for (unsigned i = 0; i < scenario->workers; i++) {
        deaths_add(deaths, &member);
    }
    put_all(deaths, scenario);
    int64_t put_ms = test_now_ms();
    size_t first = deaths->site.task_count;
    play_good(deaths, &play);
    print_message("  good done after %lld ms\n", (long long)(test_now_ms() - put_ms));
    play_other(deaths, &play, first);
    if (scenario->good == 0) { /* nothing shows yet that the tasks are bad, not the program */
        assert_int_equal(deaths_archived(deaths, NULL, NULL), 0);
    }
    play.scenario = &(struct scenario){.type = scenario->type, .bad = scenario->bad};
    assert_true(deaths_until(deaths, bad_have_died, &play, 4 * GOOD_WITHIN_MS));
    (void)deaths_put(deaths, "default", "good", 1);
    play_good(deaths, &play);
    play_poison(deaths, &play);
    deaths_close(deaths);
}

void scenario_play_all(const char *type)
{
    static const struct scenario full[] = {
        {.bad = 1, .good = 0, .workers = 1, .slots = 8},
        {.bad = 1, .good = 5, .workers = 2, .slots = 8, .other = true},
        {.bad = 1, .good = 5000, .workers = 1, .slots = 8, .other = true},
        {.bad = 6, .good = 0, .workers = 1, .slots = 8, .other = true},
        {.bad = 6, .good = 0, .workers = 2, .slots = 8},
        {.bad = 6, .good = 5, .workers = 1, .slots = 1},
        {.bad = 6, .good = 5, .workers = 1, .slots = 8, .other = true},
        {.bad = 6, .good = 5, .workers = 2, .slots = 8, .other = true},
        {.bad = 6, .good = 5000, .workers = 1, .slots = 8},
        {.bad = 6, .good = 5000, .workers = 2, .slots = 8, .other = true},
        {.bad = 20, .good = 0, .workers = 1, .slots = 8, .pace = 20},
        {.bad = 20, .good = 5, .workers = 1, .slots = 1},
        {.bad = 20, .good = 5, .workers = 2, .slots = 8, .other = true},
        {.bad = 20, .good = 5000, .workers = 1, .slots = 8, .other = true},
        {.bad = 20, .good = 5000, .workers = 2, .slots = 8},
    };
    for (size_t i = 0; i < TEST_COUNT(full); i++) {
        struct scenario one = full[i];
        one.type = type;
        scenario_play(&one);
    }
}
