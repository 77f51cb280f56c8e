/* SPDX-License-Identifier: MIT */
/* test_deaths.c - the rules of task/deaths.h, by tables of cases. */
#include "task/deaths.h"

#include <string.h>

#include "lib_test.h"
#include "task/brake.h"
#include "task/isolation.h"

#define NOW_MS INT64_C(1800000000000)
#define HOUR_MS (3600 * INT64_C(1000))

/* --- Charges and conviction ---------------------------------------------------------------- */

/* A task that is charged already, and dies once more at NOW_MS after 100 ms. */
struct death_case {
    const char *name;
    int64_t charges, lone;
    int64_t age_ms;    /* of the first charged run */
    int64_t ok_age_ms; /* of the run that ended well; 0: there is none */
    bool is_lone, is_spent;
    enum qn_death_verdict verdict;
    int64_t delay_ms;
};

static const struct death_case deaths[] = {
    {"first", 0, 0, 0, 0, true, false, QN_DEATH_BACK, 0},
    {"first, shared", 0, 0, 0, 0, false, false, QN_DEATH_BACK, 0},
    {"second", 1, 1, 9000, 0, true, false, QN_DEATH_RETRY, 2000},
    {"third", 2, 2, 9000, 0, true, false, QN_DEATH_RETRY, 2000},
    {"tenth", 9, 9, 9000, 0, true, false, QN_DEATH_RETRY, 2000},
    {"third, one well since", 2, 2, 9000, 8999, true, false, QN_DEATH_POISON, 0},
    {"third, one well before", 2, 2, 9000, 9000, true, false, QN_DEATH_RETRY, 2000},
    {"third, one well while the clock was ahead", 2, 2, 9000, -5, true, false, QN_DEATH_RETRY,
     2000},
    {"third, the first while it was ahead", 2, 2, -9000, 200, true, false, QN_DEATH_RETRY, 2000},
    {"third, the second alone", 2, 0, 9000, 5, true, false, QN_DEATH_RETRY, 2000},
    {"third, two alone", 2, 1, 9000, 5, true, false, QN_DEATH_POISON, 0},
    {"third, shared after two alone", 2, 2, 9000, 5, false, false, QN_DEATH_RETRY, 2000},
    {"second, one well since", 1, 1, 9000, 5, true, false, QN_DEATH_RETRY, 2000},
    {"sixth, the second alone", 5, 1, 9000, 5, true, false, QN_DEATH_POISON, 0},
    {"without attempts", 0, 0, 0, 0, true, true, QN_DEATH_SPENT, 0},
    {"shared, without attempts", 4, 1, 9000, 5, false, true, QN_DEATH_SPENT, 0},
    {"poison, without attempts", 2, 2, 9000, 5, true, true, QN_DEATH_POISON, 0},
    {"after the window", 2, 2, 73 * HOUR_MS, 5, true, false, QN_DEATH_BACK, 0},
    {"in the window", 2, 2, 71 * HOUR_MS, 5, true, false, QN_DEATH_POISON, 0},
    {"of a garbled count", -7, 9, 9000, 5, true, false, QN_DEATH_BACK, 0},
};

static void each_death_has_its_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(deaths); i++) {
        const struct death_case *one = &deaths[i];
        struct qn_deaths facts = {
            .charges = one->charges, .lone = one->lone, .first_at_ms = NOW_MS - one->age_ms};
        const struct qn_death death = {.now_ms = NOW_MS,
                                       .started_at_ms = NOW_MS - 100,
                                       .ok_at_ms =
                                           one->ok_age_ms == 0 ? 0 : NOW_MS - one->ok_age_ms,
                                       .is_lone = one->is_lone,
                                       .is_spent = one->is_spent};
        int64_t delay_ms = -1;
        enum qn_death_verdict verdict = qn_deaths_charge(&facts, &death, &delay_ms);
        if (verdict != one->verdict || delay_ms != one->delay_ms) {
            fail_msg("%s: verdict %d after %lld ms", one->name, (int)verdict, (long long)delay_ms);
        }
        assert_int_equal(facts.died_at_ms, NOW_MS);
    }
}

