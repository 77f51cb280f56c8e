/* SPDX-License-Identifier: MIT */
/* test_program.c - the entries of a program come from a callback, which a scheduler that runs asks
 * again: they are added, changed and removed, and a bad one costs no other. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "lib_schedule.h"
#include "quern/scheduler.h"

struct program {
    struct contract *c;
    quern_scheduler *scheduler;
    pthread_t thread;
    _Atomic int version; /* which set the callback gives */
    _Atomic int refused; /* how often a bad entry was refused */
};

/* None of them ever fires. */
static quern_status add(quern_entry_set *set, const char *name, const char *cron, const char *type)
{
    const quern_entry entry = {.name = name, .cron = cron};
    const quern_task task = {.type = type};
    return quern_entry_set_add(set, &entry, &task, NULL);
}

static quern_status on_entries(quern_entry_set *set, void *user)
{
    struct program *program = user;
    quern_status status = QUERN_OK;
    if (atomic_load(&program->version) == 1) {
        status = add(set, "changes", "0 0 30 2 *", "before");
        return status == QUERN_OK ? add(set, "goes", "0 0 30 2 *", "t") : status;
    }
    if (add(set, "bad", "61 * * * *", "t") == QUERN_E_INVALID) {
        atomic_fetch_add(&program->refused, 1);
    }
    status = add(set, "changes", "0 0 31 2 *", "after");
    return status == QUERN_OK ? add(set, "comes", "0 0 30 2 *", "t") : status;
}

static void *run(void *user)
{
    struct program *program = user;
    TEST_REQUIRE(quern_scheduler_run(program->scheduler, NULL) == QUERN_OK);
    return NULL;
}

static bool has_first_set(void *user)
{
    struct contract *c = ((struct program *)user)->c;
    return schedule_look(c, "changes").found && schedule_look(c, "goes").found;
}

static bool has_second_set(void *user)
{
    struct contract *c = ((struct program *)user)->c;
    return schedule_look(c, "comes").found && !schedule_look(c, "goes").found &&
           strcmp(schedule_look(c, "changes").cron, "0 0 31 2 *") == 0;
}

static void set_of_a_callback_is_changed_while_the_scheduler_runs(struct contract *c)
{
    struct program program = {.c = c, .version = 1};
    const quern_scheduler_options options = {
        .program = "test", .sync_ms = 1000, .on_entries = on_entries, .user = &program};
    quern_error err = {0};
    (void)schedule_put(c, "by-hand");
    assert_int_equal(schedule_pause(c, "by-hand", QN_ENTRY_PAUSE), QUERN_OK);
    assert_ok(quern_scheduler_new(c->url, &options, &program.scheduler, &err), err);
    assert_int_equal(pthread_create(&program.thread, NULL, run, &program), 0);
    assert_true(test_until(has_first_set, &program));
    uint64_t revision = schedule_look(c, "changes").revision;
    atomic_store(&program.version, 2);
    quern_scheduler_reload(program.scheduler);
    assert_true(test_until(has_second_set, &program));
    assert_true(schedule_look(c, "changes").revision > revision);
    assert_false(schedule_look(c, "bad").found);
    assert_true(schedule_look(c, "by-hand").found);
    assert_true(atomic_load(&program.refused) > 0);
    quern_scheduler_stop(program.scheduler);
    assert_int_equal(pthread_join(program.thread, NULL), 0);
    quern_scheduler_free(program.scheduler);
    assert_true(has_second_set(&program)); /* they outlive it */
}

static bool has_plain(void *user)
{
    return schedule_look(((struct program *)user)->c, "plain").found;
}

static quern_status register_entry(quern_scheduler *scheduler, const char *name, int32_t priority)
{
    const quern_entry entry = {.name = name, .cron = "0 0 30 2 *"}; /* never */
    const quern_task task = {.type = "t", .priority = priority};
    return quern_scheduler_register(scheduler, &entry, &task, NULL);
}

/* The server is not there yet when they are registered: its socket has no such name. */
static void entry_that_the_server_cannot_store_costs_no_other(struct contract *c)
{
    static const char scheme[] = "redis-socket://";
    struct program program = {.c = c};
    char url[512];
    char path[256];
    char link[260];
    const quern_scheduler_options options = {.program = "test"};
    quern_error err = {0};
    assert_memory_equal(c->url, scheme, sizeof scheme - 1);
    const char *begin = strchr(c->url + sizeof scheme - 1, '/');
    assert_non_null(begin);
    int size = (int)strcspn(begin, "?");
    (void)snprintf(path, sizeof path, "%.*s", size, begin);
    (void)snprintf(link, sizeof link, "%s.l", path);
    (void)snprintf(url, sizeof url, "%.*s%s%s", (int)(begin - c->url), c->url, link, begin + size);
    assert_ok(quern_scheduler_new(url, &options, &program.scheduler, &err), err);
    assert_int_equal(register_entry(program.scheduler, "first", 5), QUERN_OK);
    assert_int_equal(register_entry(program.scheduler, "plain", 0), QUERN_OK);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(pthread_create(&program.thread, NULL, run, &program), 0);
    assert_true(test_until(has_plain, &program));
    assert_false(schedule_look(c, "first").found);
    quern_scheduler_stop(program.scheduler);
    assert_int_equal(pthread_join(program.thread, NULL), 0);
    quern_scheduler_free(program.scheduler);
    assert_int_equal(unlink(link), 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(set_of_a_callback_is_changed_while_the_scheduler_runs),
    CONTRACT_TEST_ONLY("redis", entry_that_the_server_cannot_store_costs_no_other),
};
CONTRACT_MAIN(tests)
