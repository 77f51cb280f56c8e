/* SPDX-License-Identifier: MIT */
/* test_alloc.c - memory runs out at the n-th allocation of edits and moves, for every n: nothing
 * crashes or leaks, and the task is in one queue, whole, as it was or as it was to be. On Redis a
 * server may have executed a request when there is no memory for its answer. */
#include <stdatomic.h>
#include <string.h>

#include "broker/redis/redis.h"
#include "lib_alloc.h"
#include "lib_store.h"
#include "quern/client.h"
#include "quern/search.h"

#define SWEEP_MAX 5000

static struct test_store store;

static bool may_follow(quern_status status)
{
    return status == QUERN_OK || status == QUERN_E_NOMEM ||
           (status == QUERN_E_UNKNOWN && test_store_is(&store, "redis"));
}

static quern_status edit_and_move(quern_inspector **ret_inspector)
{
    quern_matching matching;
    const quern_task_edit edit = {.payload = "new",
                                  .payload_size = 3,
                                  .set_payload = 1,
                                  .delay_ms = 7777777,
                                  .timeout_ms = 1};
    const quern_search search = {.match = "type = t and payload ~ e"};
    quern_status status = quern_inspector_open(store.url, NULL, ret_inspector, NULL);
    if (status == QUERN_OK) {
        status = quern_inspector_edit_matching(*ret_inspector, &edit, &search, &matching, NULL);
    }
    if (status == QUERN_OK) {
        assert_int_equal(matching.done, 1);
        status = quern_inspector_task_edit(*ret_inspector, NULL, "a", &edit, NULL);
    }
    if (status == QUERN_OK) {
        status = quern_inspector_move_matching(*ret_inspector, "other", &search, &matching, NULL);
    }
    if (status == QUERN_OK) {
        assert_int_equal(matching.done, 1);
        status = quern_inspector_task_move(*ret_inspector, NULL, "a", "default", NULL);
    }
    return status;
}

/* With memory: the task is there, once, and its lock with it. It is then as it was before. */
static void assert_whole(void)
{
    quern_error err = {0};
    size_t size = 0;
    quern_inspector *inspector = NULL;
    quern_task_list *list = NULL;
    assert_ok(quern_inspector_open(store.url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_tasks(inspector, NULL, &list, &err), err);
    assert_int_equal(quern_task_list_size(list), 1);
    const quern_task_info *info = quern_task_list_at(list, 0);
    const char *payload = quern_task_info_payload(info, &size);
    bool is_new = strcmp(payload, "new") == 0;
    assert_true(is_new || strcmp(payload, "e") == 0);
    assert_int_equal(quern_task_info_timeout_ms(info), is_new ? 1 : 60000);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_SCHEDULED);
    if (strcmp(quern_task_info_queue(info), "other") == 0) {
        assert_ok(quern_inspector_task_move(inspector, NULL, "a", "default", &err), err);
    }
    const quern_task_edit back = {
        .payload = "e", .payload_size = 1, .set_payload = 1, .timeout_ms = 60000};
    assert_ok(quern_inspector_task_edit(inspector, "default", "a", &back, &err), err);
    quern_task_list_free(list);
    quern_inspector_free(inspector);
}

static const quern_task unique = {.type = "t",
                                  .id = "a",
                                  .payload = "e",
                                  .payload_size = 1,
                                  .timeout_ms = 60000,
                                  .delay_ms = 3600000,
                                  .unique_ms = 3600000,
                                  .unique_key = "k"};

static void assert_locked(quern_client *client)
{
    quern_task again = unique;
    again.id = "b";
    assert_int_equal(quern_client_enqueue(client, &again, NULL, NULL), QUERN_E_DUPLICATE);
}

static void sweep(quern_client *client, bool for_good)
{
    size_t failed = 0;
    for (long n = 1; n < SWEEP_MAX; n++) {
        quern_inspector *inspector = NULL;
        test_alloc_for_good = for_good;
        atomic_store(&test_alloc_until_failure, n);
        quern_status status = edit_and_move(&inspector);
        bool was_short = atomic_exchange(&test_alloc_until_failure, 0) <= 1;
        quern_inspector_free(inspector);
        if (!may_follow(status)) {
            fail_msg("allocation %ld: %s", n, quern_status_name(status));
        }
        failed += status == QUERN_OK ? 0 : 1;
        assert_whole();
        assert_locked(client);
        if (!was_short) {
            print_message("%ld allocations, %zu rounds failed\n", n - 1, failed);
            assert_true(failed > 0);
            return;
        }
    }
    fail_msg("the scene never came to an end");
}

static void task_is_whole_and_in_one_queue_when_memory_is_short(void **state)
{
    (void)state;
    quern_error err = {0};
    quern_client *client = NULL;
    test_store_open(&store, 0);
    assert_ok(quern_client_open(store.url, NULL, &client, &err), err);
    assert_ok(quern_client_enqueue(client, &unique, NULL, &err), err);
    sweep(client, false);
    sweep(client, true);
    quern_client_free(client);
    test_store_close(&store);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(task_is_whole_and_in_one_queue_when_memory_is_short),
};
TEST_MAIN_OVER_BROKERS(tests)