static void charges_and_the_longest_life_are_kept(void **state)
{
    (void)state;
    struct qn_deaths facts = {0};
    int64_t delay_ms = 0;
    struct qn_death death = {.now_ms = NOW_MS, .started_at_ms = NOW_MS - 300, .is_lone = true};
    (void)qn_deaths_charge(&facts, &death, &delay_ms);
    assert_int_equal(facts.first_at_ms, NOW_MS - 300);
    assert_int_equal(facts.life_ms, 300);
    death = (struct qn_death){.now_ms = NOW_MS + 5000, .started_at_ms = NOW_MS + 4900};
    (void)qn_deaths_charge(&facts, &death, &delay_ms);
    assert_int_equal(facts.charges, 2);
    assert_int_equal(facts.lone, 1);
    assert_int_equal(facts.first_at_ms, NOW_MS - 300);
    assert_int_equal(facts.life_ms, 300);
    assert_int_equal(facts.died_at_ms, NOW_MS + 5000);
}

/* 'w': a worker died with it, 'c': only its child or command. */
static void level_counts_the_deaths_of_workers(void **state)
{
    (void)state;
    static const struct {
        const char *deaths;
        int64_t level;
    } cases[] = {{"", 0},     {"c", 0},     {"cccccc", 0}, {"w", 1},       {"cw", 1},
                 {"wccc", 1}, {"cwcwc", 2}, {"wwww", 4},   {"wwwwwcw", 4}, {"ccccccwwwwwww", 4}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_deaths facts = {0};
        for (const char *death = cases[i].deaths; *death != '\0'; death++) {
            int64_t delay_ms = 0;
            (void)qn_deaths_charge(&facts,
                                   &(struct qn_death){.now_ms = NOW_MS,
                                                      .started_at_ms = NOW_MS - 100,
                                                      .is_lone = *death == 'c',
                                                      .is_child = *death == 'c'},
                                   &delay_ms);
        }
        assert_int_equal(facts.level, cases[i].level);
        assert_int_equal(facts.charges, strlen(cases[i].deaths));
    }
    struct qn_deaths old = {.charges = 9, .level = 4, .first_at_ms = NOW_MS - 73 * HOUR_MS};
    int64_t delay_ms = 0;
    (void)qn_deaths_charge(
        &old, &(struct qn_death){.now_ms = NOW_MS, .started_at_ms = NOW_MS, .is_child = true},
        &delay_ms);
    assert_int_equal(old.level, 0);
}

static void run_that_started_in_the_future_lived_for_no_time(void **state)
{
    (void)state;
    struct qn_deaths facts = {0};
    int64_t delay_ms = 0;
    const struct qn_death death = {.now_ms = NOW_MS, .started_at_ms = NOW_MS + HOUR_MS};
    (void)qn_deaths_charge(&facts, &death, &delay_ms);
    assert_int_equal(facts.life_ms, 0);
    assert_int_equal(facts.first_at_ms, NOW_MS);
}

static void life_ends_when_a_heartbeat_is_missing(void **state)
{
    (void)state;
    static const struct {
        int64_t started_ms, seen_ms, life_ms; /* ago; seen 0: it died now */
    } cases[] = {
        {300, 0, 300},
        {3000, 5000, 3000},
        {2 * HOUR_MS, 2 * HOUR_MS - 2000, 2000 + QN_HEARTBEAT_MS},
        {2 * HOUR_MS, 2 * HOUR_MS + 2000, QN_HEARTBEAT_MS - 2000},
        {HOUR_MS, 2 * HOUR_MS, 0},
        {300, -HOUR_MS, 300},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_deaths facts = {0};
        int64_t delay_ms = 0;
        const struct qn_death death = {.now_ms = NOW_MS,
                                       .started_at_ms = NOW_MS - cases[i].started_ms,
                                       .seen_at_ms =
                                           cases[i].seen_ms == 0 ? 0 : NOW_MS - cases[i].seen_ms};
        (void)qn_deaths_charge(&facts, &death, &delay_ms);
        assert_int_equal(facts.life_ms, cases[i].life_ms);
        assert_int_equal(facts.first_at_ms, death.started_at_ms);
    }
}

/* The clock is an hour behind at the first death, and what ended well half an hour before looks as
 * if it came after that, when the clock is right again. */
