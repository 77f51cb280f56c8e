/* SPDX-License-Identifier: MIT */
/* test_zygote_api.c - the public zygote: programs with threads get an error and no deadlock, the
 * executed form, and options of a worker that do not fit. */
#include "quern/zygote.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_test.h"
#include "quern/worker.h"

static char dir[TEST_DIR_SIZE];
static char url[TEST_DIR_SIZE + 32];

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

static quern_mux *new_mux(void)
{
    quern_mux *mux = NULL;
    TEST_REQUIRE(quern_mux_new(&mux, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "mail:", handle, NULL, NULL, NULL) == QUERN_OK);
    return mux;
}

struct thread {
    pthread_t id;
    int fds[2];
};

static void *wait_for_the_end(void *user)
{
    char byte = 0;
    (void)!read(*(int *)user, &byte, 1);
    return NULL;
}

static void begin_thread(struct thread *thread)
{
    TEST_REQUIRE(pipe2(thread->fds, O_CLOEXEC) == 0);
    TEST_REQUIRE(pthread_create(&thread->id, NULL, wait_for_the_end, &thread->fds[0]) == 0);
}

static void end_thread(struct thread *thread)
{
    (void)close(thread->fds[1]);
    TEST_REQUIRE(pthread_join(thread->id, NULL) == 0);
    (void)close(thread->fds[0]);
}

/* --- Executed programs --------------------------------------------------------------- */

static int serve(void)
{
    quern_error error = {0};
    quern_mux *mux = new_mux();
    quern_status status = quern_zygote_serve(mux, NULL, &error);
    quern_mux_free(mux);
    (void)fprintf(stderr, "%s\n", error.text);
    return status == QUERN_OK ? 0 : 10 + (int)status;
}

static int serve_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return serve();
}

static int threads_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct thread thread;
    begin_thread(&thread);
    int code = serve();
    end_thread(&thread); /* else TSan's report of it is the last that the program says */
    return code;
}

static quern_status exec_role(const char *role, quern_zygote **ret_zygote, quern_error *err)
{
    char self[] = "self";
    char option[] = "--child";
    char name[32];
    (void)snprintf(name, sizeof name, "%s", role);
    char *const argv[] = {self, option, name, NULL};
    return quern_zygote_exec("/proc/self/exe", argv, NULL, ret_zygote, err);
}

/* --- Tests --------------------------------------------------------------------------- */

static quern_status try_worker(const quern_mux *mux, const quern_worker_options *options,
                               quern_worker **ret_worker, quern_error *err)
{
    *ret_worker = NULL;
    return quern_worker_new(url, mux, options, ret_worker, err);
}

static void assert_refused(const quern_mux *mux, quern_zygote *zygote, quern_status wanted,
                           const char *word)
{
    quern_worker *worker;
    quern_error error = {0};
    const quern_worker_options options = {.pool = QUERN_POOL_PREFORK, .zygote = zygote};
    assert_int_equal(try_worker(mux, &options, &worker, &error), wanted);
    assert_non_null(strstr(error.text, word));
    assert_null(worker);
}

static void a_worker_refuses_what_does_not_fit(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = new_mux();
    quern_mux *other = new_mux();
    quern_zygote *zygote = NULL;
    quern_worker *worker;
    assert_ok(quern_zygote_start(mux, NULL, &zygote, &error), error);
    assert_refused(mux, NULL, QUERN_E_INVALID, "zygote");
    assert_refused(other, zygote, QUERN_E_INVALID, "another");
    assert_int_equal(quern_mux_handle(mux, "late", handle, NULL, NULL, &error), QUERN_E_STATE);
    const quern_worker_options options = {.pool = QUERN_POOL_PREFORK, .zygote = zygote};
    assert_ok(try_worker(mux, &options, &worker, &error), error);
    assert_refused(mux, zygote, QUERN_E_STATE, "worker");
    quern_worker_free(worker);
    quern_zygote_free(zygote);
    assert_int_equal(quern_mux_handle(mux, "late", handle, NULL, NULL, &error), QUERN_OK);
    quern_mux_free(other);
    quern_mux_free(mux);
}

