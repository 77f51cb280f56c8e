/* SPDX-License-Identifier: MIT */
/* test_client_full.c - a disk that is full: nothing is half stored, and it works again later.
 *
 * The full disk is a limit on the size of files (RLIMIT_FSIZE), set in a child process: every write
 * beyond it fails as on a full disk, whoever runs the test. */
#include "lib_test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "quern/client.h"
#include "quern/inspector.h"

#define FULL_SIZE (256 * 1024)
#define PAYLOAD_SIZE 20000
#define BATCH 8

static void set_limit(rlim_t size)
{
    struct rlimit limit = {0};
    TEST_REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = size;
    TEST_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
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
        TEST_REQUIRE(status == QUERN_E_FULL);
        TEST_REQUIRE(err.text[0] != '\0');
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
    (void)signal(SIGXFSZ, SIG_IGN); /* the write fails with EFBIG instead */
    quern_client *client = NULL;
    TEST_REQUIRE(quern_client_open(argv[0], NULL, &client, NULL) == QUERN_OK);
    static char payload[PAYLOAD_SIZE];
    memset(payload, 'p', sizeof payload);
    quern_task tasks[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        tasks[i] = (quern_task){.type = "t", .payload = payload, .payload_size = sizeof payload};
    }
    set_limit(FULL_SIZE);
    size_t stored = fill_disk(client, tasks);
    stored += fill_disk(client, tasks); /* the second time it knows no other way out */
    set_limit(RLIM_INFINITY);
    quern_error err = {0};
    TEST_REQUIRE(quern_client_enqueue_batch(client, tasks, BATCH, NULL, &err) == QUERN_OK);
    stored += BATCH;
    quern_client_free(client);
    FILE *report = fopen(argv[1], "we");
    TEST_REQUIRE(report != NULL && fprintf(report, "%zu\n", stored) > 0 && fclose(report) == 0);
    return 0;
}

static void a_full_disk_is_told_and_nothing_is_half_stored(void **state)
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
    cmocka_unit_test(a_full_disk_is_told_and_nothing_is_half_stored),
};
static const struct test_role roles[] = {{"client", child_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {"client_full", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