static void success_before_the_first_death_convicts_nobody(void **state)
{
    (void)state;
    struct qn_deaths facts = {0};
    int64_t delay_ms = 0;
    struct qn_death death = {.now_ms = NOW_MS - HOUR_MS,
                             .started_at_ms = NOW_MS - HOUR_MS,
                             .ok_at_ms = NOW_MS - HOUR_MS / 2,
                             .is_lone = true};
    (void)qn_deaths_charge(&facts, &death, &delay_ms);
    death.now_ms = death.started_at_ms = NOW_MS;
    assert_int_equal(qn_deaths_charge(&facts, &death, &delay_ms), QN_DEATH_RETRY);
    assert_int_equal(qn_deaths_charge(&facts, &death, &delay_ms), QN_DEATH_RETRY);
    death.ok_at_ms = NOW_MS;
    assert_int_equal(qn_deaths_charge(&facts, &death, &delay_ms), QN_DEATH_POISON);
}

/* --- Isolation -------------------------------------------------------------------------- */

struct room_case {
    uint32_t slots;
    uint32_t held[QN_ALONE_CHARGES - 1];
    int64_t charges;
    uint32_t room; /* of those that need not be alone */
    bool is_solo;
};

static const struct room_case rooms[] = {
    {50, {0, 0, 0}, 0, UINT32_MAX, false},
    {50, {0, 0, 0}, 1, 25, false},
    {50, {0, 0, 0}, 2, 12, false},
    {50, {0, 0, 0}, 3, 6, false},
    {50, {0, 0, 0}, 4, 6, true},
    {50, {0, 0, 0}, 99, 6, true},
    {50, {20, 0, 0}, 1, 5, false},
    {50, {25, 0, 0}, 1, 0, false},
    {50, {26, 0, 0}, 1, 0, false},
    {50, {20, 0, 0}, 2, 5, false},
    {50, {20, 11, 0}, 3, 1, false},
    {50, {20, 12, 0}, 1, 5, false},
    {8, {0, 0, 0}, 2, 2, false},
    {8, {0, 0, 0}, 3, 1, true},
    {4, {0, 0, 0}, 1, 2, false},
    {4, {0, 0, 0}, 2, 1, true},
    {2, {0, 0, 0}, 1, 1, true},
    {3, {0, 0, 0}, 1, 1, true},
    {1, {0, 0, 0}, 9, UINT32_MAX, false},
    {0, {0, 0, 0}, 9, UINT32_MAX, false},
    {8, {9, 9, 9}, -3, UINT32_MAX, false},
    {8, {9, 9, 9}, 0, UINT32_MAX, false},
};

static void charged_tasks_have_their_room(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rooms); i++) {
        const struct room_case *one = &rooms[i];
        struct qn_isolation isolation = {.slots = one->slots};
        for (size_t c = 0; c < QN_ALONE_CHARGES - 1; c++) {
            isolation.held[c] = one->held[c];
        }
        uint32_t room = qn_isolation_room(&isolation, one->charges);
        bool is_solo = qn_isolation_is_solo(&isolation, one->charges);
        if (room != one->room || is_solo != one->is_solo) {
            fail_msg("%u slots, %lld charges: room %u, alone %d", one->slots,
                     (long long)one->charges, room, is_solo);
        }
    }
}

static void run_counts_for_all_that_were_charged_less(void **state)
{
    (void)state;
    struct qn_isolation isolation = {.slots = 50};
    qn_isolation_add(&isolation, 0);
    qn_isolation_add(&isolation, 1);
    qn_isolation_add(&isolation, 3);
    qn_isolation_add(&isolation, 77);
    assert_int_equal(isolation.held[0], 3);
    assert_int_equal(isolation.held[1], 2);
    assert_int_equal(isolation.held[2], 2);
}

/* --- Brake --------------------------------------------------------------------------------- */

static void tenth_death_puts_the_brake_on(void **state)
{
    (void)state;
    struct qn_brake brake = {0};
    for (int i = 1; i <= QN_BRAKE_DEATHS; i++) {
        assert_false(qn_brake_is_on(&brake));
        qn_brake_death(&brake, false, NOW_MS + i);
    }
    assert_true(qn_brake_is_on(&brake));
    assert_int_equal(brake.probe_at_ms, NOW_MS + QN_BRAKE_DEATHS + QN_BRAKE_MS_MIN);
    assert_int_equal(brake.probes, 0);
}