static void its_own_mux_may_be_left_out(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = new_mux();
    quern_zygote *zygote = NULL;
    quern_worker *worker;
    assert_ok(quern_zygote_start(mux, NULL, &zygote, &error), error);
    const quern_worker_options options = {.pool = QUERN_POOL_PREFORK, .zygote = zygote};
    assert_ok(try_worker(NULL, &options, &worker, &error), error);
    quern_worker_free(worker);
    quern_zygote_free(zygote);
    quern_mux_free(mux);
    const quern_worker_options threads = {.concurrency = 1};
    assert_int_equal(try_worker(NULL, &threads, &worker, &error), QUERN_E_INVALID);
}

/* It must not end the zygote of its parent. */
static void a_forked_process_cannot_use_it(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = new_mux();
    quern_zygote *zygote = NULL;
    assert_ok(quern_zygote_start(mux, NULL, &zygote, &error), error);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        quern_worker *worker;
        const quern_worker_options options = {.pool = QUERN_POOL_PREFORK, .zygote = zygote};
        quern_status status = try_worker(mux, &options, &worker, &error);
        quern_zygote_free(zygote);
        _exit(status == QUERN_E_CLOSED ? 0 : 1);
    }
    int end = -1;
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
    quern_worker *worker;
    const quern_worker_options options = {.pool = QUERN_POOL_PREFORK, .zygote = zygote};
    assert_ok(try_worker(mux, &options, &worker, &error), error);
    quern_worker_free(worker);
    quern_zygote_free(zygote);
    quern_mux_free(mux);
}

static void a_program_with_threads_is_refused_and_executes_another(void **state)
{
    (void)state;
    struct thread thread;
    quern_error error = {0};
    quern_mux *mux = new_mux();
    quern_zygote *zygote = NULL;
    begin_thread(&thread);
    assert_int_equal(quern_zygote_start(mux, NULL, &zygote, &error), QUERN_E_THREADS);
    assert_non_null(strstr(error.text, "threads"));
    assert_null(zygote);
    assert_int_equal(quern_mux_handle(mux, "later", handle, NULL, NULL, &error), QUERN_OK);
    assert_ok(exec_role("serve", &zygote, &error), error);
    assert_refused(mux, zygote, QUERN_E_INVALID, "NULL");
    quern_worker *worker;
    const quern_worker_options options = {.pool = QUERN_POOL_PREFORK, .zygote = zygote};
    assert_ok(try_worker(NULL, &options, &worker, &error), error);
    quern_worker_free(worker);
    quern_zygote_free(zygote);
    zygote = NULL;
    assert_int_equal(exec_role("threads", &zygote, &error), QUERN_E_CONNECT);
    assert_non_null(strstr(error.text, "threads"));
    end_thread(&thread);
    quern_mux_free(mux);
}

static void options_are_checked(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = new_mux();
    quern_zygote *zygote = NULL;
    char name[] = "true";
    char *const argv[] = {name, NULL};
    const quern_zygote_options negative = {.start_timeout_ms = -1};
    assert_int_equal(quern_zygote_start(mux, &negative, &zygote, &error), QUERN_E_INVALID);
    assert_int_equal(quern_zygote_exec("/bin/true", argv, &negative, &zygote, &error),
                     QUERN_E_INVALID);
    assert_int_equal(quern_zygote_exec("/bin/true", argv, NULL, &zygote, &error), QUERN_E_CONNECT);
    assert_int_equal(quern_zygote_serve(mux, NULL, &error), QUERN_E_STATE);
    assert_int_equal(quern_mux_handle(mux, "later", handle, NULL, NULL, &error), QUERN_OK);
    quern_mux_free(mux);
}

static int set_up(void **state)
{
    (void)state;
    test_dir_make(dir);
    (void)snprintf(url, sizeof url, "sqlite://%s/q.db", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_dir_remove(dir);
    return 0;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
static const struct CMUnitTest tests[] = {
    CASE(a_worker_refuses_what_does_not_fit),
    CASE(its_own_mux_may_be_left_out),
    CASE(a_forked_process_cannot_use_it),
    CASE(options_are_checked),
    CASE(a_program_with_threads_is_refused_and_executes_another),
};
static const struct test_role roles[] = {{"serve", serve_main}, {"threads", threads_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {.name = "zygote_api",
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
