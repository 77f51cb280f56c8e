/* SPDX-License-Identifier: MIT */
/* test_prefork_deaths.c - how a child dies, whom it is charged to, and what is known of it. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_prefork.h"
#include "lib_test.h"
#include "pool/prefork/crash.h"

/* Under ASan or UBSan they would be reported as bugs of ours. */
#define DEADLY __attribute__((noinline, no_sanitize("address", "undefined", "thread")))

static volatile int zero;
static volatile char sink;

DEADLY static void segfault(void)
{
    volatile char *nothing = (volatile char *)(uintptr_t)(16 + zero);
    *nothing = 1;
}

DEADLY static void divide(void)
{
    volatile int many = 1000;
    sink = (char)(many / zero);
}

DEADLY static int overflow(int depth)
{
    volatile char frame[1024];
    frame[depth % 1024] = (char)depth;
    return depth > 100000000 ? 0 : overflow(depth + 1) + frame[(depth + 1) % 1024];
}

static void hog_memory(void)
{
    for (;;) {
        size_t size = (size_t)1 << 24;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            abort();
        }
        memset(memory, 1, size);
    }
}

static void burn(void)
{
    while (zero == 0) {
        sink++;
        (void)poll(NULL, 0, 0); /* TSan keeps a signal back until there is such a call */
    }
}

static void write_much(void)
{
    static char line[1024];
    memset(line, '.', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < 256; i++) {
        (void)!write(STDERR_FILENO, line, sizeof line);
    }
}

/* d: die; the second letter says how. */
static void die(struct qn_prefork_call *call, struct qn_bytes body, struct qn_buf *out)
{
    (void)call;
    (void)out;
    const char *text = body.data;
    (void)!write(STDERR_FILENO, "last words\n", 11);
    switch (text[1]) {
    case 's':
        segfault();
        break;
    case 'a':
        abort();
    case '0':
        _exit(0);
    case '3':
        exit(3);
    case 'o':
        sink = (char)overflow(zero);
        break;
    case 'f':
        divide();
        break;
    case 'b':
        burn();
        break;
    case 'm':
        hog_memory();
        break;
    case 'k':
        (void)raise(SIGKILL);
        break;
    case 'w': /* no death, only many words */
        write_much();
        break;
    default:
        break;
    }
}

struct expected {
    const char *text;
    int signal; /* 0: it exits */
    int code;
    const char *backtrace;
    uint64_t cpu_ms;
    uint64_t address_space_bytes;
};

/* Sanitizers reserve terabytes of addresses. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPACE 0
#define HOG "da"
#else
#define SPACE ((uint64_t)1 << 30)
#define HOG "dm"
#endif

static const struct expected expected[] = {
    {"ds", SIGSEGV, 0, "SIGSEGV at address 0x10\n", 0, 0},
    {"da", SIGABRT, 0, "SIGABRT\n", 0, 0},
    {"d0", 0, 0, "", 0, 0},
    {"d3", 0, 3, "", 0, 0},
    {"do", SIGSEGV, 0, "SIGSEGV at address 0x", 0, 0},
    {"df", SIGFPE, 0, "SIGFPE", 0, 0},
    {"db", SIGXCPU, 0, "SIGXCPU", 1000, 0},
    {HOG, SIGABRT, 0, "SIGABRT\n", 0, SPACE},
    {"dk", SIGKILL, 0, "", 0, 0},
};

static void check_death(const struct lib_prefork_item *item, const struct expected *end)
{
    assert_int_equal(item->deaths, 1);
    assert_true(item->started);
    assert_false(item->by_us);
    assert_string_equal(item->hostile, "");
    assert_int_equal(WIFSIGNALED(item->status), end->signal != 0);
    assert_int_equal(end->signal != 0 ? WTERMSIG(item->status) : WEXITSTATUS(item->status),
                     end->signal != 0 ? end->signal : end->code);
    assert_int_equal(strncmp(item->backtrace, end->backtrace, strlen(end->backtrace)), 0);
    if (end->backtrace[0] != '\0') {
        assert_non_null(strstr(item->backtrace, "unit_pool_prefork_deaths"));
    }
    assert_non_null(strstr(item->stderr_text, "last words\n"));
    assert_int_equal(item->over_cpu, end->signal == SIGXCPU);
}

static void each_death_is_charged_to_the_item_that_ran(void **state)
{
    (void)state;
    struct lib_prefork pool;
    lib_prefork_init(&pool);
    pool.options.window = 4;
    lib_prefork_start(&pool, die);
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        struct lib_prefork_item items[4] = {{.item = {.is_short = true}},
                                            {.item = {.is_short = true}},
                                            {.item = {.is_short = true}},
                                            {.item = {.is_short = true}}};
        items[1].item.limits.cpu_ms = expected[i].cpu_ms;
        items[1].item.limits.address_space_bytes = expected[i].address_space_bytes;
        for (size_t j = 0; j < TEST_COUNT(items); j++) {
            lib_prefork_submit(&pool, &items[j], j == 1 ? expected[i].text : "ewell");
        }
        assert_false(lib_prefork_wait(&pool, &items[1]));
        check_death(&items[1], &expected[i]);
        for (size_t j = 0; j < TEST_COUNT(items); j++) {
            if (j != 1 && !lib_prefork_wait(&pool, &items[j])) {
                assert_true(j > 1); /* it was behind, and goes again */
                assert_false(items[j].started);
                lib_prefork_run(&pool, &items[j], "ewell");
                assert_int_equal(items[j].results, 1);
            }
        }
    }
    lib_prefork_stop(&pool);
}

