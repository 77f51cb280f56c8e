/* SPDX-License-Identifier: MIT */
/* test_prefork.c - a pool of children: order, windows, what is taken back, cancelled and killed. */
#include "pool/prefork/prefork.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "lib_prefork.h"
#include "lib_test.h"

enum { MANY = 500 };
#define MIB ((size_t)1 << 20)

static char dir[TEST_DIR_SIZE];

/* The item "wPATH" runs until the fifo is opened. */
static void make_fifo(char text[128], const char *name)
{
    (void)snprintf(text, 128, "w%s/%s", dir, name);
    assert_int_equal(mkfifo(text + 1, 0600), 0);
}

static void open_fifo(const char *text)
{
    int fd = open(text + 1, O_WRONLY | O_CLOEXEC);
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

static void an_item_is_run_and_its_result_returns(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item;
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, NULL);
    lib_prefork_run(&pool, &item, "ehello");
    assert_int_equal(item.results, 1);
    assert_int_equal(item.begun, 1);
    assert_string_equal(item.result, "hello");
    lib_prefork_run(&pool, &item, "e");
    assert_int_equal(item.result_size, 0);
    lib_prefork_stop(&pool);
}

static void run_many(uint32_t size, uint32_t window)
{
    static struct lib_prefork_item items[MANY];
    struct lib_prefork pool;
    char text[32];
    lib_prefork_init(&pool);
    pool.options.size = size;
    pool.options.window = window;
    lib_prefork_start(&pool, NULL);
    for (int i = 0; i < MANY; i++) {
        items[i] = (struct lib_prefork_item){.item = {.is_short = i % 7 != 0}};
        (void)snprintf(text, sizeof text, "e%d", i);
        lib_prefork_submit(&pool, &items[i], text);
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(lib_prefork_wait(&pool, &items[i]));
        assert_int_equal(strtol(items[i].result, NULL, 10), i);
        assert_true(size > 1 || items[i].order == (uint64_t)i + 1);
        assert_true(items[i].begun > 0);
    }
    lib_prefork_stop(&pool);
}

static void items_run_in_their_order(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 4; window++) {
        run_many(1, window);
    }
}

static void many_children_share_the_items(void **state)
{
    (void)state;
    run_many(3, 1);
    run_many(3, 4);
}

static void only_short_items_wait_behind_short_ones(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item first = {.item = {.is_short = true}};
    struct lib_prefork_item second = {.item = {.is_short = true}};
    struct lib_prefork_item third = {0};
    char text[128];
    make_fifo(text, "order");
    lib_prefork_init(&pool);
    pool.options.window = 4;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &first, text);
    lib_prefork_wait_begun(&pool, &first);
    lib_prefork_submit(&pool, &second, "esecond");
    lib_prefork_submit(&pool, &third, "ethird");
    lib_prefork_wait_encoded(&pool, &second);
    open_fifo(text);
    assert_true(lib_prefork_wait(&pool, &third));
    assert_int_equal(first.begun, 1);
    assert_int_equal(second.begun, 2);
    assert_int_equal(third.begun, 1);
    assert_int_equal(third.order, 3);
    lib_prefork_stop(&pool);
}

static void an_item_in_a_window_can_be_taken_back_until_it_starts(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item first = {.item = {.is_short = true}};
    struct lib_prefork_item others[5];
    char text[128];
    make_fifo(text, "take");
    lib_prefork_init(&pool);
    pool.options.window = 4;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &first, text);
    lib_prefork_wait_begun(&pool, &first);
    for (size_t i = 0; i < 5; i++) {
        others[i] = (struct lib_prefork_item){.item = {.is_short = true}};
        lib_prefork_submit(&pool, &others[i], "eother");
    }
    assert_false(qn_prefork_take_back(pool.prefork, &first.item));
    lib_prefork_wait_encoded(&pool, &others[2]); /* the one before it has been sent */
    assert_true(qn_prefork_take_back(pool.prefork, &others[1].item));
    assert_true(qn_prefork_take_back(pool.prefork, &others[4].item)); /* it waits in the pool */
    assert_false(qn_prefork_take_back(pool.prefork, &others[4].item));
    open_fifo(text);
    assert_true(lib_prefork_wait(&pool, &others[0]));
    assert_true(lib_prefork_wait(&pool, &others[2])); /* in the same child */
    assert_true(lib_prefork_wait(&pool, &others[3]));
    assert_int_equal(others[1].results + others[1].deaths + others[1].begun, 0);
    lib_prefork_submit(&pool, &others[1], "eagain");
    assert_true(lib_prefork_wait(&pool, &others[1]));
    assert_string_equal(others[1].result, "again");
    assert_int_equal(others[4].results + others[4].deaths, 0);
    lib_prefork_stop(&pool);
}

