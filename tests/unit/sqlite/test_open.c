/* SPDX-License-Identifier: MIT */
/* test_open.c - which files are opened, which are refused, and that a refused file is left
 * as it was. */
#include "lib_sqlite.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/schema/schema_sql.h"

/* The library asks this one in place of the C library's: a test can move its directory onto another
 * file system. */
static long pretended_fs;

int statfs(const char *path, struct statfs *info)
{
    int code = (int)syscall(SYS_statfs, path, info);
    if (pretended_fs != 0) {
        info->f_type = pretended_fs;
    }
    return code;
}

static void new_file_is_private(void **state)
{
    (void)state;
    struct lib_sqlite place;
    struct stat info;
    lib_sqlite_make(&place);
    mode_t before = umask(0);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    (void)umask(before);
    assert_int_equal(stat(place.path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    qn_broker_close(broker);
    assert_int_equal(lib_sqlite_names_in(place.dir), 1);
    lib_sqlite_remove(&place);
}

static void missing_file_is_not_created_without_a_request(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err;
    lib_sqlite_make(&place);
    assert_int_equal(lib_sqlite_refused(place.path, false, &err), QUERN_E_NOT_FOUND);
    assert_non_null(strstr(err.text, place.path));
    assert_int_equal(lib_sqlite_names_in(place.dir), 0);
    lib_sqlite_remove(&place);
}

static void empty_file_is_a_new_one(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err;
    lib_sqlite_make(&place);
    lib_sqlite_write_file(place.path, "", 0);
    assert_int_equal(lib_sqlite_refused(place.path, false, &err), QUERN_E_NOT_FOUND);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

/* Opens the file, which must be refused as corrupt, and compares it with what it was. */
static void assert_refused_untouched(const char *path, const void *data, size_t size)
{
    quern_error err;
    lib_sqlite_write_file(path, data, size);
    assert_int_equal(lib_sqlite_refused(path, true, &err), QUERN_E_CORRUPT);
    assert_non_null(strstr(err.text, path));
    char *after = malloc(size + 1);
    assert_non_null(after);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, after, size + 1), size);
    assert_memory_equal(after, data, size);
    (void)close(fd);
    free(after);
}

static void text_file_is_refused_and_left_alone(void **state)
{
    (void)state;
    struct lib_sqlite place;
    char large[20000];
    lib_sqlite_make(&place);
    memset(large, 'x', sizeof large);
    assert_refused_untouched(place.path, "a", 1);
    assert_refused_untouched(place.path, "my notes\n", 9);
    assert_refused_untouched(place.path, "SQLite format 3", 15);
    assert_refused_untouched(place.path, large, sizeof large);
    lib_sqlite_remove(&place);
}

static void file_cut_short_is_refused_and_left_alone(void **state)
{
    (void)state;
    struct lib_sqlite place;
    lib_sqlite_make(&place);
    qn_broker_close(lib_sqlite_open(place.path));
    struct stat info;
    assert_int_equal(stat(place.path, &info), 0);
    char *data = malloc((size_t)info.st_size);
    assert_non_null(data);
    int fd = open(place.path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, data, (size_t)info.st_size), info.st_size);
    (void)close(fd);
    for (size_t size = 4096; size < (size_t)info.st_size; size += 8192) {
        assert_refused_untouched(place.path, data, size);
    }
    assert_refused_untouched(place.path, data, 20);
    free(data);
    lib_sqlite_remove(&place);
}

static void file_of_another_program_is_refused_with_advice(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err;
    lib_sqlite_make(&place);
    lib_sqlite_exec(place.path, "CREATE TABLE accounts (id INTEGER PRIMARY KEY)");
    assert_int_equal(lib_sqlite_refused(place.path, true, &err), QUERN_E_STATE);
    assert_non_null(strstr(err.text, "quern db init"));
    assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM sqlite_master"), 1);
    lib_sqlite_remove(&place);
}

static void init_adds_our_tables_beside_others(void **state)
{
    (void)state;
    const struct qn_broker_options options = {.init = true};
    struct lib_sqlite place;
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    lib_sqlite_make(&place);
    lib_sqlite_exec(place.path, "CREATE TABLE accounts (id INTEGER PRIMARY KEY);"
                                "INSERT INTO accounts VALUES (7);"
                                "PRAGMA user_version = 42; PRAGMA application_id = 43;");
    assert_ok(qn_broker_open(place.path, &options, &broker, &err), err);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    qn_broker_close(broker);
    broker = lib_sqlite_open(place.path); /* from now on as any other */
    qn_broker_close(broker);
    assert_int_equal(lib_sqlite_query(place.path, "SELECT id FROM accounts"), 7);
    assert_int_equal(lib_sqlite_query(place.path, "PRAGMA user_version"), 42);
    assert_int_equal(lib_sqlite_query(place.path, "PRAGMA application_id"), 43);
    lib_sqlite_remove(&place);
}

