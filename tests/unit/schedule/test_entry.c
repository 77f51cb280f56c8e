/* SPDX-License-Identifier: MIT */
/* test_entry.c - the refusals of an entry's definition, its defaults, and its way to a plan. */
#include "schedule/entry.h"

#include <string.h>

#include "lib_test.h"
#include "task/limits.h"

#define NOW_MS INT64_C(1795000000000)
#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define DAY_MS (24 * 3600 * INT64_C(1000))

struct desk {
    struct qn_zones zones;
    struct qn_arena arena;
    struct qn_schedule_entry entry;
    quern_error err;
};

static int open_desk(void **state)
{
    static struct desk desk;
    desk = (struct desk){.entry = {.name = "untouched"}};
    *state = &desk;
    return qn_zones_init(&desk.zones, TEST_DATA "/zoneinfo", NULL) == QUERN_OK ? 0 : -1;
}

static int close_desk(void **state)
{
    struct desk *desk = *state;
    qn_arena_finish(&desk->arena);
    qn_zones_finish(&desk->zones);
    return 0;
}

static quern_status make(struct desk *desk, const struct qn_entry_given *given)
{
    const struct qn_entry_terms terms = {.zones = &desk->zones, .now_ms = NOW_MS};
    desk->err = (quern_error){0};
    return qn_entry_make(given, &terms, &desk->arena, &desk->entry, &desk->err);
}

/* Short forms: an entry that is right but for what a case changes. */
#define GIVEN(...)                                                                                 \
    {                                                                                              \
        .name = "e", .cron = "0 6 * * *", .task = {.type = "t"}, __VA_ARGS__                       \
    }
#define GIVEN_TASK(...)                                                                            \
    {                                                                                              \
        .name = "e", .cron = "0 6 * * *", .task = {.type = "t", __VA_ARGS__ }                      \
    }