static void pace_of_probes_slows_down_to_a_minute(void **state)
{
    (void)state;
    const int64_t slow_ms[] = {2000, 4000, 8000, 16000, 32000, 60000, 60000};
    struct qn_brake brake = {.streak = QN_BRAKE_DEATHS, .probe_token = 5};
    for (int64_t i = 1; i <= QN_BRAKE_EVEN_PROBES; i++) {
        qn_brake_death(&brake, true, NOW_MS);
        assert_int_equal(brake.probes, i);
        assert_int_equal(qn_brake_wait_ms(&brake, NOW_MS), QN_BRAKE_MS_MIN);
    }
    assert_int_equal(brake.probe_token, 0);
    for (size_t i = 0; i < TEST_COUNT(slow_ms); i++) {
        qn_brake_death(&brake, true, NOW_MS);
        assert_int_equal(qn_brake_wait_ms(&brake, NOW_MS), slow_ms[i]);
    }
    brake.probes = INT64_C(1) << 53;
    qn_brake_death(&brake, true, NOW_MS);
    assert_int_equal(qn_brake_wait_ms(&brake, NOW_MS), QN_BRAKE_MS_MAX);
}

static void death_that_is_no_probe_postpones_the_next_one(void **state)
{
    (void)state;
    struct qn_brake brake = {.streak = 12, .probes = 3, .probe_at_ms = NOW_MS, .probe_token = 5};
    qn_brake_death(&brake, false, NOW_MS);
    assert_int_equal(brake.probes, 3);
    assert_int_equal(brake.probe_token, 5);
    assert_int_equal(brake.probe_at_ms, NOW_MS + QN_BRAKE_MS_MIN);
}

static void probe_waits_for_its_moment_but_not_for_a_turned_clock(void **state)
{
    (void)state;
    const struct qn_brake brake = {.streak = 12, .probe_at_ms = NOW_MS};
    assert_int_equal(qn_brake_wait_ms(&brake, NOW_MS - 400), 400);
    assert_int_equal(qn_brake_wait_ms(&brake, NOW_MS), 0);
    assert_int_equal(qn_brake_wait_ms(&brake, NOW_MS + HOUR_MS), 0);
    assert_int_equal(qn_brake_wait_ms(&brake, NOW_MS - QN_BRAKE_MS_MAX - 1), 0);
}

static void good_end_is_noted_once_a_second_or_when_there_were_deaths(void **state)
{
    (void)state;
    struct qn_brake brake = {0};
    assert_true(qn_brake_release(&brake, NOW_MS));
    assert_false(qn_brake_release(&brake, NOW_MS + QN_OK_NOTE_MS - 1));
    assert_int_equal(brake.ok_at_ms, NOW_MS);
    assert_true(qn_brake_release(&brake, NOW_MS + QN_OK_NOTE_MS));
    assert_true(qn_brake_release(&brake, NOW_MS)); /* the clock was turned back */
    brake.streak = 1;
    brake.probes = 4;
    brake.probe_token = 7;
    assert_true(qn_brake_release(&brake, NOW_MS + 1));
    assert_int_equal(brake.ok_at_ms, NOW_MS + 1);
    assert_int_equal(brake.streak, 0);
    assert_int_equal(brake.probes, 0);
    assert_int_equal(brake.probe_token, 0);
}

static void probes_are_chosen_in_turns(void **state)
{
    (void)state;
    const enum qn_probe turns[] = {QN_PROBE_NEWEST, QN_PROBE_OLDEST, QN_PROBE_CHARGED};
    for (int64_t i = 0; i < 9; i++) {
        const struct qn_brake brake = {.streak = 12, .probes = i};
        assert_int_equal(qn_brake_choice(&brake), turns[i % 3]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_death_has_its_verdict),
    cmocka_unit_test(charges_and_the_longest_life_are_kept),
    cmocka_unit_test(level_counts_the_deaths_of_workers),
    cmocka_unit_test(run_that_started_in_the_future_lived_for_no_time),
    cmocka_unit_test(life_ends_when_a_heartbeat_is_missing),
    cmocka_unit_test(success_before_the_first_death_convicts_nobody),
    cmocka_unit_test(charged_tasks_have_their_room),
    cmocka_unit_test(run_counts_for_all_that_were_charged_less),
    cmocka_unit_test(tenth_death_puts_the_brake_on),
    cmocka_unit_test(pace_of_probes_slows_down_to_a_minute),
    cmocka_unit_test(death_that_is_no_probe_postpones_the_next_one),
    cmocka_unit_test(probe_waits_for_its_moment_but_not_for_a_turned_clock),
    cmocka_unit_test(good_end_is_noted_once_a_second_or_when_there_were_deaths),
    cmocka_unit_test(probes_are_chosen_in_turns),
};
TEST_MAIN(tests)
