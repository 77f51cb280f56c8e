/* SPDX-License-Identifier: MIT */
/* test_server.c - the redis-server of the tests does what their proofs rest on. */
#include "lib_redis.h"

#include <string.h>

static struct test_redis server;

static int stop(void **state)
{
    (void)state;
    test_redis_stop(&server);
    return 0;
}

static void its_wall_clock_is_turned_and_keys_expire_by_it(void **state)
{
    (void)state;
    test_redis_start(&server, &(struct test_redis_options){.turned = true});
    test_redis_turn(&server, INT64_C(1800000000123456));
    assert_string_equal(test_redis_do(&server, "TIME"), "1800000000\n123456\n");
    (void)test_redis_do(&server, "SET a 1 EX 10");
    test_redis_turn(&server, INT64_C(1800000009123455));
    assert_int_equal(test_redis_count(&server, "GET a"), 1);
    test_redis_turn(&server, INT64_C(1800000010124456));
    assert_string_equal(test_redis_do(&server, "GET a"), "(nil)");
    assert_string_equal(test_redis_do(&server, "EVAL %s 0", "return redis.call('TIME')"),
                        "1800000010\n124456\n");
}

static void appended_data_survive_a_kill(void **state)
{
    (void)state;
    test_redis_start(&server, &(struct test_redis_options){.append = true, .tcp = true});
    (void)test_redis_do(&server, "SET a %b", "x\0y", (size_t)3);
    test_redis_kill(&server);
    test_redis_launch(&server);
    test_redis_await(&server);
    assert_int_equal(test_redis_count(&server, "STRLEN a"), 3);
    assert_non_null(strstr(server.tcp_url, "redis://127.0.0.1:"));
    assert_non_null(strstr(test_redis_do(&server, "NONSENSE"), "-ERR unknown command"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown(its_wall_clock_is_turned_and_keys_expire_by_it, stop),
    cmocka_unit_test_teardown(appended_data_survive_a_kill, stop),
};
TEST_MAIN(tests)
