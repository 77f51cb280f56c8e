/* SPDX-License-Identifier: MIT */
/* test_batch.c - many tasks with one call: a status for each, order kept, few transactions.
 */
#include "lib_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MANY 1000

static quern_task tasks[MANY];
static char payloads[MANY][24];
static quern_enqueue_result results[MANY];

static void make_tasks(size_t count)
{
    memset(tasks, 0, sizeof tasks);
    memset(results, 0x55, sizeof results);
    for (size_t i = 0; i < count; i++) {
        int size = snprintf(payloads[i], sizeof payloads[i], "%zu", i);
        tasks[i] = (quern_task){.type = "t", .payload = payloads[i], .payload_size = (size_t)size};
    }
}

static void a_batch_is_stored_in_order_and_in_few_transactions(void **state)
{
    struct client_test *t = *state;
    make_tasks(MANY);
    client_hook(t, NULL);
    quern_error err = {0};
    assert_ok(quern_client_enqueue_batch(t->client, tasks, MANY, results, &err), err);
    assert_int_equal(client_turns(), (MANY + QN_BATCH_MAX - 1) / QN_BATCH_MAX);
    client_assert_order(t, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(results[i].status, QUERN_OK);
        assert_int_equal(strlen(results[i].id), 36);
        assert_true(i == 0 || strcmp(results[i - 1].id, results[i].id) < 0);
    }
    quern_task_info *info = client_find(t, NULL, results[700].id);
    assert_non_null(info);
    size_t size = 0;
    assert_memory_equal(quern_task_info_payload(info, &size), "700", 3);
    quern_task_info_free(info);
}

static void bad_ones_in_the_middle_concern_only_themselves(void **state)
{
    struct client_test *t = *state;
    make_tasks(300);
    tasks[17].type = " ";
    tasks[150].id = "same";
    tasks[200].id = "same";
    tasks[210].unique_ms = 60000;
    tasks[211].unique_ms = 60000;
    tasks[211].payload = tasks[210].payload;
    tasks[211].payload_size = tasks[210].payload_size;
    tasks[299].retention_ms = -1;
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue_batch(t->client, tasks, 300, results, &err),
                     QUERN_E_INVALID);
    assert_int_equal(err.code, QUERN_E_INVALID);
    assert_int_equal(strncmp(err.text, "task 17: ", 9), 0);
    for (size_t i = 0; i < 300; i++) {
        quern_status wanted = i == 17 || i == 299 ? QUERN_E_INVALID
                              : i == 200          ? QUERN_E_CONFLICT
                              : i == 211          ? QUERN_E_DUPLICATE
                                                  : QUERN_OK;
        assert_int_equal(results[i].status, wanted);
    }
    assert_string_equal(results[17].id, "");
    assert_string_equal(results[150].id, "same");
    assert_string_equal(results[200].id, "same");
    assert_int_equal(strlen(results[211].id), 36);
    assert_int_equal(client_stored(t), 300 - 4);
}

static void duplicates_have_the_id_of_the_one_that_is_there(void **state)
{
    struct client_test *t = *state;
    static quern_task many[5000];
    static quern_enqueue_result answers[5000];
    quern_error err = {0};
    const size_t counts[] = {1, 12, 5000};
    for (size_t k = 0; k < TEST_COUNT(counts); k++) {
        for (size_t i = 0; i < counts[k]; i++) {
            many[i] = (quern_task){.type = "t",
                                   .unique_ms = 60000,
                                   .unique_key = (const char *const[]){"a", "b", "c"}[k],
                                   .on_duplicate = QUERN_ON_DUPLICATE_IGNORE};
        }
        assert_ok(quern_client_enqueue_batch(t->client, many, counts[k], answers, &err), err);
        for (size_t i = 0; i < counts[k]; i++) {
            assert_int_equal(answers[i].status, QUERN_OK);
            assert_string_equal(answers[i].id, answers[0].id);
            assert_int_equal(answers[i].existing, i > 0);
        }
        assert_int_equal(client_stored(t), k + 1);
        /* And when they are refused. */
        many[0].on_duplicate = QUERN_ON_DUPLICATE_FAIL;
        char id[sizeof answers[0].id];
        memcpy(id, answers[0].id, sizeof id);
        assert_int_equal(quern_client_enqueue_batch(t->client, many, 1, answers, &err),
                         QUERN_E_DUPLICATE);
        assert_string_equal(answers[0].id, id);
        assert_int_equal(answers[0].existing, 0);
    }
}

static void the_first_failure_is_the_one_in_front(void **state)
{
    struct client_test *t = *state;
    make_tasks(4);
    tasks[1].id = "same";
    tasks[2].id = "same"; /* reported by the broker, after the invalid one was found */
    tasks[3].type = NULL;
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue_batch(t->client, tasks, 4, NULL, &err), QUERN_E_CONFLICT);
    assert_int_equal(strncmp(err.text, "task 2: ", 8), 0);
    assert_int_equal(client_stored(t), 2);
}

static void an_empty_batch_is_stored_at_once(void **state)
{
    struct client_test *t = *state;
    client_hook(t, NULL);
    assert_int_equal(quern_client_enqueue_batch(t->client, NULL, 0, NULL, NULL), QUERN_OK);
    assert_int_equal(client_turns(), 0);
}

