/* SPDX-License-Identifier: MIT */
/* test_full.c - a disk that is full: nothing is half stored, and it works again later.
 *
 * The full disk is simulated in SQLite's own system calls, in a child process: writes end at a
 * limit with ENOSPC, after the part that still fits, as the kernel's do. */
#include "lib_test.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "quern/client.h"
#include "quern/inspector.h"

#define FULL_SIZE (256 * 1024)
#define PAYLOAD_SIZE 20000
#define BATCH 8

static off_t size_limit; /* of each file; 0: none */

static ssize_t limited_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (size_limit > 0 && offset >= size_limit) {
        errno = ENOSPC;
        return -1;
    }
    if (size_limit > 0 && (off_t)size > size_limit - offset) {
        size = (size_t)(size_limit - offset);
    }
    return pwrite(fd, data, size, offset);
}

static void take_hold_of_writes(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    TEST_REQUIRE(vfs != NULL && vfs->iVersion >= 3);
    /* One of them is in use, depending on how SQLite was built. */
    sqlite3_syscall_ptr hand = (sqlite3_syscall_ptr)limited_pwrite;
    TEST_REQUIRE(vfs->xSetSystemCall(vfs, "pwrite", hand) == SQLITE_OK);
    TEST_REQUIRE(vfs->xSetSystemCall(vfs, "pwrite64", hand) == SQLITE_OK);
}

/* Stores batches until the disk is full; returns the number of stored tasks. */
static size_t fill_disk(quern_client *client, const quern_task *tasks)
{
    size_t stored = 0;
    for (int i = 0; i < 1000; i++) {
        quern_enqueue_result results[BATCH];
        quern_error err = {0};
        quern_status status = quern_client_enqueue_batch(client, tasks, BATCH, results, &err);
        if (status == QUERN_OK) {
            stored += BATCH;
            continue;
        }
        TEST_REQUIRE(status == QUERN_E_FULL && strstr(err.text, "full") != NULL);
        for (size_t k = 0; k < BATCH; k++) {
            TEST_REQUIRE(results[k].status == QUERN_E_FULL);
        }
        return stored;
    }
    TEST_REQUIRE(!"the disk is never full");
    return 0;
}

/* argv: the file. Ends with the number of stored tasks in a second file. */
static int child_main(int argc, char **argv)
{
    TEST_REQUIRE(argc == 2);
    take_hold_of_writes();
    quern_client *client = NULL;
    TEST_REQUIRE(quern_client_open(argv[0], NULL, &client, NULL) == QUERN_OK);
    static char payload[PAYLOAD_SIZE];
    memset(payload, 'p', sizeof payload);
    quern_task tasks[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        tasks[i] = (quern_task){.type = "t", .payload = payload, .payload_size = sizeof payload};
    }
    size_limit = FULL_SIZE;
    size_t stored = fill_disk(client, tasks);
    stored += fill_disk(client, tasks); /* the second time it knows no other way out */
    size_limit = 0;
    quern_error err = {0};
    TEST_REQUIRE(quern_client_enqueue_batch(client, tasks, BATCH, NULL, &err) == QUERN_OK);
    stored += BATCH;
    quern_client_free(client);
    FILE *report = fopen(argv[1], "we");
    TEST_REQUIRE(report != NULL && fprintf(report, "%zu\n", stored) > 0 && fclose(report) == 0);
    return 0;
}

static void a_full_disk_is_reported_and_nothing_is_half_stored(void **state)
{
    (void)state;
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 16];
    char report_path[TEST_DIR_SIZE + 16];
    test_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/full.db", dir);
    (void)snprintf(report_path, sizeof report_path, "%s/stored", dir);
    const char *const args[] = {path, report_path, NULL};
    struct test_child child = test_spawn("client", args);
    assert_int_equal(test_child_join(&child), 0);

    FILE *report = fopen(report_path, "re");
    size_t stored = 0;
    assert_non_null(report);
    assert_int_equal(fscanf(report, "%zu", &stored), 1);
    (void)fclose(report);
    assert_true(stored >= BATCH);

    quern_inspector *inspector = NULL;
    quern_task_list *list = NULL;
    const quern_task_filter filter = {.limit = 10000};
    quern_error err = {0};
    assert_ok(quern_inspector_open(path, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_tasks(inspector, &filter, &list, &err), err);
    assert_int_equal(quern_task_list_size(list), stored);
    for (size_t i = 0; i < stored; i++) {
        size_t size = 0;
        (void)quern_task_info_payload(quern_task_list_at(list, i), &size);
        assert_int_equal(size, PAYLOAD_SIZE);
    }
    quern_task_list_free(list);
    quern_inspector_free(inspector);
    test_dir_remove(dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_full_disk_is_reported_and_nothing_is_half_stored),
};
static const struct test_role roles[] = {{"client", child_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {"client_full", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
