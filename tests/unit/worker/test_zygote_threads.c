/* SPDX-License-Identifier: MIT */
/* test_zygote_threads.c - a program whose other threads hold the locks of malloc and stdio all the
 * time executes a zygote and has its tasks run in children, and never comes to a halt. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib_test.h"
#include "quern/quern.h"

#define LIMIT_S 120 /* then the test is killed: something waits for ever */
#define THREADS 4

/* --- The executed program ----------------------------------------------------------------- */

/* What a child does needs both locks. */
static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)user;
    char *copy = strdup(task->type);
    TEST_REQUIRE(copy != NULL);
    (void)fprintf(stderr, "%.0s", copy);
    free(copy);
    return QUERN_DONE;
}

static int serve(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    quern_mux *mux = NULL;
    TEST_REQUIRE(quern_mux_new(&mux, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "mail", handle, NULL, NULL, NULL) == QUERN_OK);
    quern_status status = quern_zygote_serve(mux, NULL, NULL);
    quern_mux_free(mux);
    return status == QUERN_OK ? 0 : 1;
}

/* --- Threads that hold locks -------------------------------------------------------------- */

struct noise {
    pthread_t threads[THREADS];
    FILE *null;
    atomic_bool ends;
    atomic_size_t turns;
};

static void *allocate(void *user)
{
    struct noise *noise = user;
    for (size_t i = 0; !atomic_load(&noise->ends); i++) {
        void *volatile memory = malloc(1 + i % 5000);
        free(memory);
        atomic_fetch_add(&noise->turns, 1);
    }
    return NULL;
}

static void *print(void *user)
{
    struct noise *noise = user;
    while (!atomic_load(&noise->ends)) {
        flockfile(noise->null);
        for (int i = 0; i < 100; i++) {
            (void)fprintf(noise->null, "%d %s\n", i, "words");
        }
        (void)fflush(NULL); /* the lock of the list of all files */
        funlockfile(noise->null);
        atomic_fetch_add(&noise->turns, 1);
    }
    return NULL;
}

static void begin_noise(struct noise *noise)
{
    noise->null = fopen("/dev/null", "we");
    assert_non_null(noise->null);
    for (size_t i = 0; i < THREADS; i++) {
        void *(*run)(void *) = i % 2 == 0 ? allocate : print;
        assert_int_equal(pthread_create(&noise->threads[i], NULL, run, noise), 0);
    }
}

static void end_noise(struct noise *noise)
{
    atomic_store(&noise->ends, true);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(noise->threads[i], NULL), 0);
    }
    assert_int_equal(fclose(noise->null), 0);
}

/* --- Tests -------------------------------------------------------------------------------- */

static void no_log(quern_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

/* One task is run by a child of a zygote of its own. */
static void run_one(const char *url, quern_client *client)
{
    quern_error error = {0};
    quern_zygote *zygote = NULL;
    quern_worker *worker = NULL;
    quern_worker_stats stats = {0};
    char self[] = "self";
    char option[] = "--child";
    char role[] = "serve";
    char *const argv[] = {self, option, role, NULL};
    const quern_task task = {.type = "mail"};
    assert_ok(quern_client_enqueue(client, &task, NULL, &error), error);
    assert_ok(quern_zygote_exec("/proc/self/exe", argv, NULL, &zygote, &error), error);
    const quern_worker_options options = {.concurrency = 2,
                                          .drain = true,
                                          .pool = QUERN_POOL_PREFORK,
                                          .zygote = zygote,
                                          .on_log = no_log};
    assert_ok(quern_worker_new(url, NULL, &options, &worker, &error), error);
    assert_ok(quern_worker_run(worker, &error), error);
    quern_worker_get_stats(worker, &stats);
    assert_int_equal(stats.done, 1);
    quern_worker_free(worker);
    quern_zygote_free(zygote);
}

static void threads_that_hold_locks_halt_nothing(void **state)
{
    (void)state;
    char dir[TEST_DIR_SIZE];
    char url[TEST_DIR_SIZE + 32];
    quern_error error = {0};
    quern_client *client = NULL;
    struct noise noise = {.null = NULL};
    size_t rounds = test_full() ? 50 : 10;
    (void)alarm(LIMIT_S);
    test_dir_make(dir);
    (void)snprintf(url, sizeof url, "sqlite://%s/q.db", dir);
    assert_ok(quern_client_open(url, NULL, &client, &error), error);
    begin_noise(&noise);
    for (size_t i = 0; i < rounds; i++) {
        size_t before = atomic_load(&noise.turns);
        run_one(url, client);
        assert_true(atomic_load(&noise.turns) > before);
    }
    end_noise(&noise);
    quern_client_free(client);
    test_dir_remove(dir);
    (void)alarm(0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(threads_that_hold_locks_halt_nothing),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{"serve", serve}};
    const struct test_group group = {.name = "zygote_threads",
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