static void large_payloads_are_spread_over_transactions(void **state)
{
    struct client_test *t = *state;
    make_tasks(5);
    size_t size = QN_BATCH_BYTES_MAX / 2 - 1;
    char *large = calloc(1, 3 * size);
    assert_non_null(large);
    for (size_t i = 0; i < 5; i++) {
        tasks[i].payload = large;
        tasks[i].payload_size = i == 3 ? 3 * size : size; /* one is larger than any batch */
    }
    client_hook(t, NULL);
    quern_error err = {0};
    assert_ok(quern_client_enqueue_batch(t->client, tasks, 5, results, &err), err);
    assert_int_equal(client_turns(), 4);
    assert_int_equal(client_count(0), 2);
    assert_int_equal(client_count(1), 1);
    assert_int_equal(client_count(2), 1);
    assert_int_equal(client_count(3), 1);
    assert_int_equal(client_stored(t), 5);
    free(large);
}

static quern_status fail_second(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    if (turn == 1) {
        return qn_error_set(err, QUERN_E_FULL, "disk full");
    }
    return client_pass_on(enqueue, err);
}

static void after_a_failure_of_the_broker_the_rest_is_not_tried(void **state)
{
    struct client_test *t = *state;
    make_tasks(MANY);
    client_hook(t, fail_second);
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue_batch(t->client, tasks, MANY, results, &err),
                     QUERN_E_FULL);
    assert_non_null(strstr(err.text, "task 128: "));
    assert_non_null(strstr(err.text, "disk full"));
    assert_int_equal(client_turns(), 2);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(results[i].status, i < QN_BATCH_MAX ? QUERN_OK : QUERN_E_FULL);
    }
    client_assert_order(t, QN_BATCH_MAX);
}

static void what_was_not_tried_has_the_failure_of_the_broker(void **state)
{
    struct client_test *t = *state;
    make_tasks(MANY);
    tasks[QN_BATCH_MAX].type = " ";
    client_hook(t, fail_second);
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue_batch(t->client, tasks, MANY, results, &err),
                     QUERN_E_INVALID);
    assert_int_equal(client_turns(), 2);
    assert_int_equal(results[QN_BATCH_MAX].status, QUERN_E_INVALID);
    for (size_t i = QN_BATCH_MAX + 1; i < MANY; i++) {
        assert_int_equal(results[i].status, QUERN_E_FULL);
    }
}

/* As Redis does: one of several scripts found no memory. */
static quern_status fill_up(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    (void)turn;
    struct qn_enqueue half = *enqueue;
    half.count /= 2;
    quern_status status = client_pass_on(&half, err);
    for (size_t i = half.count; i < enqueue->count; i++) {
        enqueue->results[i] = QUERN_E_FULL;
    }
    return status;
}

static void after_a_part_that_found_no_room_the_rest_is_not_tried(void **state)
{
    struct client_test *t = *state;
    make_tasks(MANY);
    client_hook(t, fill_up);
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue_batch(t->client, tasks, MANY, results, &err),
                     QUERN_E_FULL);
    assert_non_null(strstr(err.text, "task 64: "));
    assert_int_equal(client_turns(), 1);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(results[i].status, i < QN_BATCH_MAX / 2 ? QUERN_OK : QUERN_E_FULL);
    }
    client_assert_order(t, QN_BATCH_MAX / 2);
}

static quern_status lose_second(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    if (turn >= 1) {
        return qn_error_set(err, QUERN_E_UNKNOWN, "reply lost");
    }
    return client_pass_on(enqueue, err);
}

static void what_was_not_tried_is_not_called_unknown(void **state)
{
    struct client_test *t = *state;
    client_reopen(t, &(quern_client_options){.command_timeout_ms = 20});
    make_tasks(MANY);
    client_hook(t, lose_second);
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue_batch(t->client, tasks, MANY, results, &err),
                     QUERN_E_UNKNOWN);
    for (size_t i = 0; i < MANY; i++) {
        quern_status wanted = i < QN_BATCH_MAX       ? QUERN_OK
                              : i < 2 * QN_BATCH_MAX ? QUERN_E_UNKNOWN
                                                     : QUERN_E_TIMEOUT;
        assert_int_equal(results[i].status, wanted);
    }
    assert_non_null(strstr(err.text, results[QN_BATCH_MAX].id));
}

static const struct CMUnitTest all[] = {
    CLIENT_TEST(a_batch_is_stored_in_order_and_in_few_transactions),
    CLIENT_TEST(bad_ones_in_the_middle_concern_only_themselves),
    CLIENT_TEST(duplicates_have_the_id_of_the_one_that_is_there),
    CLIENT_TEST(the_first_failure_is_the_one_in_front),
    CLIENT_TEST(an_empty_batch_is_stored_at_once),
    CLIENT_TEST(large_payloads_are_spread_over_transactions),
    CLIENT_TEST(after_a_failure_of_the_broker_the_rest_is_not_tried),
    CLIENT_TEST(what_was_not_tried_has_the_failure_of_the_broker),
    CLIENT_TEST(after_a_part_that_found_no_room_the_rest_is_not_tried),
    CLIENT_TEST(what_was_not_tried_is_not_called_unknown),
};
TEST_MAIN(all)