static void an_item_can_ask_and_be_answered(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item = {.item = {.is_short = true}};
    struct lib_prefork_item behind = {.item = {.is_short = true}};
    lib_prefork_init(&pool);
    pool.options.window = 2;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &item, "aquestion");
    lib_prefork_wait_frame(&pool, &item);
    assert_string_equal(item.frame, "question");
    lib_prefork_submit(&pool, &behind, "ebehind");
    qn_prefork_send(pool.prefork, &item.item, 66, (struct qn_bytes){"other", 5});
    qn_prefork_send(pool.prefork, &item.item, 65, (struct qn_bytes){"answer", 6});
    assert_true(lib_prefork_wait(&pool, &item));
    assert_string_equal(item.result, "answer");
    assert_true(lib_prefork_wait(&pool, &behind));
    assert_string_equal(behind.result, "behind");
    lib_prefork_stop(&pool);
}

static void a_cancelled_item_sees_the_reason(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item;
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, NULL);
    for (uint32_t reason = 7; reason < 10; reason++) {
        item = (struct lib_prefork_item){0};
        lib_prefork_submit(&pool, &item, "c");
        lib_prefork_wait_frame(&pool, &item);
        qn_prefork_cancel(pool.prefork, &item.item, reason);
        assert_true(lib_prefork_wait(&pool, &item));
        assert_int_equal(strtol(item.result, NULL, 10), reason);
    }
    lib_prefork_stop(&pool);
}

static bool is_dead(void *user)
{
    return kill(*(const pid_t *)user, 0) != 0 && errno == ESRCH;
}

static void killing_ends_a_stubborn_item_with_its_group(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item = {.item = {.is_short = true}};
    struct lib_prefork_item behind = {.item = {.is_short = true}};
    lib_prefork_init(&pool);
    pool.options.window = 2;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &item, "k");
    lib_prefork_wait_frame(&pool, &item);
    lib_prefork_submit(&pool, &behind, "ebehind");
    qn_prefork_kill(pool.prefork, &item.item, 50);
    assert_false(lib_prefork_wait(&pool, &item));
    assert_true(item.started);
    assert_true(item.by_us);
    assert_true(WIFSIGNALED(item.status));
    assert_int_equal(WTERMSIG(item.status), SIGKILL);
    pid_t grandchild = (pid_t)strtol(item.frame, NULL, 10);
    assert_true(grandchild > 0);
    assert_true(test_until(is_dead, &grandchild));
    assert_true(lib_prefork_wait(&pool, &behind)); /* in the next child, uncharged */
    lib_prefork_stop(&pool);
}

static void term_is_enough_for_an_item_that_obeys(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item = {0};
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &item, "c");
    lib_prefork_wait_frame(&pool, &item);
    qn_prefork_kill(pool.prefork, &item.item, 60000);
    assert_false(lib_prefork_wait(&pool, &item));
    assert_int_equal(WTERMSIG(item.status), SIGTERM);
    assert_true(item.by_us);
    lib_prefork_stop(&pool);
}

static void killing_an_item_that_waits_costs_no_child(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item first = {0};
    struct lib_prefork_item second = {0};
    char text[128];
    make_fifo(text, "waits");
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &first, text);
    lib_prefork_wait_begun(&pool, &first);
    lib_prefork_submit(&pool, &second, "e");
    qn_prefork_kill(pool.prefork, &second.item, 0);
    assert_false(lib_prefork_wait(&pool, &second));
    assert_false(second.started);
    open_fifo(text);
    assert_true(lib_prefork_wait(&pool, &first));
    lib_prefork_stop(&pool);
}

static void large_bodies_go_both_ways(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item = {.item = {.is_short = true}, .more_size = 64 * MIB};
    struct lib_prefork_item small = {.item = {.is_short = true}};
    struct lib_prefork_item back;
    char *bytes = qn_alloc_zero(1, item.more_size);
    assert_non_null(bytes);
    item.more = bytes;
    lib_prefork_init(&pool);
    pool.options.window = 4;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &small, "efirst");
    lib_prefork_submit(&pool, &item, "z");
    assert_true(lib_prefork_wait(&pool, &item));
    assert_int_equal(strtoul(item.result, NULL, 10), item.more_size);
    lib_prefork_run(&pool, &back, "Z67108864");
    assert_int_equal(back.results, 1);
    assert_int_equal(back.result_size, 64 * MIB);
    lib_prefork_stop(&pool);
    qn_free(bytes);
}

