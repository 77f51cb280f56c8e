/* SPDX-License-Identifier: MIT */
/* test_files.c - files with entries that cannot be read for a while. */
#include "lib_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "broker/schedule/schedule.h"
#include "schedule/files.h"

static bool count_entry(const struct qn_schedule_entry *entry, void *user)
{
    (void)entry;
    ++*(size_t *)user;
    return true;
}

static size_t stored_count(struct qn_broker *broker)
{
    const struct qn_entry_filter all = {.queue = NULL};
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_schedule_list(broker, &all, count_entry, &count, &err), err);
    return count;
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("[nightly]\ncron = 0 2 * * *\ntype = report\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* No descriptor is free at first. The file does not change, so nothing else would read it again. */
static void file_that_could_not_be_read_is_read_later(void **state)
{
    (void)state;
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 16];
    const char *const paths[] = {path};
    const struct qn_broker_options options = {.create = true};
    struct qn_broker *broker = NULL;
    struct qn_schedule_files files;
    struct qn_zones zones;
    struct qn_log log;
    struct quern_clock clock;
    struct rlimit limit;
    quern_error err = {0};
    test_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/schedule.conf", dir);
    write_file(path);
    qn_clock_init(&clock, INT64_C(1800000000000), QN_FILES_LOOK_MS);
    qn_log_init(&log, qn_log_to_stderr, NULL);
    assert_ok(qn_broker_open("memory:files", &options, &broker, &err), err);
    assert_ok(qn_zones_init(&zones, NULL, &err), err);
    assert_ok(qn_files_init(&files, paths, 1, &err), err);
    const struct qn_files_terms terms = {
        .broker = broker, .log = &log, .zones = &zones, .clock = &clock};

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    qn_files_look(&files, &clock);
    quern_status status = qn_files_sync(&files, &terms, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_ok(status, err);
    assert_int_equal(stored_count(broker), 0);

    atomic_fetch_add(&clock.boot_ms, QN_FILES_LOOK_MS);
    qn_files_look(&files, &clock);
    assert_ok(qn_files_sync(&files, &terms, &err), err);
    assert_int_equal(stored_count(broker), 1);

    qn_files_finish(&files);
    qn_zones_finish(&zones);
    qn_log_finish(&log);
    qn_broker_close(broker);
    test_dir_remove(dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(file_that_could_not_be_read_is_read_later),
};
TEST_MAIN(tests)
