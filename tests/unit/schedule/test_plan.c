/* SPDX-License-Identifier: MIT */
/* test_plan.c - plans against a walk that goes from tick to tick and knows no windows: by hand, in
 * the nights in which clocks change, and with random expressions, policies and downtimes. */
#include "schedule/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text/moment.h"
#include "base/text/number.h"
#include "lib_test.h"

#define WALK_MAX 40000
#define DAY_S 86400

static struct qn_zones zones; /* for all tests */
static int64_t walked[WALK_MAX];

static int64_t moment_s(const char *text)
{
    int64_t at_ms;
    assert_int_equal(qn_moment_parse(text, &at_ms, NULL), QUERN_OK);
    return at_ms / 1000;
}

/* An entry: its terms and what they point to. */
struct entry {
    struct qn_cron cron;
    struct qn_plan_terms terms;
    const char *text;
};

static void entry_init(struct entry *entry, const char *text, const char *zone_name)
{
    const struct qn_zone *zone = NULL;
    size_t blanks = 0;
    quern_error err = {0};
    for (const char *at = text; *at != '\0'; at++) {
        blanks += *at == ' ';
    }
    if (zones.folder == NULL) {
        assert_ok(qn_zones_init(&zones, TEST_DATA "/zoneinfo", &err), err);
    }
    *entry = (struct entry){.text = text};
    assert_ok(qn_cron_parse(text, blanks == 5 ? QN_CRON_SECONDS : 0, &entry->cron, &err), err);
    assert_ok(qn_zones_get(&zones, zone_name, &zone, &err), err);
    entry->terms = (struct qn_plan_terms){.cron = &entry->cron, .zone = zone, .late_ms = 60000};
}

/* The tick behind this one, found without plan.c. */
static bool naive_next(const struct qn_plan_terms *terms, int64_t after_s, int64_t *ret_s)
{
    if (terms->cron->every_s != 0) {
        int64_t tick_s = terms->created_s + terms->cron->every_s;
        while (tick_s <= after_s) {
            tick_s += terms->cron->every_s;
        }
        *ret_s = tick_s;
        return true;
    }
    int64_t next_ms;
    bool found = qn_cron_next(terms->cron, terms->zone, after_s * 1000, &next_ms);
    *ret_s = next_ms / 1000;
    return found;
}

/* All due ticks into `walked`; WALK_MAX: too many. */
static size_t naive_walk(const struct qn_plan_terms *terms, int64_t now_s)
{
    size_t count = 0;
    int64_t at_s = terms->last_s;
    int64_t every_s = terms->cron->every_s;
    bool found = naive_next(terms, at_s, &at_s);
    while (count < WALK_MAX && found && at_s <= now_s) {
        walked[count++] = at_s;
        if (every_s != 0) {
            at_s += every_s;
        } else {
            found = naive_next(terms, at_s, &at_s);
        }
    }
    return count;
}

static void expect_like_walk(const struct entry *entry, int64_t now_ms, const struct qn_plan *plan)
{
    const struct qn_plan_terms *terms = &entry->terms;
    size_t due = naive_walk(terms, now_ms / 1000);
    size_t on_time = 0;
    while (on_time < due && walked[due - 1 - on_time] * 1000 + terms->late_ms >= now_ms) {
        on_time++;
    }
    size_t wanted = on_time > (size_t)terms->catch_up ? on_time : (size_t)terms->catch_up;
    wanted = wanted > due ? due : wanted;
    size_t skipped = due - wanted;
    bool more = wanted > QN_PLAN_TICKS_MAX;
    size_t count = more ? QN_PLAN_TICKS_MAX : wanted;
    int64_t last_s = count > 0 ? walked[skipped + count - 1]
                     : due > 0 ? walked[due - 1]
                               : terms->last_s;
    int64_t next_s = -1;
    bool has_next = naive_next(terms, last_s, &next_s);
    size_t missed = on_time < count ? count - on_time : 0;
    bool equal = plan->count == count && plan->more == more && plan->last_s == last_s &&
                 plan->missed == missed && plan->skipped_more == (skipped > QN_PLAN_SKIPPED_MAX) &&
                 plan->skipped == (plan->skipped_more ? QN_PLAN_SKIPPED_MAX : skipped) &&
                 plan->has_next == has_next && (!has_next || plan->next_s == next_s) &&
                 memcmp(plan->ticks, walked + skipped, count * sizeof *walked) == 0;
    if (!equal) {
        fail_msg("\"%s\", catch_up %" PRId64 ", late %" PRId64 " ms, last %" PRId64 ", now %" PRId64
                 " ms: %zu ticks instead of %zu, %zu skipped instead of %zu, "
                 "last %" PRId64 " instead of %" PRId64 ", next %" PRId64 " instead of %" PRId64,
                 entry->text, terms->catch_up, terms->late_ms, terms->last_s, now_ms, plan->count,
                 count, plan->skipped, skipped, plan->last_s, last_s, plan->next_s, next_s);
    }
}