/* Short ones that do the same. */
static void submit_all(struct lib_prefork *pool, struct lib_prefork_item *items, size_t count,
                       const char *text)
{
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct lib_prefork_item){.item = {.is_short = true}};
        lib_prefork_submit(pool, &items[i], text);
    }
}

static void a_child_is_replaced_after_its_runs(void **state)
{
    (void)state;
    static struct lib_prefork_item items[60];
    struct lib_prefork pool;
    int changes = 0;
    lib_prefork_init(&pool);
    pool.options.window = 4;
    pool.options.child_runs_max = 10;
    lib_prefork_start(&pool, NULL);
    submit_all(&pool, items, TEST_COUNT(items), "p");
    for (size_t i = 0; i < TEST_COUNT(items); i++) {
        assert_true(lib_prefork_wait(&pool, &items[i]));
        bool changed = i > 0 && strcmp(items[i].result, items[i - 1].result) != 0;
        assert_true(changed == (i > 0 && i % 10 == 0));
        changes += changed ? 1 : 0;
    }
    assert_int_equal(changes, 5);
    assert_int_equal(pool.deaths, 0);
    lib_prefork_stop(&pool);
}

static void a_child_that_has_grown_is_replaced(void **state)
{
    (void)state;
    static struct lib_prefork_item items[20];
    struct lib_prefork pool;
    lib_prefork_init(&pool);
    pool.options.window = 4;
    pool.options.child_rss_max = 1;
    lib_prefork_start(&pool, NULL);
    submit_all(&pool, items, TEST_COUNT(items), "p");
    for (size_t i = 0; i < TEST_COUNT(items); i++) {
        assert_true(lib_prefork_wait(&pool, &items[i]));
        assert_true(i == 0 || strcmp(items[i].result, items[i - 1].result) != 0);
    }
    assert_int_equal(pool.deaths, 0);
    lib_prefork_stop(&pool);
}

static void a_reload_lets_running_items_end(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item running = {0};
    struct lib_prefork_item before;
    struct lib_prefork_item after;
    char text[128];
    make_fifo(text, "reload");
    struct qn_zygote *next = lib_prefork_zygote(NULL);
    lib_prefork_init(&pool);
    pool.options.size = 2;
    lib_prefork_start(&pool, NULL);
    lib_prefork_run(&pool, &before, "p");
    lib_prefork_submit(&pool, &running, text);
    lib_prefork_wait_begun(&pool, &running);
    qn_prefork_reload(pool.prefork, next);
    lib_prefork_run(&pool, &after, "p");
    assert_int_equal(after.results, 1);
    assert_int_equal(running.results, 0);
    open_fifo(text);
    assert_true(lib_prefork_wait(&pool, &running));
    assert_int_equal(pool.deaths, 0);
    assert_int_equal(pool.gone, 0);
    lib_prefork_stop(&pool);
}

static void children_that_are_told_to_end_are_no_warning(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item;
    struct qn_zygote *next = lib_prefork_zygote(NULL);
    lib_prefork_init(&pool);
    pool.options.size = 3;
    lib_prefork_start(&pool, NULL);
    lib_prefork_run(&pool, &item, "p"); /* in one of them, the others have run nothing */
    qn_prefork_reload(pool.prefork, next);
    lib_prefork_wait_ended(&pool, 3);
    assert_int_equal(lib_prefork_warned(&pool), 0);
    lib_prefork_run(&pool, &item, "p");
    pid_t pid = (pid_t)strtol(item.result, NULL, 10);
    assert_int_equal(kill(pid, SIGKILL), 0); /* idle, and not told to end */
    lib_prefork_wait_ended(&pool, 4);
    assert_int_equal(lib_prefork_warned(&pool), 1);
    lib_prefork_stop(&pool);
    assert_int_equal(pool.warned, 1);
}

