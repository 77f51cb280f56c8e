/* SPDX-License-Identifier: MIT */
/* test_sync.c - every commit reaches the disk within a second, even without a worker, and an I/O
 * error in the middle of a commit leads neither to a lost nor to a second task.
 *
 * The tests replace the C library's fdatasync, and SQLite's system calls. */
#include "lib_sqlite.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int wal_syncs;

static void count_sync(int fd)
{
    char link[64];
    char path[256];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    if (size > 4 && memcmp(path + size - 4, "-wal", 4) == 0) {
        atomic_fetch_add(&wal_syncs, 1);
    }
}

/* Visible, so that SQLite's library finds them too. */
QUERN_API int fdatasync(int fd)
{
    count_sync(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

QUERN_API int fsync(int fd)
{
    count_sync(fd);
    return (int)syscall(SYS_fsync, fd);
}

static bool was_synced(void *user)
{
    return atomic_load(&wal_syncs) > *(int *)user;
}

static void commit_is_synced_without_a_worker(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    for (int round = 0; round < 2; round++) {
        char id[16];
        int before = atomic_load(&wal_syncs);
        (void)snprintf(id, sizeof id, "r%d", round);
        assert_ok(lib_sqlite_enqueue(broker, id, &err), err);
        assert_true(test_until(was_synced, &before));
    }
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void closing_syncs_what_was_committed(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *other = lib_sqlite_open(place.path); /* so that closing is no checkpoint */
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    int before = atomic_load(&wal_syncs);
    qn_broker_close(broker);
    assert_true(was_synced(&before));
    qn_broker_close(other);
    lib_sqlite_remove(&place);
}

static void full_sync_waits_for_the_disk_at_each_commit(void **state)
{
    (void)state;
    struct lib_sqlite place;
    char url[160];
    quern_error err = {0};
    lib_sqlite_make(&place);
    (void)snprintf(url, sizeof url, "sqlite://%s?sync=full", place.path);
    struct qn_broker *broker = lib_sqlite_open(url);
    for (int round = 0; round < 5; round++) {
        char id[16];
        int before = atomic_load(&wal_syncs);
        (void)snprintf(id, sizeof id, "r%d", round);
        assert_ok(lib_sqlite_enqueue(broker, id, &err), err);
        assert_true(was_synced(&before));
    }
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

/* --- I/O errors ---------------------------------------------------------------------- */

#define WRITES_MAX 200

static int writes_left = -1; /* writes of SQLite that still succeed; negative: all */

static ssize_t failing_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (writes_left == 0) {
        errno = EIO;
        return -1;
    }
    writes_left -= writes_left > 0 ? 1 : 0;
    return pwrite(fd, data, size, offset);
}

static void replace_writes(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    assert_int_equal(vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)failing_pwrite),
                     SQLITE_OK);
    (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)failing_pwrite);
}

static quern_status enqueue_stamped(struct qn_broker *broker, int n, quern_error *err)
{
    char id[16];
    (void)snprintf(id, sizeof id, "n%d", n);
    const struct qn_task task = {
        .id = id, .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
    const struct qn_stamp stamp = {.session = 1, .sequence = (uint64_t)n + 1};
    quern_status result = QUERN_E_INVALID;
    quern_status status =
        qn_broker_enqueue(broker, &(struct qn_enqueue){stamp, &task, 1, &result}, err);
    return status == QUERN_OK ? result : status;
}

static void failed_write_is_reported_and_can_be_sent_again(void **state)
{
    (void)state;
    struct lib_sqlite place;
    int failures = 0;
    int unknown = 0;
    bool reached = true;
    lib_sqlite_make(&place);
    replace_writes();
    struct qn_broker *broker = lib_sqlite_open(place.path);
    int n = 0;
    for (; reached && n < WRITES_MAX; n++) {
        quern_error err = {0};
        writes_left = n;
        quern_status status = enqueue_stamped(broker, n, &err);
        reached = writes_left == 0;
        writes_left = -1;
        if (status != QUERN_OK) {
            assert_true(status == QUERN_E_BROKER || status == QUERN_E_UNKNOWN);
            assert_int_equal(err.code, status);
            failures++;
            unknown += status == QUERN_E_UNKNOWN ? 1 : 0;
        }
        assert_ok(enqueue_stamped(broker, n, &err), err);
        assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM quern_task"), n + 1);
    }
    assert_false(reached);
    assert_true(failures > 0);
    assert_true(unknown > 0);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(commit_is_synced_without_a_worker),
    cmocka_unit_test(closing_syncs_what_was_committed),
    cmocka_unit_test(full_sync_waits_for_the_disk_at_each_commit),
    cmocka_unit_test(failed_write_is_reported_and_can_be_sent_again),
};
TEST_MAIN(tests)