/* --- By hand -------------------------------------------------------------------------- */

static void policy_decides_about_missed_ticks(void **state)
{
    (void)state;
    static const struct {
        const char *last;
        const char *now;
        int64_t catch_up;
        size_t count;
        size_t skipped;
        const char *first;
        const char *after; /* the last tick behind it */
    } cases[] = {
        /* Nothing is due; one is on time, to the millisecond. */
        {"2026-11-23T10:00:00Z", "2026-11-23T10:59:59.999Z", 1, 0, 0, NULL, "2026-11-23T10:00:00Z"},
        {"2026-11-23T10:00:00Z", "2026-11-23T11:00:00Z", 0, 1, 0, "2026-11-23T11:00:00Z",
         "2026-11-23T11:00:00Z"},
        {"2026-11-23T10:00:00Z", "2026-11-23T11:01:00Z", 0, 1, 0, "2026-11-23T11:00:00Z",
         "2026-11-23T11:00:00Z"},
        /* Missed by a millisecond: skip, once, all. */
        {"2026-11-23T10:00:00Z", "2026-11-23T11:01:00.001Z", 0, 0, 1, NULL, "2026-11-23T11:00:00Z"},
        {"2026-11-23T10:00:00Z", "2026-11-23T11:01:00.001Z", 1, 1, 0, "2026-11-23T11:00:00Z",
         "2026-11-23T11:00:00Z"},
        /* Ten hours without a scheduler. */
        {"2026-11-23T00:00:00Z", "2026-11-23T10:30:00Z", 0, 0, 10, NULL, "2026-11-23T10:00:00Z"},
        {"2026-11-23T00:00:00Z", "2026-11-23T10:30:00Z", 1, 1, 9, "2026-11-23T10:00:00Z",
         "2026-11-23T10:00:00Z"},
        {"2026-11-23T00:00:00Z", "2026-11-23T10:30:00Z", 3, 3, 7, "2026-11-23T08:00:00Z",
         "2026-11-23T10:00:00Z"},
        {"2026-11-23T00:00:00Z", "2026-11-23T10:30:00Z", 1000, 10, 0, "2026-11-23T01:00:00Z",
         "2026-11-23T10:00:00Z"},
        /* The newest one is on time: it is the one of "once". */
        {"2026-11-23T00:00:00Z", "2026-11-23T10:00:10Z", 1, 1, 9, "2026-11-23T10:00:00Z",
         "2026-11-23T10:00:00Z"},
        /* The clock went back: the last tick lies ahead. */
        {"2026-11-23T12:00:00Z", "2026-11-23T10:30:00Z", 3, 0, 0, NULL, "2026-11-23T12:00:00Z"},
    };
    struct entry entry;
    struct qn_plan plan;
    entry_init(&entry, "@hourly", "UTC");
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t now_ms;
        assert_int_equal(qn_moment_parse(cases[i].now, &now_ms, NULL), QUERN_OK);
        entry.terms.last_s = moment_s(cases[i].last);
        entry.terms.catch_up = cases[i].catch_up;
        qn_plan_make(&entry.terms, now_ms, &plan);
        assert_int_equal(plan.count, cases[i].count);
        assert_int_equal(plan.skipped, cases[i].skipped);
        assert_int_equal(plan.last_s, moment_s(cases[i].after));
        assert_true(cases[i].first == NULL || plan.ticks[0] == moment_s(cases[i].first));
        assert_int_equal(plan.next_s, plan.last_s + 3600);
    }
}