/* A pipe as our stderr that is full; returns the end to read from, and what stderr was. */
static int fill_stderr(int *ret_saved)
{
    static const char zeros[4096];
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(fds[1], zeros, sizeof zeros) > 0) {
    }
    *ret_saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    assert_true(*ret_saved >= 0);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    (void)close(fds[1]);
    return fds[0];
}

static size_t drain(int fd, const struct lib_prefork_item *item, struct lib_prefork *pool)
{
    static char data[65536];
    size_t size = 0;
    bool done = false;
    while (!done) {
        (void)pthread_mutex_lock(&pool->mutex);
        done = item->results > 0;
        (void)pthread_mutex_unlock(&pool->mutex);
        ssize_t count = read(fd, data, sizeof data);
        size += count > 0 ? (size_t)count : 0;
        test_pause_ms(1);
    }
    return size;
}

static void a_stderr_that_takes_nothing_holds_only_the_child_that_writes(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item writer = {0};
    struct lib_prefork_item other;
    int saved = -1;
    lib_prefork_init(&pool);
    pool.options.size = 2;
    lib_prefork_start(&pool, die);
    int reader = fill_stderr(&saved);
    lib_prefork_submit(&pool, &writer, "dw");
    for (int i = 0; i < 20; i++) {
        lib_prefork_run(&pool, &other, "eother");
    }
    int results = writer.results;
    size_t size = drain(reader, &writer, &pool);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    (void)close(saved);
    lib_prefork_stop(&pool);
    (void)close(reader);
    assert_int_equal(other.results, 1);
    assert_int_equal(results, 0);
    assert_true(size > 65536);
}

static void a_child_that_dies_idle_costs_nothing(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item pid;
    struct lib_prefork_item item;
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, die);
    for (int i = 0; i < 20; i++) {
        lib_prefork_run(&pool, &pid, "p");
        assert_int_equal(pid.results, 1);
        assert_int_equal(kill((pid_t)strtol(pid.result, NULL, 10), SIGKILL), 0);
        do { /* until it runs in the next one */
            lib_prefork_run(&pool, &item, "ewell");
            assert_true(item.results == 1 || !item.started);
        } while (item.results == 0);
    }
    lib_prefork_stop(&pool);
}

static void limits_are_lifted_after_the_item(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item = {.item = {.limits = {.cpu_ms = 1}}};
    struct lib_prefork_item pid;
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, die);
    lib_prefork_submit(&pool, &item, "p");
    assert_true(lib_prefork_wait(&pool, &item));
    lib_prefork_run(&pool, &pid, "p");
    assert_string_equal(item.result, pid.result);
    struct rlimit limit;
    assert_int_equal(prlimit((pid_t)strtol(pid.result, NULL, 10), RLIMIT_CPU, NULL, &limit), 0);
    assert_true(limit.rlim_cur == RLIM_INFINITY);
    lib_prefork_stop(&pool);
}

static void end_at_start(void *user)
{
    (void)user;
    _exit(1);
}

static int run_broken(const struct qn_zygote_ends *ends, void *user)
{
    (void)ends;
    end_at_start(user);
    return 0;
}

/* Counts children that ended before they were ready, and changes of how many are. */
struct counter {
    pthread_mutex_t mutex;
    int ended;
    int ready;
};

static void count_ends(pid_t pid, const char *why, void *user)
{
    struct counter *counter = user;
    (void)pthread_mutex_lock(&counter->mutex);
    counter->ended += pid > 0 && why[0] != '\0' ? 1 : 0;
    (void)pthread_mutex_unlock(&counter->mutex);
}

static void count_ready(uint32_t count, void *user)
{
    struct counter *counter = user;
    (void)count;
    counter->ready++;
}

static bool has_three(void *user)
{
    struct counter *counter = user;
    (void)pthread_mutex_lock(&counter->mutex);
    bool three = counter->ended >= 3;
    (void)pthread_mutex_unlock(&counter->mutex);
    return three;
}

static void children_that_die_at_their_start_are_started_slower_and_slower(void **state)
{
    (void)state;
    static const struct qn_zygote_program program = {.run_child = run_broken};
    struct counter counter = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const struct qn_prefork_ops ops = {.failed = count_ends, .ready = count_ready};
    const struct qn_prefork_options options = {
        .size = 1, .window = 1, .frame_size_max = 1024, .stderr_size_max = 10, .user = &counter};
    struct qn_zygote *zygote = NULL;
    struct qn_prefork *prefork = NULL;
    quern_error error = {0};
    assert_ok(qn_zygote_fork(&program, &zygote, &error), error);
    lib_prefork_prepare(die);
    int64_t began_ms = test_now_ms();
    assert_ok(qn_prefork_new(zygote, &options, &ops, &prefork, &error), error);
    assert_true(test_until(has_three, &counter));
    assert_true(test_now_ms() - began_ms >= 150); /* 50 + 100 ms between them */
    qn_prefork_free(prefork);
    assert_int_equal(counter.ready, 0);
}

static const struct CMUnitTest tests[] = {
    /* First, because it forks a zygote of its own. */
    cmocka_unit_test(children_that_die_at_their_start_are_started_slower_and_slower),
    cmocka_unit_test(each_death_is_charged_to_the_item_that_ran),
    cmocka_unit_test(limits_are_lifted_after_the_item),
    cmocka_unit_test(a_stderr_that_takes_nothing_holds_only_the_child_that_writes),
    cmocka_unit_test(a_child_that_dies_idle_costs_nothing),
};
TEST_MAIN(tests)