static void an_older_zygote_that_dies_costs_its_items_only(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item old = {0};
    struct lib_prefork_item running = {0};
    struct lib_prefork_item after;
    struct qn_zygote *next = lib_prefork_zygote(NULL);
    lib_prefork_init(&pool);
    pool.options.size = 2;
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &old, "c");
    lib_prefork_wait_frame(&pool, &old);
    qn_prefork_reload(pool.prefork, next);
    lib_prefork_wait_ended(&pool, 1); /* the idle child: the next one is of the new zygote */
    lib_prefork_submit(&pool, &running, "c");
    lib_prefork_wait_frame(&pool, &running);
    assert_int_equal(kill(qn_zygote_pid(pool.zygote), SIGKILL), 0);
    assert_false(lib_prefork_wait(&pool, &old));
    assert_true(old.started && old.with_zygote && old.by_us);
    assert_false(old.with_pool);
    lib_prefork_run(&pool, &after, "p");
    assert_int_equal(after.results, 1);
    qn_prefork_cancel(pool.prefork, &running.item, 7);
    assert_true(lib_prefork_wait(&pool, &running));
    assert_int_equal(pool.deaths, 1);
    assert_int_equal(kill(qn_zygote_pid(next), SIGKILL), 0);
    lib_prefork_wait_gone(&pool);
    lib_prefork_stop(&pool);
    assert_int_equal(pool.gone, 1);
}

static void a_dead_zygote_ends_the_pool_once(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item running = {0};
    struct lib_prefork_item waiting = {0};
    struct lib_prefork_item late = {0};
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, NULL);
    lib_prefork_submit(&pool, &running, "c");
    lib_prefork_wait_frame(&pool, &running);
    lib_prefork_submit(&pool, &waiting, "e");
    assert_int_equal(kill(qn_zygote_pid(pool.zygote), SIGKILL), 0);
    lib_prefork_wait_gone(&pool);
    assert_false(lib_prefork_wait(&pool, &running));
    assert_true(running.started);
    assert_true(running.by_us);
    assert_true(running.with_pool);
    assert_false(lib_prefork_wait(&pool, &waiting));
    assert_false(waiting.started);
    lib_prefork_submit(&pool, &late, "e");
    assert_false(lib_prefork_wait(&pool, &late));
    assert_false(late.started);
    lib_prefork_stop(&pool);
    assert_int_equal(pool.gone, 1);
}

static void freeing_gives_back_all_items(void **state)
{
    (void)state;
    static struct lib_prefork_item items[20];
    struct lib_prefork pool;
    lib_prefork_init(&pool);
    pool.options.size = 2;
    pool.options.window = 4;
    lib_prefork_start(&pool, NULL);
    submit_all(&pool, items, TEST_COUNT(items), "c");
    lib_prefork_wait_frame(&pool, &items[0]);
    lib_prefork_stop(&pool);
    int started = 0;
    for (size_t i = 0; i < TEST_COUNT(items); i++) {
        assert_int_equal(items[i].deaths, 1);
        assert_true(items[i].by_us);
        started += items[i].started ? 1 : 0;
    }
    assert_in_range(started, 1, 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_item_is_run_and_its_result_returns),
    cmocka_unit_test(items_run_in_their_order),
    cmocka_unit_test(many_children_share_the_items),
    cmocka_unit_test_setup_teardown(only_short_items_wait_behind_short_ones, set_up, tear_down),
    cmocka_unit_test_setup_teardown(an_item_in_a_window_can_be_taken_back_until_it_starts, set_up,
                                    tear_down),
    cmocka_unit_test(an_item_can_ask_and_be_answered),
    cmocka_unit_test(a_cancelled_item_sees_the_reason),
    cmocka_unit_test(killing_ends_a_stubborn_item_with_its_group),
    cmocka_unit_test(term_is_enough_for_an_item_that_obeys),
    cmocka_unit_test_setup_teardown(killing_an_item_that_waits_costs_no_child, set_up, tear_down),
    cmocka_unit_test(large_bodies_go_both_ways),
    cmocka_unit_test(a_child_is_replaced_after_its_runs),
    cmocka_unit_test(a_child_that_has_grown_is_replaced),
    cmocka_unit_test_setup_teardown(a_reload_lets_running_items_end, set_up, tear_down),
    cmocka_unit_test(children_that_are_told_to_end_are_no_warning),
    cmocka_unit_test(an_older_zygote_that_dies_costs_its_items_only),
    cmocka_unit_test(a_dead_zygote_ends_the_pool_once),
    cmocka_unit_test(freeing_gives_back_all_items),
};
TEST_MAIN(tests)