static void paused_entry_has_no_ticks(void **state)
{
    (void)state;
    struct entry entry;
    struct qn_plan plan;
    entry_init(&entry, "* * * * *", "UTC");
    entry.terms.last_s = moment_s("2026-11-23T00:00:00Z");
    entry.terms.paused = true;
    qn_plan_make(&entry.terms, (entry.terms.last_s + 3600) * 1000, &plan);
    assert_int_equal(plan.count + plan.skipped, 0);
    assert_int_equal(plan.last_s, entry.terms.last_s);
    assert_false(plan.has_next);
}

/* Ticks on time that one plan cannot hold are those of the next plans, none is lost. */
static void ticks_without_room_come_with_the_next_plan(void **state)
{
    (void)state;
    struct entry entry;
    struct qn_plan plan;
    entry_init(&entry, "* * * * * *", "UTC");
    int64_t start_s = moment_s("2026-11-23T00:00:00Z");
    int64_t now_ms = (start_s + 2500) * 1000;
    entry.terms.last_s = start_s;
    entry.terms.late_ms = INT64_C(3600) * 1000;
    entry.terms.catch_up = 1;
    int64_t wanted_s = start_s;
    for (int i = 0; i < 3; i++) {
        qn_plan_make(&entry.terms, now_ms, &plan);
        expect_like_walk(&entry, now_ms, &plan);
        for (size_t k = 0; k < plan.count; k++) {
            wanted_s++;
            assert_int_equal(plan.ticks[k], wanted_s);
        }
        assert_int_equal(plan.more, i < 2);
        entry.terms.last_s = plan.last_s;
    }
    assert_int_equal(wanted_s, start_s + 2500);
}

static void interval_counts_from_the_creation_of_its_entry(void **state)
{
    (void)state;
    struct entry entry;
    struct qn_plan plan;
    entry_init(&entry, "@every 90m", "UTC");
    entry.terms.created_s = moment_s("2026-11-23T00:10:07Z");
    entry.terms.last_s = entry.terms.created_s;
    entry.terms.catch_up = 1000;
    /* Whenever a scheduler looks. */
    qn_plan_make(&entry.terms, moment_s("2026-11-23T05:00:00Z") * 1000, &plan);
    assert_int_equal(plan.count, 3);
    assert_int_equal(plan.ticks[0], moment_s("2026-11-23T01:40:07Z"));
    assert_int_equal(plan.ticks[2], moment_s("2026-11-23T04:40:07Z"));
    assert_int_equal(plan.next_s, moment_s("2026-11-23T06:10:07Z"));
    /* And when its pause ended in between. */
    entry.terms.last_s = moment_s("2026-11-23T06:00:00Z");
    qn_plan_make(&entry.terms, moment_s("2026-11-23T06:10:07Z") * 1000, &plan);
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.ticks[0], moment_s("2026-11-23T06:10:07Z"));
}