static void newer_schema_is_refused(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err;
    lib_sqlite_make(&place);
    qn_broker_close(lib_sqlite_open(place.path));
    lib_sqlite_exec(place.path, "UPDATE quern_meta SET schema_version = 1000");
    assert_int_equal(lib_sqlite_refused(place.path, true, &err), QUERN_E_CORRUPT);
    assert_non_null(strstr(err.text, "newer"));
    assert_int_equal(lib_sqlite_query(place.path, "SELECT schema_version FROM quern_meta"), 1000);
    lib_sqlite_remove(&place);
}

/* A file of the first version with a charged task in it, beside a view that does not work. */
static void make_first_version(const struct lib_sqlite *place)
{
    lib_sqlite_exec(place->path, "PRAGMA journal_mode = wal");
    lib_sqlite_exec(place->path, sql_schema_1);
    lib_sqlite_exec(place->path,
                    "CREATE VIEW broken AS SELECT x FROM missing;"
                    "INSERT INTO quern_meta VALUES (1, 1, 10, '', 0);"
                    "INSERT INTO quern_queue (no, name, crash_streak, streak_id)"
                    " VALUES (1, 'default', 9, 'a');"
                    "INSERT INTO quern_task (seq, queue, id, state, place, retry_max, timeout_ms,"
                    " enqueued_at_ms, type, crash_count, crashed_at_ms)"
                    " VALUES (2, 1, 'a', 2, 3, 25, 1000, 1, 't', 2, 1700000000000);");
}

static void file_of_the_first_version_is_brought_to_this_one(void **state)
{
    (void)state;
    struct lib_sqlite place;
    struct qn_leased *run = NULL;
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.worker_id = "w",
                                   .host = "h",
                                   .lease_ms = 30000,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.runs = &run};
    quern_error err = {0};
    lib_sqlite_make(&place);
    make_first_version(&place);
    (void)chmod(place.path, 0600);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_int_equal(lib_sqlite_query(place.path, "SELECT schema_version FROM quern_meta"),
                     QN_SQLITE_SCHEMA_VERSION);
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    assert_int_equal(reply.run_count, 1);
    assert_string_equal(run->task.id, "a");
    assert_int_equal(run->crash_count, 2);
    qn_leased_free(run);
    qn_broker_close(broker);
    qn_broker_close(lib_sqlite_open(place.path)); /* from now on as any other */
    lib_sqlite_remove(&place);
}

static void lost_version_is_refused(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err;
    lib_sqlite_make(&place);
    qn_broker_close(lib_sqlite_open(place.path));
    lib_sqlite_exec(place.path, "DELETE FROM quern_meta");
    assert_int_equal(lib_sqlite_refused(place.path, true, &err), QUERN_E_CORRUPT);
    lib_sqlite_remove(&place);
}

static void places_that_cannot_hold_a_file_are_named(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err;
    char path[160];
    lib_sqlite_make(&place);
    (void)snprintf(path, sizeof path, "%s/no/such/tasks.db", place.dir);
    assert_int_equal(lib_sqlite_refused(path, true, &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "No such file or directory"));
    assert_int_equal(lib_sqlite_refused(place.dir, true, &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "not a regular file"));
    (void)snprintf(path, sizeof path, "%s/", place.dir);
    assert_int_equal(lib_sqlite_refused(path, true, &err), QUERN_E_CONNECT);
    lib_sqlite_write_file(place.path, "", 0);
    (void)snprintf(path, sizeof path, "%s/below", place.path);
    assert_int_equal(lib_sqlite_refused(path, true, &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "Not a directory"));
    assert_int_equal(lib_sqlite_refused("/proc/tasks.db", true, &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "/proc/tasks.db"));
    lib_sqlite_remove(&place);
}

static void wrong_urls_are_refused_by_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *words;
    } cases[] = {
        {"carrier-pigeon://loft", "carrier-pigeon"}, {"sqlite:///tmp/x.db?colour=red", "colour"},
        {"sqlite:///tmp/x.db?sync=maybe", "maybe"},  {"sqlite:///tmp/x.db?unsafe_fs=yes", "yes"},
        {"sqlite://host/x.db", "three slashes"},     {"", ""},
    };
    quern_error err;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(lib_sqlite_refused(cases[i].url, true, &err), QUERN_E_INVALID);
        assert_non_null(strstr(err.text, cases[i].words));
    }
}

