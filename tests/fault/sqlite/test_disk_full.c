/* SPDX-License-Identifier: MIT */
/* test_disk_full.c - the disk is full, or broken, from the n-th write on, for every n: a typed
 * error, nothing half stored, nothing lost, and everything goes on when the disk is well again.
 *
 * SQLite lets a test replace its system calls; ours fail from the n-th write on. */
#include "lib_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "broker/inspect.h"
#include "quern/quern.h"
#include "task/limits.h"

#define WRITES_MAX 2000

/* Writes that still succeed; negative: all of them. */
static int writes_left = -1;
static int write_errno = ENOSPC;
static bool fails_only_once;

static bool disk_is_full(void)
{
    if (writes_left == 0) {
        errno = write_errno;
        writes_left = fails_only_once ? -1 : 0;
        return true;
    }
    writes_left -= writes_left > 0 ? 1 : 0;
    return false;
}

static ssize_t full_write(int fd, const void *data, size_t size)
{
    return disk_is_full() ? -1 : write(fd, data, size);
}

static ssize_t full_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return disk_is_full() ? -1 : pwrite(fd, data, size, offset);
}

static int full_fallocate(int fd, off_t offset, off_t size)
{
    return disk_is_full() ? write_errno : posix_fallocate(fd, offset, size);
}

static void replace_writes(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    assert_non_null(vfs);
    assert_non_null(vfs->xSetSystemCall);
    (void)vfs->xSetSystemCall(vfs, "write", (sqlite3_syscall_ptr)full_write);
    (void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)full_pwrite);
    (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)full_pwrite);
    (void)vfs->xSetSystemCall(vfs, "fallocate", (sqlite3_syscall_ptr)full_fallocate);
}

struct place {
    char dir[TEST_DIR_SIZE];
    char path[128];
    struct qn_broker *broker;
};

static void place_open(struct place *place, int failing_errno)
{
    const struct qn_broker_options options = {.create = true};
    quern_error err = {0};
    writes_left = -1;
    write_errno = failing_errno;
    replace_writes();
    test_dir_make(place->dir);
    (void)snprintf(place->path, sizeof place->path, "%s/tasks.db", place->dir);
    assert_ok(qn_broker_open(place->path, &options, &place->broker, &err), err);
}

static void place_close(struct place *place)
{
    writes_left = -1;
    qn_broker_close(place->broker);
    test_dir_remove(place->dir);
}

/* A full disk is reported before anything is stored. When a write breaks, the fate of the
 * transaction may be unknown; then the same request with the same stamp settles it. Returns whether
 * it is. */
static bool is_unknown(quern_status status, const quern_error *err)
{
    bool unknown = write_errno == EIO && status == QUERN_E_UNKNOWN;
    quern_status expected = write_errno == ENOSPC ? QUERN_E_FULL : QUERN_E_BROKER;
    if (!unknown && status != expected) {
        print_error("%s: %s\n", quern_status_name(status), err->text);
        fail();
    }
    assert_int_equal(err->code, status);
    return unknown;
}

static bool count_task(const quern_task_info *info, void *user)
{
    (void)info;
    (*(size_t *)user)++;
    return true;
}

static size_t tasks_in(struct place *place, quern_task_state state)
{
    const quern_task_filter filter = {.state = (int32_t)state, .limit = 10000};
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_broker_tasks(place->broker, &filter, count_task, &count, &err), err);
    return count;
}

static quern_status enqueue_ten(struct place *place, int round, quern_error *err)
{
    static const char payload[3000];
    struct qn_task tasks[10];
    char ids[10][24];
    quern_status results[10];
    for (int i = 0; i < 10; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "r%d-%d", round, i);
        tasks[i] = (struct qn_task){.id = ids[i],
                                    .queue = "default",
                                    .type = "t",
                                    .payload = payload,
                                    .payload_size = sizeof payload,
                                    .retention_ms = 3600000,
                                    .state = QUERN_TASK_PENDING};
    }
    struct qn_stamp stamp = {.session = 1, .sequence = (uint64_t)round + 1};
    return qn_broker_enqueue(place->broker, &(struct qn_enqueue){stamp, tasks, 10, results}, err);
}

static void enqueue_on_a_failing_disk(int failing_errno)
{
    struct place place;
    size_t stored = 0;
    int failures = 0;
    place_open(&place, failing_errno);
    for (int n = 0; n < WRITES_MAX; n++) {
        quern_error err = {0};
        writes_left = n;
        quern_status status = enqueue_ten(&place, n, &err);
        bool reached = writes_left == 0;
        writes_left = -1;
        if (status == QUERN_OK) {
            stored += 10;
        } else if (is_unknown(status, &err)) {
            assert_ok(enqueue_ten(&place, n, &err), err);
            stored += 10;
            failures++;
        } else {
            failures++;
        }
        assert_int_equal(tasks_in(&place, QUERN_TASK_PENDING), stored);
        if (!reached) {
            break;
        }
    }
    assert_true(failures > 0);
    assert_true(stored > 0);
    quern_error err = {0};
    assert_ok(enqueue_ten(&place, WRITES_MAX, &err), err);
    assert_int_equal(tasks_in(&place, QUERN_TASK_PENDING), stored + 10);
    place_close(&place);
}

