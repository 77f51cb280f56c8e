/* SPDX-License-Identifier: MIT */
/* test_executed.c - a program with threads executes its zygote, and has commands beside the
 * handlers of that: no process is a fork of its own. */
#include "lib_fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

static int serve(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    quern_error err = {0};
    quern_mux *mux = NULL;
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "child", handle, NULL, NULL, &err) == QUERN_OK);
    quern_status status = quern_zygote_serve(mux, NULL, &err);
    quern_mux_free(mux);
    return status == QUERN_OK ? 0 : 10 + (int)status;
}

struct fixture {
    struct fault_site site;
    quern_client *client;
    quern_zygote *zygote;
    quern_worker *worker;
    pthread_t thread;
    quern_status status;
    quern_error error;
    char seen[300];  /* the file of the command: its guard and its session */
    uint64_t wanted; /* runs that are done */
};

static void *run_worker(void *user)
{
    struct fixture *fixture = user;
    fixture->status = quern_worker_run(fixture->worker, &fixture->error);
    return NULL;
}

static void no_log(quern_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static void put(struct fixture *fixture, const char *type)
{
    quern_error err = {0};
    const quern_task task = {.type = type};
    assert_ok(quern_client_enqueue(fixture->client, &task, NULL, &err), err);
}

/* `command` comes before the line that writes the file. */
static void begin(struct fixture *fixture, const char *command)
{
    quern_error err = {0};
    char text[1024];
    char *const argv[] = {(char *)(uintptr_t) "self", (char *)(uintptr_t) "--child",
                          (char *)(uintptr_t) "serve", NULL};
    memset(fixture, 0, sizeof *fixture);
    fault_site_open(&fixture->site);
    (void)snprintf(fixture->seen, sizeof fixture->seen, "%s.seen", fixture->site.journal);
    (void)snprintf(text, sizeof text, "cut -d' ' -f4,6 /proc/$$/stat > %s.new; mv %s.new %s; %s",
                   fixture->seen, fixture->seen, fixture->seen, command);
    assert_ok(quern_client_open(fixture->site.url, NULL, &fixture->client, &err), err);
    assert_ok(quern_zygote_exec("/proc/self/exe", argv, NULL, &fixture->zygote, &err), err);
    assert_ok(quern_mux_exec(quern_zygote_mux(fixture->zygote), "command", text, NULL, &err), err);
    const quern_worker_options options = {
        .concurrency = 2, .pool = QUERN_POOL_PREFORK, .zygote = fixture->zygote, .on_log = no_log};
    assert_ok(quern_worker_new(fixture->site.url, NULL, &options, &fixture->worker, &err), err);
    assert_int_equal(pthread_create(&fixture->thread, NULL, run_worker, fixture), 0);
}

static void end(struct fixture *fixture)
{
    quern_worker_stop(fixture->worker);
    assert_int_equal(pthread_join(fixture->thread, NULL), 0);
    quern_worker_free(fixture->worker);
    quern_zygote_free(fixture->zygote);
    quern_client_free(fixture->client);
    (void)unlink(fixture->seen);
    fault_site_close(&fixture->site);
}

static bool all_done(void *user)
{
    const struct fixture *fixture = user;
    quern_worker_stats stats;
    quern_worker_get_stats(fixture->worker, &stats);
    return stats.done >= fixture->wanted;
}

static bool was_seen(void *user)
{
    const struct fixture *fixture = user;
    return access(fixture->seen, R_OK) == 0;
}

static bool is_gone(void *user)
{
    return kill(*(pid_t *)user, 0) != 0;
}

/* The leader of the session of a command is the zygote that forked it; never our own session. */
static void read_seen(const struct fixture *fixture, pid_t *ret_guard, pid_t *ret_session)
{
    FILE *file = fopen(fixture->seen, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d %d", ret_guard, ret_session), 2);
    (void)fclose(file);
    assert_int_not_equal(*ret_session, getsid(0));
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    int parent = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent), 1);
    (void)fclose(file);
    return parent;
}

static void commands_are_forked_by_a_zygote_of_their_own(void **state)
{
    (void)state;
    struct fixture fixture;
    pid_t guard;
    pid_t zygote;
    begin(&fixture, "exit 0");
    put(&fixture, "command");
    put(&fixture, "child");
    fixture.wanted = 2;
    assert_true(test_until(all_done, &fixture));
    read_seen(&fixture, &guard, &zygote);
    assert_int_not_equal(parent_of(zygote), getpid()); /* forked by the executed one */
    assert_int_equal(parent_of(parent_of(zygote)), getpid());
    end(&fixture);
    assert_ok(fixture.status, fixture.error);
    assert_true(test_until(is_gone, &zygote));
}

static void the_end_of_that_zygote_ends_the_worker_and_its_commands(void **state)
{
    (void)state;
    struct fixture fixture;
    pid_t guard;
    pid_t zygote;
    begin(&fixture, "exec sleep 1000");
    put(&fixture, "command");
    assert_true(test_until(was_seen, &fixture));
    read_seen(&fixture, &guard, &zygote);
    assert_int_equal(kill(zygote, SIGKILL), 0);
    assert_int_equal(pthread_join(fixture.thread, NULL), 0);
    assert_int_not_equal(fixture.status, QUERN_OK);
    assert_non_null(strstr(fixture.error.text, "the zygote of commands"));
    assert_true(test_until(is_gone, &guard));
    quern_worker_free(fixture.worker);
    quern_zygote_free(fixture.zygote);
    quern_client_free(fixture.client);
    (void)unlink(fixture.seen);
    fault_site_close(&fixture.site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(commands_are_forked_by_a_zygote_of_their_own),
    cmocka_unit_test(the_end_of_that_zygote_ends_the_worker_and_its_commands),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "serve", .main = serve}};
    const struct test_group group = {"prefork_executed", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