static void network_file_system_is_refused_unless_allowed(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err;
    char url[160];
    lib_sqlite_make(&place);
    const long systems[] = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, V9FS_MAGIC, FUSE_SUPER_MAGIC};
    for (size_t i = 0; i < TEST_COUNT(systems); i++) {
        pretended_fs = systems[i];
        assert_int_equal(lib_sqlite_refused(place.path, true, &err), QUERN_E_CONNECT);
        assert_non_null(strstr(err.text, "unsafe_fs=1"));
        assert_int_equal(lib_sqlite_names_in(place.dir), 0);
    }
    (void)snprintf(url, sizeof url, "sqlite://%s?unsafe_fs=1", place.path);
    qn_broker_close(lib_sqlite_open(url));
    assert_int_equal(lib_sqlite_refused(place.path, false, &err), QUERN_E_CONNECT);
    pretended_fs = 0;
    qn_broker_close(lib_sqlite_open(place.path));
    lib_sqlite_remove(&place);
}

static void symbolic_link_leads_to_the_same_sockets(void **state)
{
    (void)state;
    struct lib_sqlite place;
    char link_path[160];
    char wake_dir[160];
    lib_sqlite_make(&place);
    (void)snprintf(link_path, sizeof link_path, "%s/link.db", place.dir);
    lib_sqlite_wake_dir(&place, wake_dir, sizeof wake_dir);
    qn_broker_close(lib_sqlite_open(place.path));
    assert_int_equal(symlink("tasks.db", link_path), 0);
    struct qn_broker *broker = lib_sqlite_open(link_path);
    lib_sqlite_arm(broker);
    assert_int_equal(lib_sqlite_names_in(wake_dir), 3);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void *open_one(void *path)
{
    return lib_sqlite_open(path);
}

static void new_file_may_be_opened_by_many_at_once(void **state)
{
    (void)state;
    struct lib_sqlite place;
    pthread_t threads[8];
    quern_error err = {0};
    lib_sqlite_make(&place);
    for (size_t i = 0; i < TEST_COUNT(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_one, place.path), 0);
    }
    for (size_t i = 0; i < TEST_COUNT(threads); i++) {
        char id[8];
        void *broker = NULL;
        assert_int_equal(pthread_join(threads[i], &broker), 0);
        (void)snprintf(id, sizeof id, "t%zu", i);
        assert_ok(lib_sqlite_enqueue(broker, id, &err), err);
        qn_broker_close(broker);
    }
    assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM quern_task"),
                     TEST_COUNT(threads));
    lib_sqlite_remove(&place);
}

static void fork_is_refused_and_does_no_harm(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    lib_sqlite_arm(broker);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        quern_status status = lib_sqlite_enqueue(broker, "child", &err);
        qn_broker_wake(broker);
        qn_broker_close(broker);
        _exit(status == QUERN_E_CLOSED ? 0 : 1);
    }
    int end = -1;
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
    char wake_dir[160];
    lib_sqlite_wake_dir(&place, wake_dir, sizeof wake_dir);
    assert_int_equal(lib_sqlite_names_in(wake_dir), 3);
    assert_ok(lib_sqlite_enqueue(broker, "parent", &err), err);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void file_that_was_removed_or_replaced_is_refused(void **state)
{
    (void)state;
    struct lib_sqlite place;
    char moved[sizeof place.path + 8];
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    (void)snprintf(moved, sizeof moved, "%s.moved", place.path);
    assert_int_equal(rename(place.path, moved), 0);
    assert_int_equal(lib_sqlite_enqueue(broker, "b", &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "removed or replaced"));
    struct qn_broker *other = lib_sqlite_open(place.path);
    assert_ok(lib_sqlite_enqueue(other, "c", &err), err);
    assert_int_equal(lib_sqlite_enqueue(broker, "d", &err), QUERN_E_CONNECT);
    qn_broker_close(broker);
    assert_ok(lib_sqlite_enqueue(other, "e", &err), err);
    qn_broker_close(other);
    assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM quern_task"), 2);
    lib_sqlite_remove(&place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(new_file_is_private),
    cmocka_unit_test(missing_file_is_not_created_without_a_request),
    cmocka_unit_test(empty_file_is_a_new_one),
    cmocka_unit_test(text_file_is_refused_and_left_alone),
    cmocka_unit_test(file_cut_short_is_refused_and_left_alone),
    cmocka_unit_test(file_of_another_program_is_refused_with_advice),
    cmocka_unit_test(init_adds_our_tables_beside_others),
    cmocka_unit_test(newer_schema_is_refused),
    cmocka_unit_test(file_of_the_first_version_is_brought_to_this_one),
    cmocka_unit_test(lost_version_is_refused),
    cmocka_unit_test(places_that_cannot_hold_a_file_are_named),
    cmocka_unit_test(wrong_urls_are_refused_by_what_is_wrong),
    cmocka_unit_test(network_file_system_is_refused_unless_allowed),
    cmocka_unit_test(symbolic_link_leads_to_the_same_sockets),
    cmocka_unit_test(new_file_may_be_opened_by_many_at_once),
    cmocka_unit_test(fork_is_refused_and_does_no_harm),
    cmocka_unit_test(file_that_was_removed_or_replaced_is_refused),
};
TEST_MAIN(tests)