static void refusals_name_the_field_and_the_rule(void **state)
{
    struct desk *desk = *state;
    static const quern_header ours[] = {{"trace", "1"}, {"quern-tick", "now"}};
    static const struct {
        struct qn_entry_given given;
        const char *text;
        quern_status status; /* 0: QUERN_E_INVALID */
    } cases[] = {
        {{.cron = "@daily", .task = {.type = "t"}}, "the name of an entry has 1 to 128 bytes"},
        {{.name = "", .cron = "@daily"}, "the name of an entry has 1 to 128 bytes"},
        {{.name = "a b", .cron = "@daily"}, "the name of an entry has 1 to 128 bytes"},
        {{.name = "a{b", .cron = "@daily"}, "the name of an entry has 1 to 128 bytes"},
        {{.name = "a/b", .cron = "@daily"}, "the name of an entry has 1 to 128 bytes"},
        {{.name = "a\"b", .cron = "@daily"}, "the name of an entry has 1 to 128 bytes"},
        {{.name = "gr\xc3\xbcn", .cron = "@daily"}, "the name of an entry has 1 to 128 bytes"},
        {{.name = A64 A64 "a", .cron = "@daily"}, "the name of an entry has 1 to 128 bytes"},
        {{.name = "e"}, "cron is missing: write for example 0 6 * * *"},
        {{.name = "e", .cron = ""}, "cron is missing: write for example 0 6 * * *"},
        {{.name = "e", .cron = "61 * * * *"},
         "cron: minute \"61\": 61 is above 59; allowed: 0-59, *, a-b, */n"},
        {{.name = "e", .cron = "61 * * * * *"}, "cron: second \"61\": 61 is above 59; allowed: "},
        {{.name = "e", .cron = "* * * *"}, "cron: 4 fields instead of 5: minute, hour, "},
        {{.name = "e", .cron = "@never"}, "cron: \"@never\" is unknown; allowed: @yearly, "},
        {GIVEN(.zone = "Europe/Atlantis"), "zone: ", QUERN_E_NOT_FOUND},
        {GIVEN(.zone = "../etc/passwd"), "zone: "},
        {GIVEN(.default_zone = "Europe/Atlantis"), "zone: ", QUERN_E_NOT_FOUND},
        {{.name = "e", .cron = "TZ=Europe/Atlantis 0 6 * * *"}, "zone: ", QUERN_E_NOT_FOUND},
        {{.name = "e", .cron = "TZ=Asia/Tokyo 0 6 * * *", .zone = "Europe/Berlin"},
         "zone differs from the one in cron: leave one of them out"},
        {GIVEN(.misfire = "never"), "misfire \"never\": allowed are skip, once, and all N with N"},
        {GIVEN(.misfire = "all"), "misfire \"all\": "},
        {GIVEN(.misfire = "all "), "misfire \"all \": "},
        {GIVEN(.misfire = "all 0"), "misfire \"all 0\": "},
        {GIVEN(.misfire = "all 1001"), "misfire \"all 1001\": "},
        {GIVEN(.misfire = "all 3x"), "misfire \"all 3x\": "},
        {GIVEN(.misfire = "all 99999999999999999999"), "misfire \"all 9"},
        {GIVEN(.jitter_ms = -1), "jitter must be at most a day; for more, give the task a delay"},
        {GIVEN(.jitter_ms = DAY_MS + 1), "jitter must be at most a day"},
        {GIVEN(.late_ms = INT64_MAX), "late must be at most 100 years"},
        {{.name = "e", .cron = "@daily"}, "type "},
        {GIVEN_TASK(.queue = "a{b"), "queue "},
        {GIVEN_TASK(.id = "mine"), "an entry has no id: each task gets its own, "},
        {GIVEN_TASK(.process_at_ms = NOW_MS), "an entry has no process_at: cron decides, "},
        {GIVEN_TASK(.timeout_ms = -5), "timeout_ms must be "},
        {GIVEN_TASK(.unique_ms = 5), "unique_ms must be "},
        {GIVEN_TASK(.deadline_at_ms = NOW_MS - 1), "deadline_at_ms "},
        {GIVEN_TASK(.headers = ours, .header_count = 2), "header quern-tick is the scheduler's"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_status status = make(desk, &cases[i].given);
        quern_status wanted = cases[i].status == QUERN_OK ? QUERN_E_INVALID : cases[i].status;
        if (status != wanted ||
            strncmp(desk->err.text, cases[i].text, strlen(cases[i].text)) != 0) {
            fail_msg("case %zu: status %d, \"%s\" instead of \"%s\"", i, (int)status,
                     desk->err.text, cases[i].text);
        }
        assert_string_equal(desk->entry.name, "untouched");
    }
}

static void defaults_are_filled_in(void **state)
{
    struct desk *desk = *state;
    const struct qn_entry_given given = GIVEN(.default_zone = "Europe/Berlin");
    assert_ok(make(desk, &given), desk->err);
    const struct qn_schedule_entry *entry = &desk->entry;
    assert_string_equal(entry->name, "e");
    assert_string_equal(entry->origin, "cli");
    assert_string_equal(entry->cron, "0 6 * * *");
    assert_string_equal(entry->zone, "Europe/Berlin");
    assert_false(entry->with_seconds);
    assert_int_equal(entry->misfire, QN_MISFIRE_ONCE);
    assert_int_equal(entry->misfire_max, 1);
    assert_int_equal(entry->late_ms, 60000);
    assert_int_equal(entry->jitter_ms, 0);
    assert_null(entry->task.id);
    assert_string_equal(entry->task.queue, "default");
    assert_int_equal(entry->task.retry_max, 25);
    assert_int_equal(entry->task.timeout_ms, 1800000);
    assert_int_equal(entry->task.state, QUERN_TASK_PENDING);
    assert_int_equal(entry->last_s, 0);
}

static void everything_given_is_kept(void **state)
{
    struct desk *desk = *state;
    static const quern_header headers[] = {{"trace", "1"}};
    const struct qn_entry_given given = {.name = A64 A64, /* the longest */
                                         .origin = "file:/etc/quern/schedule.conf",
                                         .cron = "*/10 * * * * *",
                                         .zone = "Asia/Tokyo",
                                         .default_zone = "Europe/Berlin",
                                         .misfire = "all 1000",
                                         .late_ms = -1,
                                         .jitter_ms = DAY_MS,
                                         .task = {.type = "t",
                                                  .queue = "q",
                                                  .payload = "p",
                                                  .payload_size = 1,
                                                  .delay_ms = 5000,
                                                  .unique_ms = 60000,
                                                  .group = "g",
                                                  .deadline_at_ms = NOW_MS + 1,
                                                  .headers = headers,
                                                  .header_count = 1}};
    assert_ok(make(desk, &given), desk->err);
    const struct qn_schedule_entry *entry = &desk->entry;
    assert_string_equal(entry->zone, "Asia/Tokyo");
    assert_true(entry->with_seconds);
    assert_int_equal(entry->misfire, QN_MISFIRE_ALL);
    assert_int_equal(entry->misfire_max, 1000);
    assert_int_equal(entry->late_ms, 0);
    assert_int_equal(entry->jitter_ms, DAY_MS);
    assert_string_equal(entry->task.queue, "q");
    assert_string_equal(entry->task.group, "g");
    assert_string_equal(entry->task.headers[0].name, "trace");
    /* As given: nothing depends on the moment of the check. */
    assert_int_equal(entry->task.delay_ms, 5000);
    assert_int_equal(entry->task.process_at_ms, 0);
    assert_int_equal(entry->task.unique_ms, 60000);
    assert_non_null(entry->task.unique_key);
    assert_int_equal(entry->task.state, QUERN_TASK_AGGREGATING);
}

static void start_within_is_kept_as_a_duration(void **state)
{
    struct desk *desk = *state;
    const struct qn_entry_given given = {
        .name = "e", .cron = "0 6 * * *", .task = {.type = "t", .start_within_ms = 7000}};
    assert_ok(make(desk, &given), desk->err);
    assert_int_equal(desk->entry.task.start_by_at_ms, 7000);
}

static void zone_of_the_expression_is_before_that_of_the_scheduler(void **state)
{
    struct desk *desk = *state;
    const struct qn_entry_given given = {.name = "e",
                                         .cron = "CRON_TZ=Asia/Tokyo 0 6 * * *",
                                         .default_zone = "Europe/Berlin",
                                         .task = {.type = "t"}};
    struct qn_entry_clock clock;
    assert_ok(make(desk, &given), desk->err);
    assert_string_equal(desk->entry.zone, "");
    assert_ok(qn_entry_read_clock(&desk->entry, &desk->zones, &clock, &desk->err), desk->err);
    assert_int_equal(qn_zone_offset(clock.zone, 0), 9 * 3600);
}

/* Of 1 MiB, so that a file of them names the one that a broker would refuse. */
static void long_definition_is_refused(void **state)
{
    struct desk *desk = *state;
    static char payload[QN_ENTRY_SIZE_MAX];
    struct qn_entry_given given = GIVEN_TASK(.payload = payload, .payload_size = sizeof payload);
    assert_int_equal(make(desk, &given), QUERN_E_INVALID);
    given.task.payload_size = sizeof payload - 2048;
    assert_ok(make(desk, &given), desk->err);
}

static void headers_leave_room_for_those_of_the_scheduler(void **state)
{
    struct desk *desk = *state;
    static char names[QN_HEADER_COUNT_MAX][8];
    quern_header headers[QN_HEADER_COUNT_MAX];
    for (size_t i = 0; i < TEST_COUNT(headers); i++) {
        (void)snprintf(names[i], sizeof names[i], "h%zu", i);
        headers[i] = (quern_header){.name = names[i], .value = ""};
    }
    struct qn_entry_given given = GIVEN_TASK(.headers = headers, .header_count = 63);
    assert_int_equal(make(desk, &given), QUERN_E_INVALID);
    assert_string_equal(desk->err.text, "63 headers, at most 62 are allowed");
    given.task.header_count = 62;
    assert_ok(make(desk, &given), desk->err);
}

static void stored_entry_becomes_a_plan(void **state)
{
    struct desk *desk = *state;
    static const struct {
        const char *misfire;
        int64_t catch_up;
    } cases[] = {{"skip", 0}, {"once", 1}, {"all 7", 7}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct qn_entry_given given = GIVEN(.misfire = cases[i].misfire);
        struct qn_entry_clock clock;
        assert_ok(make(desk, &given), desk->err);
        assert_ok(qn_entry_read_clock(&desk->entry, &desk->zones, &clock, &desk->err), desk->err);
        desk->entry.created_at_ms = NOW_MS;
        desk->entry.last_s = NOW_MS / 1000 + 5;
        desk->entry.paused_at_ms = i == 1 ? NOW_MS : 0;
        struct qn_plan_terms terms = qn_entry_plan_terms(&desk->entry, &clock);
        assert_int_equal(terms.catch_up, cases[i].catch_up);
        assert_int_equal(terms.created_s, NOW_MS / 1000);
        assert_int_equal(terms.last_s, NOW_MS / 1000 + 5);
        assert_int_equal(terms.late_ms, 60000);
        assert_int_equal(terms.paused, i == 1);
        assert_null(terms.zone); /* UTC */
        assert_ptr_equal(terms.cron, &clock.cron);
    }
}

/* Another host may have stored it. */
static void stored_entry_with_a_fault_has_no_clock(void **state)
{
    struct desk *desk = *state;
    struct qn_schedule_entry entry = {.cron = "0 6 * * *", .zone = "Europe/Atlantis"};
    struct qn_entry_clock clock;
    assert_int_equal(qn_entry_read_clock(&entry, &desk->zones, &clock, &desk->err),
                     QUERN_E_NOT_FOUND);
    assert_memory_equal(desk->err.text, "zone: ", 6);
    entry = (struct qn_schedule_entry){.cron = "* * * * *", .zone = "", .with_seconds = true};
    assert_int_equal(qn_entry_read_clock(&entry, &desk->zones, &clock, &desk->err),
                     QUERN_E_INVALID);
    assert_memory_equal(desk->err.text, "cron: 5 fields instead of 6", 27);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_desk, close_desk)
static const struct CMUnitTest tests[] = {
    TEST(refusals_name_the_field_and_the_rule),
    TEST(defaults_are_filled_in),
    TEST(everything_given_is_kept),
    TEST(start_within_is_kept_as_a_duration),
    TEST(zone_of_the_expression_is_before_that_of_the_scheduler),
    TEST(long_definition_is_refused),
    TEST(headers_leave_room_for_those_of_the_scheduler),
    TEST(stored_entry_becomes_a_plan),
    TEST(stored_entry_with_a_fault_has_no_clock),
};

TEST_MAIN(tests)