/* A year of downtime, and expressions for which any fixed window is too short or too long. */
static void long_downtime_costs_no_walk_through_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"* * * * * *", "* * * * *",     "* * * * 1 *",
                                        "* * * 1 1 *", "* * * * * 6",   "0 0 29 2 *",
                                        "@yearly",     "*/7 1 1 * * *", "@every 1s"};
    struct entry entry;
    struct qn_plan plan;
    int64_t now_s = moment_s("2026-11-23T10:00:00Z");
    int64_t started_ms = test_now_ms();
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        entry_init(&entry, texts[i], "Europe/Berlin");
        entry.terms.created_s = moment_s("2006-01-01T00:00:00Z");
        entry.terms.last_s = entry.terms.created_s;
        for (int64_t catch_up = 0; catch_up <= 1000; catch_up = catch_up * 30 + 10) {
            entry.terms.catch_up = catch_up;
            qn_plan_make(&entry.terms, now_s * 1000, &plan);
            assert_true(plan.has_next && plan.next_s > now_s);
            assert_true(plan.count <= (size_t)catch_up + 61);
            assert_true(plan.count > 0 || catch_up == 0);
            assert_true(i > 4 || (plan.skipped_more && plan.skipped == QN_PLAN_SKIPPED_MAX));
        }
    }
    /* 20 years of seconds would be minutes. */
    assert_true(test_now_ms() - started_ms < 20000);
}

static void expression_that_never_fires_has_no_next(void **state)
{
    (void)state;
    struct entry entry;
    struct qn_plan plan;
    entry_init(&entry, "0 0 30 2 *", "UTC");
    entry.terms.last_s = moment_s("2000-01-01T00:00:00Z");
    entry.terms.catch_up = 10;
    qn_plan_make(&entry.terms, moment_s("2026-11-23T00:00:00Z") * 1000, &plan);
    assert_int_equal(plan.count + plan.skipped, 0);
    assert_int_equal(plan.last_s, entry.terms.last_s);
    assert_false(plan.has_next);
}

/* A February 29 that lies more than five years away, so that a search from the last tick ends
 * before it. */
static void tick_behind_the_end_of_a_search_is_found(void **state)
{
    (void)state;
    struct entry entry;
    struct qn_plan plan;
    entry_init(&entry, "0 0 29 2 *", "UTC");
    entry.terms.last_s = moment_s("2096-03-01T00:00:00Z");
    entry.terms.catch_up = 1;
    qn_plan_make(&entry.terms, moment_s("2103-06-01T00:00:00Z") * 1000, &plan);
    assert_int_equal(plan.count, 0);
    assert_true(plan.has_next);
    assert_int_equal(plan.next_s, moment_s("2104-02-29T00:00:00Z"));
    qn_plan_make(&entry.terms, moment_s("2104-03-01T00:00:00Z") * 1000, &plan);
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.ticks[0], moment_s("2104-02-29T00:00:00Z"));
}

static void foreign_numbers_do_no_harm(void **state)
{
    (void)state;
    static const int64_t numbers[] = {INT64_MIN, 1, INT64_MAX};
    static const char *const texts[] = {"@hourly", "@every 7h", "@every 2562047h", "0 0 30 2 *"};
    struct entry entry;
    struct qn_plan plan;
    for (size_t i = 0; i < TEST_COUNT(texts) * 3 * 3 * 3; i++) {
        entry_init(&entry, texts[i / 27], "America/New_York");
        entry.terms.last_s = numbers[i % 3];
        entry.terms.created_s = numbers[i / 3 % 3];
        entry.terms.late_ms = numbers[i / 9 % 3];
        entry.terms.catch_up = (int64_t)(i % 3);
        for (size_t k = 0; k < TEST_COUNT(numbers); k++) {
            qn_plan_make(&entry.terms, numbers[k], &plan);
            assert_true(plan.count <= QN_PLAN_TICKS_MAX);
            assert_true(!plan.has_next || plan.next_s > plan.last_s);
        }
    }
}

/* --- Nights and random ones ----------------------------------------------------------- */

