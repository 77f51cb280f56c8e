/* SPDX-License-Identifier: MIT */
/* test_prefork_size.c - a pool of children that grows and shrinks while items run. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib_prefork.h"
#include "lib_test.h"

enum { HELD = 4 };

static char dir[TEST_DIR_SIZE];

/* An item that runs until its fifo is opened. */
static void submit_held(struct lib_prefork *pool, struct lib_prefork_item *item, int number)
{
    char text[sizeof item->text];
    (void)snprintf(text, sizeof text, "w%s/%d", dir, number);
    assert_int_equal(mkfifo(text + 1, 0600), 0);
    memset(item, 0, sizeof *item);
    lib_prefork_submit(pool, item, text);
}

static void let_go(const struct lib_prefork_item *item)
{
    int fd = open(item->text + 1, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    (void)close(fd);
}

static int set_up(void **state)
{
    (void)state;
    test_dir_make(dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_dir_remove(dir);
    return 0;
}

struct sized {
    struct lib_prefork *pool;
    size_t size;
};

static bool has_size(void *user)
{
    struct sized *sized = user;
    struct qn_pool_counts counts;
    qn_prefork_count(sized->pool->prefork, &counts);
    return counts.alive == sized->size;
}

static void wait_size(struct lib_prefork *pool, size_t size)
{
    struct sized sized = {pool, size};
    assert_true(test_until(has_size, &sized));
}

static void a_larger_pool_runs_more_items_at_a_time(void **state)
{
    (void)state;
    struct lib_prefork pool;
    static struct lib_prefork_item items[HELD];
    lib_prefork_init(&pool);
    pool.options.size = 1;
    lib_prefork_start(&pool, NULL);
    for (int i = 0; i < HELD; i++) {
        submit_held(&pool, &items[i], i);
    }
    lib_prefork_wait_begun(&pool, &items[0]);
    qn_prefork_resize(pool.prefork, HELD);
    for (int i = 1; i < HELD; i++) {
        lib_prefork_wait_begun(&pool, &items[i]);
    }
    assert_int_equal(items[0].results, 0);
    for (int i = 0; i < HELD; i++) {
        let_go(&items[i]);
        assert_true(lib_prefork_wait(&pool, &items[i]));
    }
    lib_prefork_stop(&pool);
}

static void a_smaller_pool_ends_no_item_and_idle_children_first(void **state)
{
    (void)state;
    struct lib_prefork pool;
    static struct lib_prefork_item items[3];
    struct lib_prefork_item next;
    lib_prefork_init(&pool);
    pool.options.size = HELD;
    lib_prefork_start(&pool, NULL);
    for (int i = 0; i < 2; i++) {
        submit_held(&pool, &items[i], i);
        lib_prefork_wait_begun(&pool, &items[i]);
    }
    wait_size(&pool, HELD);
    qn_prefork_resize(pool.prefork, 2);
    wait_size(&pool, 2); /* both idle ones have ended */
    qn_prefork_resize(pool.prefork, 1);
    submit_held(&pool, &items[2], 2);
    let_go(&items[0]);
    assert_true(lib_prefork_wait(&pool, &items[0]));
    let_go(&items[1]);
    assert_true(lib_prefork_wait(&pool, &items[1]));
    lib_prefork_wait_begun(&pool, &items[2]); /* in the one that stays, or a new one */
    wait_size(&pool, 1);
    let_go(&items[2]);
    assert_true(lib_prefork_wait(&pool, &items[2]));
    lib_prefork_run(&pool, &next, "eagain");
    assert_string_equal(next.result, "again");
    assert_int_equal(pool.deaths, 0);
    assert_int_equal(lib_prefork_warned(&pool), 0);
    lib_prefork_stop(&pool);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_larger_pool_runs_more_items_at_a_time, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_smaller_pool_ends_no_item_and_idle_children_first, set_up,
                                    tear_down),
};
TEST_MAIN(tests)
