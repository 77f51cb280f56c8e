/* SPDX-License-Identifier: MIT */
/* test_replicas.c - ?wait=N on a server without replicas: what is stored, and what is said. */
#include "lib_test.h"

#include <stdio.h>
#include <string.h>

#include "broker/redis/redis.h"
#include "lib_queue.h"

#define WAIT_MS 4000 /* longer than a link may be silent */

/* The reply to WAIT comes late on purpose: that the server greets another connection meanwhile does
 * not show that this one is dead. */
static void replicas_are_waited_for_as_long_as_the_url_says(void **state)
{
    (void)state;
    char url[sizeof redis.url + 32];
    struct qn_broker *waiting = NULL;
    test_redis_turn(&redis, 0); /* by its clock WAIT ends */
    (void)snprintf(url, sizeof url, "%s?wait=1&wait_ms=%d", redis.url, WAIT_MS);
    assert_ok(qn_broker_open(url, NULL, &waiting, &err), err);
    for (size_t i = 0; i < 2; i++) {
        const struct qn_task task = test_task(i == 0 ? "a" : "b");
        quern_status result = QUERN_OK;
        quern_error why = {0};
        int64_t begun_ms = test_now_ms();
        const struct qn_enqueue request = {
            .tasks = &task, .count = 1, .results = &result, .ret_few_replicas = &why};
        assert_ok(qn_broker_enqueue(waiting, &request, &err), err);
        assert_int_equal(result, QUERN_E_NOT_REPLICATED);
        assert_int_equal(why.code, QUERN_E_NOT_REPLICATED);
        assert_string_equal(why.text, "0 of the 1 replicas asked for confirmed it within 4000 ms");
        assert_true(test_now_ms() - begun_ms >= WAIT_MS);
    }
    qn_broker_close(waiting);
}

/* By a clock that stands still WAIT never ends. */
static void a_server_that_does_not_say_who_has_a_task_has_stored_it(void **state)
{
    (void)state;
    char url[sizeof redis.url + 32];
    struct qn_broker *waiting = NULL;
    const struct qn_task task = test_task("a");
    quern_status result = QUERN_OK;
    quern_error why = {0};
    const struct qn_enqueue request = {
        .tasks = &task, .count = 1, .results = &result, .ret_few_replicas = &why};
    (void)snprintf(url, sizeof url, "%s?wait=1&wait_ms=10", redis.url);
    assert_ok(qn_broker_open(url, NULL, &waiting, &err), err);
    assert_ok(qn_broker_enqueue(waiting, &request, &err), err);
    assert_int_equal(result, QUERN_E_NOT_REPLICATED);
    assert_non_null(strstr(why.text, "whether replicas have it is not known: "));
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 1);
    qn_broker_close(waiting);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, queue_set_up, queue_tear_down)
static const struct CMUnitTest tests[] = {
    TEST(replicas_are_waited_for_as_long_as_the_url_says),
    TEST(a_server_that_does_not_say_who_has_a_task_has_stored_it),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_client_replicas", .tests = tests, .test_count = TEST_COUNT(tests)};
    int result = test_main(argc, argv, &group);
    test_redis_stop(&redis);
    return result;
}
