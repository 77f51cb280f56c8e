/* SPDX-License-Identifier: MIT */
/* test_lost.c - a file that is removed, replaced or damaged under a worker ends it, so that a
 * supervisor restarts it; a full disk does not, neither at its start.
 *
 * SQLite lets a test replace its system calls; ours do harm to all threads but the test's own. */
#include "lib_worker.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic bool reads_garbage;
static _Atomic bool disk_full;
static _Thread_local bool spared;

static ssize_t odd_pread(int fd, void *data, size_t size, off_t offset)
{
    ssize_t got = pread(fd, data, size, offset);
    if (got > 0 && !spared && atomic_load(&reads_garbage)) {
        memset(data, 0xa5, (size_t)got);
    }
    return got;
}

static ssize_t odd_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (!spared && atomic_load(&disk_full)) {
        errno = ENOSPC;
        return -1;
    }
    return pwrite(fd, data, size, offset);
}

static struct rig *open_rig(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    assert_non_null(vfs);
    (void)vfs->xSetSystemCall(vfs, "pread", (sqlite3_syscall_ptr)odd_pread);
    (void)vfs->xSetSystemCall(vfs, "pread64", (sqlite3_syscall_ptr)odd_pread);
    (void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)odd_pwrite);
    (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)odd_pwrite);
    atomic_store(&reads_garbage, false);
    atomic_store(&disk_full, false);
    spared = true;
    return rig_new(false);
}

/* Returns when it has run a task. */
static void start_and_serve(struct rig *rig, struct rig_worker *worker)
{
    rig_start(rig, worker, NULL);
    rig_put(rig, "a", "done");
    rig_wait_state(rig, "a", 0);
}

static const char *path_of(const struct rig *rig)
{
    return rig->store.url + strlen("sqlite://");
}

static void a_worker_whose_file_is_removed_ends(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct rig_worker worker;
    rig_put(rig, "a", "wait"); /* a handler that heeds its cancellation */
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    assert_int_equal(unlink(path_of(rig)), 0);
    assert_int_equal(rig_join(&worker), QUERN_E_CONNECT);
    assert_non_null(strstr(worker.error.text, "removed"));
    assert_true(rig_logged(rig, "worker ends, its data is lost"));
    assert_string_equal(rig_start_at(rig, 0).reason, "shutdown");
    rig_free(rig);
}

static void a_worker_whose_file_is_replaced_ends(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct rig_worker worker;
    char other[300];
    quern_client *client = NULL;
    quern_error error = {0};
    (void)snprintf(other, sizeof other, "%s.other", path_of(rig));
    assert_ok(quern_client_open(other, NULL, &client, &error), error);
    quern_client_free(client);
    start_and_serve(rig, &worker);
    assert_int_equal(rename(other, path_of(rig)), 0);
    assert_int_equal(rig_join(&worker), QUERN_E_CONNECT);
    assert_non_null(strstr(worker.error.text, "replaced"));
    rig_free(rig);
}

static void a_worker_whose_file_is_damaged_ends(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct rig_worker worker;
    start_and_serve(rig, &worker);
    atomic_store(&reads_garbage, true);
    rig_put(rig, "b", "done");
    assert_int_equal(rig_join(&worker), QUERN_E_CORRUPT);
    atomic_store(&reads_garbage, false);
    assert_int_equal(rig_state(rig, "b"), QUERN_TASK_PENDING);
    rig_free(rig);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* The contents of the log would restore the file, and there would be no damage. */
static void cut_to_nothing(const char *path)
{
    run_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_int_equal(truncate(path, 0), 0);
}

static void remove_log(const char *path)
{
    char name[300];
    (void)snprintf(name, sizeof name, "%s-wal", path);
    assert_int_equal(unlink(name), 0);
}

static void remove_index_of_log(const char *path)
{
    char name[300];
    (void)snprintf(name, sizeof name, "%s-shm", path);
    assert_int_equal(unlink(name), 0);
}

static void drop_table(const char *path)
{
    run_sql(path, "DROP TABLE quern_task");
}

/* An idle worker polls for tasks only every few seconds. All wait at the same time. */
static void idle_workers_end_whatever_is_done_to_their_files(void **state)
{
    (void)state;
    static const struct {
        void (*harm)(const char *path);
        quern_status status;
        const char *says;
    } cases[] = {
        {cut_to_nothing, QUERN_E_CORRUPT, ""}, /* or damaged, once a heartbeat is in it again */
        {remove_log, QUERN_E_CONNECT, "-wal was removed"},
        {remove_index_of_log, QUERN_E_CONNECT, "-shm was removed"},
        {drop_table, QUERN_E_CORRUPT, "no such table: quern_task"},
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    struct rig *rigs[COUNT];
    struct rig_worker workers[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        rigs[i] = open_rig();
        start_and_serve(rigs[i], &workers[i]);
        cases[i].harm(path_of(rigs[i]));
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(rig_join(&workers[i]), cases[i].status);
        assert_non_null(strstr(workers[i].error.text, cases[i].says));
        rig_free(rigs[i]);
    }
}

static void a_file_that_was_damaged_for_a_moment_does_not_end_its_worker(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct rig_worker worker;
    start_and_serve(rig, &worker);
    atomic_store(&reads_garbage, true);
    rig_put(rig, "b", "done");
    rig_wait_log(rig, "broker does not answer");
    atomic_store(&reads_garbage, false);
    rig_wait_state(rig, "b", 0);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_starts_on_a_full_disk_reports_what_is_missing_and_waits(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct rig_worker worker;
    rig_put(rig, "a", "done");
    atomic_store(&disk_full, true);
    spared = false; /* already opening may need space */
    rig_start(rig, &worker, NULL);
    spared = true;
    rig_wait_log(rig, "KiB more are needed");
    atomic_store(&disk_full, false);
    rig_wait_state(rig, "a", 0);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_that_must_not_wait_reports_that_its_disk_is_full(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    quern_worker *worker = NULL;
    quern_error error = {0};
    const quern_worker_options options = {.no_wait = true};
    assert_ok(quern_worker_new(rig->url, rig->mux, &options, &worker, &error), error);
    atomic_store(&disk_full, true);
    spared = false;
    assert_int_equal(quern_worker_run(worker, &error), QUERN_E_FULL);
    spared = true;
    assert_int_equal(error.code, QUERN_E_FULL);
    quern_worker_free(worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("sqlite", a_worker_whose_file_is_removed_ends),
    TEST_ONLY_OVER("sqlite", a_worker_whose_file_is_replaced_ends),
    TEST_ONLY_OVER("sqlite", a_worker_whose_file_is_damaged_ends),
    TEST_ONLY_OVER("sqlite", idle_workers_end_whatever_is_done_to_their_files),
    TEST_ONLY_OVER("sqlite", a_file_that_was_damaged_for_a_moment_does_not_end_its_worker),
    TEST_ONLY_OVER("sqlite", a_worker_that_must_not_wait_reports_that_its_disk_is_full),
    TEST_ONLY_OVER("sqlite", a_worker_starts_on_a_full_disk_reports_what_is_missing_and_waits),
};
TEST_MAIN_OVER_BROKERS(tests)