static void full_disk_at_enqueue_stores_all_or_nothing(void **state)
{
    (void)state;
    enqueue_on_a_failing_disk(ENOSPC);
}

static void broken_disk_at_enqueue_stores_all_or_nothing(void **state)
{
    (void)state;
    enqueue_on_a_failing_disk(EIO);
}

/* The n-th write breaks, for every n, and the next one works again: the client finds out whether
 * its task was stored, and never reports an unknown effect. */
static void client_settles_what_one_broken_write_left_open(void **state)
{
    (void)state;
    struct place place;
    quern_client *client = NULL;
    quern_error err = {0};
    size_t stored = 0;
    place_open(&place, EIO);
    fails_only_once = true;
    assert_ok(quern_client_open(place.path, NULL, &client, &err), err);
    bool reached = true;
    for (int n = 0; n < WRITES_MAX && reached; n++) {
        const quern_task task = {.type = "t", .payload = "0123456789", .payload_size = 10};
        writes_left = n;
        quern_status status = quern_client_enqueue(client, &task, NULL, &err);
        reached = writes_left == -1;
        writes_left = -1;
        if (status != QUERN_OK) {
            assert_int_equal(status, QUERN_E_BROKER);
        }
        stored += status == QUERN_OK ? 1 : 0;
        assert_int_equal(tasks_in(&place, QUERN_TASK_PENDING), stored);
    }
    assert_false(reached);
    assert_true(stored > 0);
    fails_only_once = false;
    quern_client_free(client);
    place_close(&place);
}

/* Tells that `run` is done (NULL: nothing) and asks for one more. */
static quern_status exchange_one(struct place *place, const struct qn_leased *run,
                                 enum qn_applied *ret_applied, struct qn_leased **ret_next,
                                 quern_error *err)
{
    uint64_t sequence = run == NULL ? 1 : run->token + 1; /* the same run, the same request */
    struct qn_outcome outcome = {.run = run, .kind = QN_DONE, .result = "ok", .result_size = 2};
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.stamp = {.session = 2, .sequence = sequence},
                                   .outcomes = &outcome,
                                   .outcome_count = run == NULL ? 0 : 1,
                                   .worker_id = "w",
                                   .lease_ms = 3600000,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.applied = ret_applied, .runs = ret_next};
    *ret_next = NULL;
    return qn_broker_exchange(place->broker, &exchange, &reply, err);
}

static void exchange_on_a_failing_disk(int failing_errno)
{
    struct place place;
    quern_error err = {0};
    struct qn_leased *run = NULL;
    size_t done = 0;
    int failures = 0;
    place_open(&place, failing_errno);
    for (int round = 0; round < 20; round++) {
        assert_ok(enqueue_ten(&place, round, &err), err);
    }
    enum qn_applied applied = QN_STALE;
    assert_ok(exchange_one(&place, NULL, NULL, &run, &err), err);
    for (int n = 0; n < 100; n++) {
        struct qn_leased *next = NULL;
        writes_left = n % 10;
        quern_status status = exchange_one(&place, run, &applied, &next, &err);
        writes_left = -1;
        if (status != QUERN_OK) {
            failures++;
            if (!is_unknown(status, &err)) {
                assert_int_equal(tasks_in(&place, QUERN_TASK_ACTIVE), 1);
                assert_int_equal(tasks_in(&place, QUERN_TASK_COMPLETED), done);
            }
            assert_ok(exchange_one(&place, run, &applied, &next, &err), err);
        }
        assert_int_equal(applied, QN_APPLIED);
        assert_non_null(next);
        done++;
        qn_leased_free(run);
        run = next;
    }
    assert_true(failures > 0);
    assert_int_equal(tasks_in(&place, QUERN_TASK_COMPLETED), done);
    assert_int_equal(tasks_in(&place, QUERN_TASK_PENDING), 200 - done - 1);
    qn_leased_free(run);
    place_close(&place);
}

static void full_disk_at_exchange_loses_no_outcome_and_no_lease(void **state)
{
    (void)state;
    exchange_on_a_failing_disk(ENOSPC);
}

static void broken_disk_at_exchange_loses_no_outcome_and_no_lease(void **state)
{
    (void)state;
    exchange_on_a_failing_disk(EIO);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(full_disk_at_enqueue_stores_all_or_nothing),
    cmocka_unit_test(broken_disk_at_enqueue_stores_all_or_nothing),
    cmocka_unit_test(client_settles_what_one_broken_write_left_open),
    cmocka_unit_test(full_disk_at_exchange_loses_no_outcome_and_no_lease),
    cmocka_unit_test(broken_disk_at_exchange_loses_no_outcome_and_no_lease),
};
TEST_MAIN(tests)
