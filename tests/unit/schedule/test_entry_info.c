/* SPDX-License-Identifier: MIT */
/* test_entry_info.c - stored entries as a program sees them: a copy of one is the same entry. */
#include <string.h>

#include "lib_test.h"
#include "quern/inspector.h"

/* Stores the entry, and what is listed of it again: an equal entry is no conflict. */
static void check_copy(const quern_entry *entry, const quern_task *task)
{
    quern_error err;
    quern_inspector *inspector = NULL;
    quern_entry_list *list = NULL;
    const quern_inspector_options options = {.create = true};
    assert_int_equal(quern_inspector_open("memory:", &options, &inspector, &err), QUERN_OK);
    assert_int_equal(quern_inspector_put_entry(inspector, entry, task, QUERN_ENTRY_ADD, &err),
                     QUERN_OK);
    assert_int_equal(quern_inspector_entries(inspector, NULL, NULL, &list, &err), QUERN_OK);
    assert_int_equal(quern_entry_list_size(list), 1);
    const quern_entry_info *info = quern_entry_list_at(list, 0);
    const quern_entry copy = {.name = info->name,
                              .cron = info->cron,
                              .zone = info->zone,
                              .misfire = info->misfire,
                              .late_ms = info->late_ms,
                              .jitter_ms = info->jitter_ms};
    if (quern_inspector_put_entry(inspector, &copy, info->task, QUERN_ENTRY_ADD, &err) !=
        QUERN_OK) {
        fail_msg("%s", err.text);
    }
    quern_entry_list_free(list);
    quern_inspector_free(inspector);
}

static void copied_entry_is_equal(void **state)
{
    static const quern_header header = {"lang", "de"};
    const quern_task plain = {.type = "t"};
    const quern_task full = {.type = "t",
                             .queue = "q",
                             .payload = "p",
                             .payload_size = 1,
                             .retry_max = QUERN_RETRY_NEVER,
                             .timeout_ms = QUERN_TIMEOUT_NEVER,
                             .delay_ms = 1000,
                             .deadline_at_ms = INT64_C(4000000000000),
                             .unique_ms = 5000,
                             .unique_key = "key",
                             .unique_until = QUERN_UNIQUE_UNTIL_STARTED,
                             .on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE,
                             .retention_ms = 1500,
                             .limit_key = "acme",
                             .start_within_ms = 2500,
                             .priority = -7,
                             .headers = &header,
                             .header_count = 1,
                             .retry = QUERN_BACKOFF_FIXED(500)};
    const quern_entry entries[] = {
        {.name = "a", .cron = "@daily"},
        {.name = "a", .cron = "TZ=UTC 0 0 * * *", .late_ms = -1},
        {.name = "a", .cron = "@every 90s", .late_ms = 1, .misfire = "all 3", .jitter_ms = 60000},
        {.name = "a", .cron = "0 0 0 30 2 *", .zone = "UTC", .misfire = "skip"},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(entries); i++) {
        check_copy(&entries[i], &plain);
        check_copy(&entries[i], &full);
    }
}

static void late_of_0_is_the_default_and_minus_1_is_none(void **state)
{
    static const struct {
        int64_t given, listed;
    } cases[] = {{0, 60000}, {-1, -1}, {5000, 5000}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_inspector *inspector = NULL;
        quern_entry_list *list = NULL;
        const quern_inspector_options options = {.create = true};
        const quern_entry entry = {.name = "a", .cron = "@daily", .late_ms = cases[i].given};
        const quern_task task = {.type = "t"};
        assert_int_equal(quern_inspector_open("memory:", &options, &inspector, NULL), QUERN_OK);
        assert_int_equal(quern_inspector_put_entry(inspector, &entry, &task, QUERN_ENTRY_ADD, NULL),
                         QUERN_OK);
        assert_int_equal(quern_inspector_entries(inspector, NULL, NULL, &list, NULL), QUERN_OK);
        assert_int_equal(quern_entry_list_at(list, 0)->late_ms, cases[i].listed);
        quern_entry_list_free(list);
        quern_inspector_free(inspector);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(copied_entry_is_equal),
    cmocka_unit_test(late_of_0_is_the_default_and_minus_1_is_none),
};
TEST_MAIN(tests)
