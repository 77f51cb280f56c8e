/* SPDX-License-Identifier: MIT */
/* test_files.c - when a file with entries is read, and when it is not yet. */
#include "lib_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

#define ENTRY(name) "[" name "]\ncron = 0 2 * * *\ntype = report\n"

/* A folder with a file that is watched. */
struct watched {
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 16];
    char other[TEST_DIR_SIZE + 16];
    struct qn_broker *broker;
    struct qn_schedule_files files;
    struct qn_zones zones;
    struct qn_log log;
    struct quern_clock clock;
};

static FILE *begin_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fflush(file), 0);
    return file;
}

static void end_file(FILE *file, const char *text)
{
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void watch_path(struct watched *w)
{
    const struct qn_broker_options options = {.create = true};
    const char *const paths[] = {w->path};
    quern_error err = {0};
    qn_clock_init(&w->clock, INT64_C(1800000000000), QN_FILES_LOOK_MS);
    qn_log_init(&w->log, qn_log_to_stderr, NULL);
    assert_ok(qn_broker_open("memory:files", &options, &w->broker, &err), err);
    assert_ok(qn_zones_init(&w->zones, NULL, &err), err);
    assert_ok(qn_files_init(&w->files, paths, 1, &err), err);
}

static void name_paths(struct watched *w)
{
    test_dir_make(w->dir);
    (void)snprintf(w->path, sizeof w->path, "%s/schedule.conf", w->dir);
    (void)snprintf(w->other, sizeof w->other, "%s/other", w->dir);
}

static void finish(struct watched *w)
{
    qn_files_finish(&w->files);
    qn_zones_finish(&w->zones);
    qn_log_finish(&w->log);
    qn_broker_close(w->broker);
    test_dir_remove(w->dir);
}

/* One turn of a scheduler. Returns how many entries are stored after it. */
static size_t look(struct watched *w)
{
    const struct qn_files_terms terms = {
        .broker = w->broker, .log = &w->log, .zones = &w->zones, .clock = &w->clock};
    quern_error err = {0};
    qn_files_look(&w->files, &w->clock);
    assert_ok(qn_files_sync(&w->files, &terms, &err), err);
    return stored_count(w->broker);
}

static size_t look_later(struct watched *w)
{
    atomic_fetch_add(&w->clock.boot_ms, QN_FILES_LOOK_MS);
    return look(w);
}

/* No descriptor is free at first. The file does not change, so nothing else would read it again. */
static void file_that_could_not_be_read_is_read_later(void **state)
{
    (void)state;
    struct watched w;
    struct rlimit limit;
    quern_error err = {0};
    name_paths(&w);
    end_file(begin_file(w.path, ENTRY("a")), "");
    watch_path(&w);
    const struct qn_files_terms terms = {
        .broker = w.broker, .log = &w.log, .zones = &w.zones, .clock = &w.clock};

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    qn_files_look(&w.files, &w.clock);
    quern_status status = qn_files_sync(&w.files, &terms, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_ok(status, err);
    assert_int_equal(stored_count(w.broker), 0);

    assert_int_equal(look_later(&w), 1);
    finish(&w);
}

/* Read now, it would remove the entries that are still to be written, with their pauses. */
static void file_that_is_being_written_is_not_read(void **state)
{
    (void)state;
    struct watched w;
    char backup[sizeof w.path + 1];
    name_paths(&w);
    end_file(begin_file(w.path, ENTRY("a")), ENTRY("b"));
    watch_path(&w);
    assert_int_equal(look(&w), 2);

    FILE *half = begin_file(w.path, ENTRY("a"));
    assert_int_equal(look(&w), 2);
    end_file(begin_file(w.other, "an editor's"), "");
    assert_int_equal(look(&w), 2);
    (void)snprintf(backup, sizeof backup, "%s~", w.path);
    assert_int_equal(rename(w.other, backup), 0);
    assert_int_equal(look(&w), 2);
    end_file(half, ENTRY("b") ENTRY("c"));
    assert_int_equal(look(&w), 3);
    finish(&w);
}

static void file_that_nobody_closes_is_read_when_it_stands_still(void **state)
{
    (void)state;
    struct watched w;
    name_paths(&w);
    end_file(begin_file(w.path, ENTRY("a")), "");
    watch_path(&w);
    assert_int_equal(look(&w), 1);

    FILE *open_file = begin_file(w.path, ENTRY("a") ENTRY("b"));
    assert_int_equal(look_later(&w), 1);
    assert_int_equal(look(&w), 1); /* too early to call it still */
    assert_int_equal(look_later(&w), 2);
    end_file(open_file, "");
    finish(&w);
}

/* As Kubernetes mounts a file: a rename of another link replaces it. */
static void file_behind_a_link_is_read_when_the_link_on_its_way_is_renamed(void **state)
{
    (void)state;
    struct watched w;
    char name[TEST_DIR_SIZE + 16];
    name_paths(&w);
    (void)snprintf(name, sizeof name, "%s/one", w.dir);
    end_file(begin_file(name, ENTRY("a")), "");
    (void)snprintf(name, sizeof name, "%s/two", w.dir);
    end_file(begin_file(name, ENTRY("a") ENTRY("b")), "");
    assert_int_equal(symlink("one", w.other), 0);
    assert_int_equal(symlink("other", w.path), 0);
    watch_path(&w);
    assert_int_equal(look(&w), 1);

    (void)snprintf(name, sizeof name, "%s/new", w.dir);
    assert_int_equal(symlink("two", name), 0);
    assert_int_equal(look(&w), 1);
    assert_int_equal(rename(name, w.other), 0);
    assert_int_equal(look(&w), 2);
    finish(&w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(file_that_could_not_be_read_is_read_later),
    cmocka_unit_test(file_that_is_being_written_is_not_read),
    cmocka_unit_test(file_that_nobody_closes_is_read_when_it_stands_still),
    cmocka_unit_test(file_behind_a_link_is_read_when_the_link_on_its_way_is_renamed),
};
TEST_MAIN(tests)
