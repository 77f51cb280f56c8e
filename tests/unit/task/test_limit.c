/* SPDX-License-Identifier: MIT */
/* test_limit.c - how limits are written, and how many starts each allows at any moment. */
#include <string.h>

#include "lib_test.h"
#include "task/limit.h"

#define NOW_MS INT64_C(1800000000000)

static struct qn_limit limit_of(const char *text)
{
    struct qn_limit limit;
    quern_error err = {0};
    assert_ok(qn_limit_parse(text, &limit, &err), err);
    return limit;
}

/* All ten starts of a limit at once. */
static void take_all(const struct qn_limit *limit, struct qn_limit_use *use)
{
    for (int n = 0; n < 10; n++) {
        qn_limit_take(limit, use, NOW_MS);
    }
}

static void limits_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t count;
        int64_t period_ms;
        int64_t burst;
        const char *shown;
    } cases[] = {
        {"10", 10, 0, 0, "10"},
        {"0", 0, 0, 0, "0"},
        {"1000000", 1000000, 0, 0, "1000000"},
        {"100/s", 100, 1000, 0, "100/1s"},
        {"100/1s", 100, 1000, 0, "100/1s"},
        {" 100 / 1m30s ", 100, 90000, 0, "100/1m30s"},
        {"5/250ms", 5, 250, 0, "5/250ms"},
        {"1/31d", 1, QN_LIMIT_PERIOD_MS_MAX, 0, "1/31d"},
        {"100/1m burst 20", 100, 60000, 20, "100/1m burst 20"},
        {"100/m  burst  1", 100, 60000, 1, "100/1m burst 1"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_limit limit = limit_of(cases[i].text);
        char shown[QN_LIMIT_TEXT_SIZE];
        assert_int_equal(limit.count, cases[i].count);
        assert_int_equal(limit.period_ms, cases[i].period_ms);
        assert_int_equal(limit.burst, cases[i].burst);
        qn_limit_format(&limit, shown);
        assert_string_equal(shown, cases[i].shown);
    }
}

static void wrong_limits_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "-1",
        "x",
        "1000001",
        "0/s",
        "10/",
        "10/0s",
        "10/32d",
        "10/x",
        "10 20",
        "10burst 5",
        "10 burst 5",
        "10/s burst",
        "10/s burst 0",
        "10/s burst 1000001",
        "10/s burst 5 x",
        "10/s 5",
        "1.5",
        "99999999999999999999",
    };
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct qn_limit limit;
        quern_error err = {0};
        if (qn_limit_parse(texts[i], &limit, &err) != QUERN_E_INVALID) {
            fail_msg("\"%s\" was taken", texts[i]);
        }
        assert_true(err.text[0] != '\0');
    }
}

/* Starts all that may start at each step. */
struct drive {
    int64_t starts[20000]; /* when each was */
    size_t count;
    int64_t now_ms; /* where it begins */
};

static void drive(struct drive *d, const struct qn_limit *limit, struct qn_limit_use *use,
                  int64_t until_ms, int64_t step_ms)
{
    for (int64_t now_ms = d->now_ms; now_ms < until_ms; now_ms += step_ms) {
        while (qn_limit_room(limit, use, now_ms) > 0) {
            assert_int_equal(qn_limit_wait_ms(limit, use, now_ms), 0);
            qn_limit_take(limit, use, now_ms);
            assert_true(d->count < TEST_COUNT(d->starts));
            d->starts[d->count++] = now_ms;
        }
        assert_true(qn_limit_wait_ms(limit, use, now_ms) > 0);
    }
}

static size_t most_in_a_window(const struct drive *d, int64_t period_ms)
{
    size_t most = 0;
    size_t first = 0;
    for (size_t last = 0; last < d->count; last++) {
        while (d->starts[last] - d->starts[first] >= period_ms) {
            first++;
        }
        most = last - first + 1 > most ? last - first + 1 : most;
    }
    return most;
}

static void no_window_has_more_starts_than_its_limit(void **state)
{
    (void)state;
    static const char *const texts[] = {"100/1s", "7/1s",   "1/1s",     "50/100ms",
                                        "3/63ms", "3/10ms", "10/997ms", "100/1m"};
    static struct drive d;
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        for (int64_t step_ms = 1; step_ms < 200; step_ms += 37) {
            struct qn_limit limit = limit_of(texts[i]);
            struct qn_limit_use use = {0};
            int64_t until_ms = NOW_MS + 10 * limit.period_ms;
            d.now_ms = NOW_MS;
            d.count = 0;
            drive(&d, &limit, &use, until_ms, step_ms);
            assert_int_equal(most_in_a_window(&d, limit.period_ms), limit.count);
        }
    }
}

static void window_that_is_used_up_gives_almost_all_of_its_limit(void **state)
{
    (void)state;
    static struct drive d;
    const struct qn_limit limit = limit_of("100/1s");
    struct qn_limit_use use = {0};
    d.now_ms = NOW_MS;
    d.count = 0;
    drive(&d, &limit, &use, NOW_MS + 100000, 1);
    assert_true(d.count <= 10000);
    assert_true(d.count >= 9700);
}

