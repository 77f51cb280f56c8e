/* SPDX-License-Identifier: MIT */
/* test_prefork_cpu.c - the limit of CPU time of an item: also for code that does not obey, and for
 * that item alone. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "lib_prefork.h"
#include "lib_test.h"

enum { ITEMS = 5, RUNS = 10, RUN_MS = 130 };

static int64_t used_ms(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void burn(int64_t ms)
{
    int64_t end_ms = used_ms() + ms;
    while (used_ms() < end_ms) {
    }
}

static void ignore(void)
{
    (void)signal(SIGXCPU, SIG_IGN);
}

static void block(void)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGXCPU);
    (void)sigprocmask(SIG_BLOCK, &one, NULL);
}

/* As far as it may. */
static void lift(void)
{
    struct rlimit limit;
    (void)getrlimit(RLIMIT_CPU, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_CPU, &limit);
}

/* n, x, y, v: goes on for ever, whatever the kernel says.  u: uses so many ms and echoes its pid.
 * l: how many ms are left until the kernel says something. */
static void act(struct qn_prefork_call *call, struct qn_bytes body, struct qn_buf *out)
{
    const char *text = body.data;
    struct rlimit limit;
    char answer[32];
    int64_t value = getpid();
    (void)call;
    if (text[0] == 'n') {
        ignore();
        block();
        lift();
        burn(INT64_MAX / 2);
    } else if (strchr("xyv", text[0]) != NULL) {
        (text[0] == 'x' ? ignore : text[0] == 'y' ? block : lift)();
        burn(INT64_MAX / 2);
    } else if (text[0] == 'u') {
        burn(strtol(text + 1, NULL, 10));
    } else {
        (void)getrlimit(RLIMIT_CPU, &limit);
        value = (int64_t)limit.rlim_cur * 1000 - used_ms();
    }
    int size = snprintf(answer, sizeof answer, "%lld", (long long)value);
    (void)!qn_buf_append(out, answer, (size_t)size);
}

static void run_limited(struct lib_prefork *pool, struct lib_prefork_item *item, const char *text)
{
    *item = (struct lib_prefork_item){.item = {.limits = {.cpu_ms = 1000}}};
    lib_prefork_submit(pool, item, text);
    assert_true(lib_prefork_wait(pool, item));
}

static void code_that_does_not_obey_is_killed_a_second_later(void **state)
{
    (void)state;
    static const char *const texts[ITEMS] = {"n", "x", "y", "v", "u2300"};
    size_t count = test_full() ? ITEMS : 1; /* each takes two seconds of a processor */
    struct lib_prefork pool;
    struct lib_prefork_item items[ITEMS] = {{.item = {.is_short = true}}};
    struct lib_prefork_item behind = {.item = {.is_short = true}};
    lib_prefork_init(&pool);
    pool.options.size = (uint32_t)count;
    pool.options.window = 2;
    lib_prefork_start(&pool, act);
    for (size_t i = 0; i < count; i++) {
        items[i].item.limits.cpu_ms = texts[i][0] == 'u' ? 0 : 1;
        lib_prefork_submit(&pool, &items[i], texts[i]);
    }
    for (size_t i = 0; i < count; i++) {
        lib_prefork_wait_begun(&pool, &items[i]);
    }
    lib_prefork_submit(&pool, &behind, "u1");
    for (size_t i = 0; i < count; i++) {
        bool is_done = lib_prefork_wait(&pool, &items[i]);
        assert_int_equal(is_done, texts[i][0] == 'u');
        if (!is_done) {
            assert_true(items[i].started);
            assert_true(items[i].over_cpu);
            assert_true(WIFSIGNALED(items[i].status) && WTERMSIG(items[i].status) == SIGKILL);
        }
    }
    assert_true(lib_prefork_wait(&pool, &behind));
    lib_prefork_stop(&pool);
}

static void each_run_of_a_child_has_the_whole_limit(void **state)
{
    (void)state;
    struct lib_prefork pool;
    char pid[sizeof((struct lib_prefork_item *)NULL)->result] = "";
    lib_prefork_init(&pool);
    pool.options.size = 1;
    lib_prefork_start(&pool, act);
    for (int i = 0; i < RUNS; i++) { /* more in all than one may have */
        struct lib_prefork_item item;
        struct lib_prefork_item left;
        char text[16];
        (void)snprintf(text, sizeof text, "u%d", RUN_MS);
        run_limited(&pool, &item, text);
        run_limited(&pool, &left, "l");
        assert_in_range(strtol(left.result, NULL, 10), 1000 - 50, 2000); /* it has used some */
        assert_true(i == 0 || strcmp(pid, item.result) == 0);
        memcpy(pid, item.result, sizeof pid);
    }
    lib_prefork_stop(&pool);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(code_that_does_not_obey_is_killed_a_second_later),
    cmocka_unit_test(each_run_of_a_child_has_the_whole_limit),
};
TEST_MAIN(tests)
