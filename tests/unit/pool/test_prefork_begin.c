/* SPDX-License-Identifier: MIT */
/* test_prefork_begin.c - items that may not begin, and what happens while the pool asks. */
#include "pool/prefork/prefork.h"

#include <stdlib.h>

#include "lib_prefork.h"
#include "lib_test.h"

/* While the pool's thread calls an op, it looks at nothing else. */
static void an_item_killed_meanwhile_ends_before_the_next_event(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item first = {0};
    struct lib_prefork_item second = {0};
    lib_prefork_init(&pool);
    pool.holds = true;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &first, "c");
    lib_prefork_wait_begun(&pool, &first);
    lib_prefork_submit(&pool, &second, "esecond");
    qn_prefork_kill(pool.prefork, &second.item, 0);
    lib_prefork_release(&pool);
    assert_false(lib_prefork_wait(&pool, &second));
    assert_int_equal(second.deaths, 1);
    assert_false(second.started);
    lib_prefork_wait_frame(&pool, &first);
    qn_prefork_cancel(pool.prefork, &first.item, 5);
    assert_true(lib_prefork_wait(&pool, &first));
    lib_prefork_stop(&pool);
}

/* Its owner frees it at once: the pool must not look at it again. */
static void an_item_that_may_not_begin_can_be_freed(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item next;
    lib_prefork_init(&pool);
    pool.refuse_begin = true;
    pool.free_refused = true;
    pool.options.window = 4;
    lib_prefork_start(&pool, NULL);
    for (int i = 0; i < 3; i++) {
        struct lib_prefork_item *item = calloc(1, sizeof *item);
        assert_non_null(item);
        item->item.is_short = true;
        lib_prefork_submit(&pool, item, "erefused");
    }
    lib_prefork_wait_refused(&pool, 3);
    lib_prefork_run(&pool, &next, "enext");
    assert_int_equal(next.results, 1);
    assert_int_equal(next.begun, 1);
    assert_int_equal(pool.results + pool.deaths, 1);
    lib_prefork_stop(&pool);
}

static void an_item_that_may_not_begin_is_forgotten(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item = {0};
    struct lib_prefork_item next;
    lib_prefork_init(&pool);
    pool.refuse_begin = true;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &item, "erefused");
    lib_prefork_wait_begun(&pool, &item);
    (void)pthread_mutex_lock(&pool.mutex);
    pool.refuse_begin = false;
    (void)pthread_mutex_unlock(&pool.mutex);
    lib_prefork_run(&pool, &next, "enext");
    assert_int_equal(next.results, 1);
    assert_int_equal(item.results + item.deaths, 0);
    lib_prefork_stop(&pool);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_item_that_may_not_begin_is_forgotten),
    cmocka_unit_test(an_item_that_may_not_begin_can_be_freed),
    cmocka_unit_test(an_item_killed_meanwhile_ends_before_the_next_event),
};
TEST_MAIN(tests)