static void nights_of_a_change_are_planned_as_they_were_walked(void **state)
{
    (void)state;
    static const struct {
        const char *zone;
        const char *night; /* the change */
    } nights[] = {
        {"Europe/Berlin", "2026-03-29T01:00:00Z"},
        {"Europe/Berlin", "2026-10-25T01:00:00Z"},
        {"America/New_York", "2026-03-08T07:00:00Z"},
        {"America/New_York", "2026-11-01T06:00:00Z"},
        {"Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
        {"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
    };
    static const char *const texts[] = {"30 2 * * *",   "0 2 * * *",      "15 2 * * *",
                                        "45 1 * * *",   "*/15 1-3 * * *", "@hourly",
                                        "59 1,2 * * *", "10 */7 * * * *", "@daily"};
    struct entry entry;
    struct qn_plan plan;
    for (size_t i = 0; i < TEST_COUNT(nights) * TEST_COUNT(texts); i++) {
        int64_t night_s = moment_s(nights[i / TEST_COUNT(texts)].night);
        entry_init(&entry, texts[i % TEST_COUNT(texts)], nights[i / TEST_COUNT(texts)].zone);
        /* Down for days, until a moment of the night, then an hour long on time. */
        for (int64_t now_s = night_s - 2 * 3600; now_s <= night_s + 28 * 3600; now_s += 7207) {
            entry.terms.last_s = night_s - 2 * DAY_S;
            entry.terms.catch_up = now_s % 4;
            entry.terms.late_ms = now_s % 2 == 0 ? 60000 : 3600000;
            qn_plan_make(&entry.terms, now_s * 1000, &plan);
            expect_like_walk(&entry, now_s * 1000, &plan);
        }
    }
}

static const char *random_field(struct qn_random *random, int low, int high, char out[32])
{
    int span = high - low + 1;
    int a = low + (int)qn_random_below(random, (uint64_t)span);
    int b = low + (int)qn_random_below(random, (uint64_t)span);
    switch (qn_random_below(random, 5)) {
    case 0:
        (void)snprintf(out, 32, "*/%d", 1 + a % 9);
        break;
    case 1:
        (void)snprintf(out, 32, "%d,%d", a, b);
        break;
    case 2:
        (void)snprintf(out, 32, "%d-%d/%d", a < b ? a : b, a < b ? b : a, 1 + b % 5);
        break;
    default:
        (void)snprintf(out, 32, "*");
        break;
    }
    return out;
}

static void random_text(struct qn_random *random, char out[256])
{
    char f[6][32];
    if (qn_random_below(random, 8) == 0) {
        (void)snprintf(out, 256, "@every %us", 1 + (unsigned)qn_random_below(random, 100000));
        return;
    }
    bool seconds = qn_random_below(random, 3) == 0;
    (void)snprintf(out, 256, "%s%s%s %s %s %s %s", seconds ? random_field(random, 0, 59, f[0]) : "",
                   seconds ? " " : "", random_field(random, 0, 59, f[1]),
                   random_field(random, 0, 23, f[2]), random_field(random, 1, 31, f[3]),
                   random_field(random, 1, 12, f[4]), random_field(random, 0, 6, f[5]));
}

static const char *const random_zones[] = {
    "UTC",          "Europe/Berlin", "America/New_York",     "Australia/Lord_Howe",
    "Pacific/Apia", "Africa/Cairo",  "America/Scoresbysund", "Asia/Kolkata"};

static void random_entry(struct qn_random *random, struct entry *entry, char text[256])
{
    static const int64_t late[] = {0, 1000, 60000, 3600000};
    random_text(random, text);
    entry_init(entry, text, random_zones[qn_random_below(random, TEST_COUNT(random_zones))]);
    entry->terms.created_s =
        moment_s("2025-06-01T00:00:00Z") + (int64_t)qn_random_below(random, 400 * DAY_S);
    entry->terms.last_s = entry->terms.created_s;
    entry->terms.late_ms = late[qn_random_below(random, TEST_COUNT(late))];
    entry->terms.catch_up = (int64_t)qn_random_below(random, 4);
    if (entry->terms.catch_up == 3) {
        entry->terms.catch_up = 2 + (int64_t)qn_random_below(random, 999);
    }
}

static void random_downtimes_are_planned_as_they_were_walked(void **state)
{
    (void)state;
    struct qn_random random;
    struct entry entry;
    struct qn_plan plan;
    char text[256];
    qn_random_init_seed(&random, test_seed());
    for (int i = 0; i < (test_full() ? 5000 : 150); i++) {
        random_entry(&random, &entry, text);
        /* Of every order of magnitude, up to four years. */
        int64_t down_ms = (int64_t)qn_random_below(&random, UINT64_C(1) << (8 + i % 30));
        int64_t now_ms = entry.terms.last_s * 1000 + down_ms;
        if (naive_walk(&entry.terms, now_ms / 1000) < WALK_MAX) {
            qn_plan_make(&entry.terms, now_ms, &plan);
            expect_like_walk(&entry, now_ms, &plan);
        }
    }
}

/* The life of an entry: schedulers look, stop for a while, and look again. */
static void each_tick_is_sent_or_skipped_once(void **state)
{
    (void)state;
    struct qn_random random;
    struct entry entry;
    struct qn_plan plan;
    char text[256];
    qn_random_init_seed(&random, test_seed());
    for (int i = 0; i < (test_full() ? 1000 : 60); i++) {
        random_entry(&random, &entry, text);
        int64_t now_ms = entry.terms.last_s * 1000;
        size_t total = 0;
        bool counted = true;
        for (int k = 0; k < 60; k++) {
            now_ms += (int64_t)qn_random_below(&random, k % 9 == 8 ? 10 * DAY_S * 1000 : 100000);
            do {
                int64_t before_s = entry.terms.last_s;
                qn_plan_make(&entry.terms, now_ms, &plan);
                total += plan.count + plan.skipped;
                counted = counted && !plan.skipped_more;
                for (size_t n = 0; n < plan.count; n++) {
                    assert_true(plan.ticks[n] > before_s);
                    before_s = plan.ticks[n];
                }
                entry.terms.last_s = plan.last_s;
            } while (plan.more);
        }
        entry.terms.last_s = entry.terms.created_s;
        size_t wanted = naive_walk(&entry.terms, now_ms / 1000);
        if (counted && wanted < WALK_MAX) {
            assert_int_equal(total, wanted);
        }
    }
}

/* --- Jitter --------------------------------------------------------------------------- */

static void jitter_is_fixed_and_spread(void **state)
{
    (void)state;
    int counts[10] = {0};
    for (int64_t tick_s = 0; tick_s < 100000; tick_s += 10) {
        int64_t jitter_ms = qn_plan_jitter_ms("nightly", tick_s, 300000);
        assert_true(jitter_ms >= 0 && jitter_ms < 300000);
        counts[jitter_ms / 30000]++;
    }
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        assert_true(counts[i] > 850 && counts[i] < 1150);
    }
    /* Of every version and machine: others may have planned the same tick. */
    assert_int_equal(qn_plan_jitter_ms("nightly", 1795397400, 300000), 241617);
    assert_int_equal(qn_plan_jitter_ms("hourly", 1795397400, 300000), 0x33c03);
    assert_int_equal(qn_plan_jitter_ms("nightly", 1795397400, 0), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(policy_decides_about_missed_ticks),
    cmocka_unit_test(paused_entry_has_no_ticks),
    cmocka_unit_test(ticks_without_room_come_with_the_next_plan),
    cmocka_unit_test(interval_counts_from_the_creation_of_its_entry),
    cmocka_unit_test(long_downtime_costs_no_walk_through_it),
    cmocka_unit_test(expression_that_never_fires_has_no_next),
    cmocka_unit_test(tick_behind_the_end_of_a_search_is_found),
    cmocka_unit_test(foreign_numbers_do_no_harm),
    cmocka_unit_test(nights_of_a_change_are_planned_as_they_were_walked),
    cmocka_unit_test(random_downtimes_are_planned_as_they_were_walked),
    cmocka_unit_test(each_tick_is_sent_or_skipped_once),
    cmocka_unit_test(jitter_is_fixed_and_spread),
};

TEST_MAIN(tests)