static void bucket_gives_its_burst_then_its_rate_exactly(void **state)
{
    (void)state;
    static struct drive d;
    const struct qn_limit limit = limit_of("7/1s burst 20");
    struct qn_limit_use use = {0};
    d.now_ms = NOW_MS;
    d.count = 0;
    drive(&d, &limit, &use, NOW_MS + 1, 1);
    assert_int_equal(d.count, 20);
    assert_int_equal(qn_limit_wait_ms(&limit, &use, NOW_MS), 143); /* 1000 / 7 */
    d.now_ms = NOW_MS + 1;
    drive(&d, &limit, &use, NOW_MS + 100000, 1);
    assert_int_equal(d.count, 20 + 699);
    assert_int_equal(qn_limit_room(&limit, &use, NOW_MS + 1000000), 20);
}

static void wait_ends_when_the_next_may_start_and_not_before(void **state)
{
    (void)state;
    static const char *const texts[] = {"3/1s", "3/1s burst 2", "1000/1m burst 1", "5/63ms"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        const struct qn_limit limit = limit_of(texts[i]);
        struct qn_limit_use use = {0};
        int64_t now_ms = NOW_MS;
        for (int round = 0; round < 50; round++) {
            while (qn_limit_room(&limit, &use, now_ms) > 0) {
                qn_limit_take(&limit, &use, now_ms);
            }
            int64_t wait_ms = qn_limit_wait_ms(&limit, &use, now_ms);
            struct qn_limit_use early = use;
            assert_true(wait_ms > 0);
            assert_int_equal(qn_limit_room(&limit, &early, now_ms + wait_ms - 1), 0);
            now_ms += wait_ms;
            assert_true(qn_limit_room(&limit, &use, now_ms) > 0);
        }
    }
}

static void clock_that_is_turned_frees_nothing_early(void **state)
{
    (void)state;
    static const char *const texts[] = {"10/1m", "10/1m burst 10"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        const struct qn_limit limit = limit_of(texts[i]);
        struct qn_limit_use use = {0};
        take_all(&limit, &use);
        int64_t back_ms = NOW_MS - 3600000;
        assert_int_equal(qn_limit_room(&limit, &use, back_ms), 0);
        assert_true(qn_limit_wait_ms(&limit, &use, back_ms) <= 61000);
        assert_int_equal(qn_limit_room(&limit, &use, back_ms + 61000), 10);
        /* Forward: one full window or bucket, no more. */
        assert_int_equal(qn_limit_room(&limit, &use, NOW_MS + 3600000), 10);
    }
}

static void start_that_is_given_back_counts_no_more(void **state)
{
    (void)state;
    static const char *const texts[] = {"10/1m", "10/1m burst 10"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        const struct qn_limit limit = limit_of(texts[i]);
        struct qn_limit_use use = {0};
        take_all(&limit, &use);
        qn_limit_give_back(&limit, &use, NOW_MS + 100, 100);
        assert_int_equal(qn_limit_room(&limit, &use, NOW_MS + 100), 1);
        /* Long after, it has been paid back: nothing is returned twice. */
        qn_limit_take(&limit, &use, NOW_MS + 600000);
        qn_limit_give_back(&limit, &use, NOW_MS + 600000, 600000);
        assert_int_equal(qn_limit_used(&limit, &use, NOW_MS + 600000), 1);
    }
}

static void use_is_nothing_from_its_clear_moment_on(void **state)
{
    (void)state;
    static const char *const texts[] = {"10/1m", "10/1m burst 10"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        const struct qn_limit limit = limit_of(texts[i]);
        struct qn_limit_use use = {0};
        for (int n = 0; n < 10; n++) {
            qn_limit_take(&limit, &use, NOW_MS + 1000 * n);
        }
        int64_t clear_at_ms = qn_limit_clear_at_ms(&limit, &use, NOW_MS + 9000);
        struct qn_limit_use early = use;
        assert_int_equal(qn_limit_used(&limit, &early, clear_at_ms - 1), 1);
        assert_int_equal(qn_limit_used(&limit, &use, clear_at_ms), 0);
    }
}

static void use_of_another_period_is_forgotten(void **state)
{
    (void)state;
    const struct qn_limit minute = limit_of("10/1m");
    const struct qn_limit slower = limit_of("5/1m");
    const struct qn_limit hour = limit_of("10/1h");
    struct qn_limit_use use = {0};
    for (int n = 0; n < 7; n++) {
        qn_limit_take(&minute, &use, NOW_MS);
    }
    assert_int_equal(qn_limit_room(&slower, &use, NOW_MS), 0);
    assert_int_equal(qn_limit_room(&minute, &use, NOW_MS), 3);
    assert_int_equal(qn_limit_room(&hour, &use, NOW_MS), 10);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(limits_are_read_and_written),
    cmocka_unit_test(wrong_limits_are_refused),
    cmocka_unit_test(no_window_has_more_starts_than_its_limit),
    cmocka_unit_test(window_that_is_used_up_gives_almost_all_of_its_limit),
    cmocka_unit_test(bucket_gives_its_burst_then_its_rate_exactly),
    cmocka_unit_test(wait_ends_when_the_next_may_start_and_not_before),
    cmocka_unit_test(clock_that_is_turned_frees_nothing_early),
    cmocka_unit_test(start_that_is_given_back_counts_no_more),
    cmocka_unit_test(use_is_nothing_from_its_clear_moment_on),
    cmocka_unit_test(use_of_another_period_is_forgotten),
};

TEST_MAIN(tests)
