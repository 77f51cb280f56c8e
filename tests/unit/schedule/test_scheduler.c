/* SPDX-License-Identifier: MIT */
/* test_scheduler.c - the public scheduler: its options, and the entries of a program. */
#include "quern/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "broker/schedule/schedule.h"
#include "lib_task.h"
#include "lib_test.h"
#include "quern/inspector.h"

#define URL "memory:scheduler"

/* A program with a scheduler on a thread of its own. */
struct program {
    quern_inspector *keeper; /* keeps the data while no scheduler has them open */
    quern_scheduler *scheduler;
    pthread_t thread;
    quern_status status;
    _Atomic int refuses;       /* the callback returns an error */
    _Atomic int refused_count; /* so often that was logged */
    /* What list has found. */
    size_t count;
    char name[64];
    char queue[64];
    int64_t last_at_ms;
};

static const quern_task task = {.type = "t"};

static void on_log(quern_log_level level, const char *line, void *user)
{
    struct program *program = user;
    (void)level;
    if (strstr(line, "entries of the program stay as they were") != NULL) {
        atomic_fetch_add(&program->refused_count, 1);
    }
}

static quern_status on_entries(quern_entry_set *set, void *user)
{
    struct program *program = user;
    const quern_entry entry = {.name = "called", .cron = "0 0 30 2 *"};
    if (atomic_load(&program->refuses) != 0) {
        return QUERN_E_BUSY;
    }
    return quern_entry_set_add(set, &entry, &task, NULL);
}

static int open_program(void **state)
{
    static struct program program;
    program = (struct program){.count = 0};
    const quern_inspector_options options = {.create = true};
    *state = &program;
    return quern_inspector_open(URL, &options, &program.keeper, NULL) == QUERN_OK ? 0 : -1;
}

static int close_program(void **state)
{
    struct program *program = *state;
    quern_scheduler_free(program->scheduler);
    quern_inspector_free(program->keeper);
    return 0;
}

static void make(struct program *program, bool with_callback)
{
    const quern_scheduler_options options = {.program = "test",
                                             .sync_ms = 1000,
                                             .on_log = on_log,
                                             .on_entries = with_callback ? on_entries : NULL,
                                             .user = program};
    quern_error err = {0};
    assert_ok(quern_scheduler_new(URL, &options, &program->scheduler, &err), err);
}

static void *run(void *user)
{
    struct program *program = user;
    program->status = quern_scheduler_run(program->scheduler, NULL);
    return NULL;
}

static void start(struct program *program)
{
    assert_int_equal(pthread_create(&program->thread, NULL, run, program), 0);
}

static void stop(struct program *program)
{
    quern_scheduler_stop(program->scheduler);
    assert_int_equal(pthread_join(program->thread, NULL), 0);
    assert_int_equal(program->status, QUERN_OK);
    assert_false(quern_scheduler_is_ready(program->scheduler));
}

static quern_status add(struct program *program, const char *name, const char *queue)
{
    const quern_entry entry = {.name = name, .cron = "0 0 30 2 *"}; /* never */
    const quern_task its_task = {.type = "t", .queue = queue};
    return quern_scheduler_register(program->scheduler, &entry, &its_task, NULL);
}

static bool keep(const quern_entry_info *info, void *user)
{
    struct program *program = user;
    program->count++;
    program->last_at_ms = info->last_at_ms;
    (void)snprintf(program->name, sizeof program->name, "%s", info->name);
    (void)snprintf(program->queue, sizeof program->queue, "%s", info->queue);
    assert_string_equal(info->origin, "code:test");
    assert_string_equal(info->type, "t");
    return true;
}

static size_t list(struct program *program)
{
    quern_error err = {0};
    program->count = 0;
    assert_ok(quern_scheduler_list(program->scheduler, keep, program, &err), err);
    return program->count;
}

static bool has_one(void *user)
{
    return list(user) == 1;
}

static bool has_two(void *user)
{
    return list(user) == 2;
}

static void options_that_are_wrong_are_refused(void **state)
{
    static const char *const no_file[] = {""};
    const struct {
        quern_scheduler_options options;
        const char *text;
    } cases[] = {
        {{.sync_ms = 5}, "sync_ms is 5, not at least 1000"},
        {{.sync_ms = -1}, "sync_ms is -1, not at least 1000"},
        {{.program = "two words"}, "program is not 1 to 255 visible ASCII characters"},
        {{.program = ""}, "program is not 1 to 255 visible ASCII characters"},
        {{.on_entries = on_entries}, "scheduler options: program is needed with on_entries"},
        {{.file_count = 1}, "files is NULL, but file_count is 1"},
        {{.files = no_file, .file_count = 1}, "the path of a file with entries is empty"},
        {{.reserved = {1}}, "scheduler options: reserved is not 0"},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_scheduler *scheduler = NULL;
        quern_error err = {0};
        assert_int_equal(quern_scheduler_new(URL, &cases[i].options, &scheduler, &err),
                         QUERN_E_INVALID);
        assert_string_equal(err.text, cases[i].text);
    }
    quern_scheduler *scheduler = NULL;
    const quern_scheduler_options nowhere = {.zone = "No/Where"};
    assert_int_equal(quern_scheduler_new(URL, &nowhere, &scheduler, NULL), QUERN_E_NOT_FOUND);
    assert_int_equal(quern_scheduler_new(NULL, NULL, &scheduler, NULL), QUERN_E_INVALID);
    assert_int_equal(quern_scheduler_run(NULL, NULL), QUERN_E_INVALID);
    quern_scheduler_stop(NULL);
    quern_scheduler_reload(NULL);
    quern_scheduler_free(NULL);
}

static void entries_that_are_wrong_are_refused(void **state)
{
    struct program *program = *state;
    const quern_entry bad = {.name = "e", .cron = "* * *"};
    quern_error err = {0};
    make(program, false);
    assert_int_equal(quern_scheduler_register(program->scheduler, &bad, &task, &err),
                     QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "entry \"e\": cron: 3 fields"));
    assert_int_equal(add(program, "e", NULL), QUERN_OK);
    assert_int_equal(add(program, "e", "default"), QUERN_E_CONFLICT);
    assert_int_equal(add(program, "e", "other"), QUERN_OK);
    assert_int_equal(quern_scheduler_unregister(program->scheduler, "third", "e", NULL),
                     QUERN_E_NOT_FOUND);
    quern_scheduler_free(program->scheduler);
    assert_int_equal(quern_scheduler_new(URL, NULL, &program->scheduler, NULL), QUERN_OK);
    assert_int_equal(add(program, "e", NULL), QUERN_E_INVALID); /* it has no program */
}

static void registered_entries_are_stored_and_removed(void **state)
{
    struct program *program = *state;
    make(program, false);
    assert_int_equal(add(program, "a", NULL), QUERN_OK);
    start(program);
    assert_true(test_until(has_one, program));
    assert_int_equal(add(program, "b", NULL), QUERN_OK); /* while it runs */
    assert_true(test_until(has_two, program));
    assert_int_equal(quern_scheduler_unregister(program->scheduler, NULL, "a", NULL), QUERN_OK);
    assert_true(test_until(has_one, program));
    assert_string_equal(program->name, "b");
    assert_true(quern_scheduler_is_ready(program->scheduler));
    stop(program);
    assert_int_equal(quern_scheduler_run(program->scheduler, NULL), QUERN_E_STATE);
}

static bool is_in_other(void *user)
{
    const struct program *program = user;
    return list(user) == 1 && strcmp(program->queue, "other") == 0;
}

/* As an earlier version of the program has stored it. */
static void put_earlier(int64_t last_s)
{
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    struct qn_schedule_entry entry = {.name = "e",
                                      .origin = "code:test",
                                      .cron = "0 0 30 2 *",
                                      .zone = "",
                                      .misfire = QN_MISFIRE_ONCE,
                                      .misfire_max = 1,
                                      .last_s = last_s,
                                      .task = test_task(NULL)};
    struct qn_put put = {.entry = &entry, .expected = QN_REVISION_NONE};
    assert_ok(qn_broker_open(URL, NULL, &broker, &err), err);
    assert_ok(qn_schedule_put(broker, &put, 1, &err), err);
    assert_int_equal(put.result, QN_PUT_ADDED);
    qn_broker_close(broker);
}

static void entry_in_another_queue_keeps_its_last_tick(void **state)
{
    struct program *program = *state;
    put_earlier(1700000000);
    make(program, false);
    assert_int_equal(add(program, "e", "other"), QUERN_OK);
    start(program);
    assert_true(test_until(is_in_other, program));
    assert_int_equal(program->last_at_ms, INT64_C(1700000000000));
    stop(program);
}

static bool was_refused(void *user)
{
    struct program *program = user;
    return atomic_load(&program->refused_count) > 0;
}

static void callback_that_fails_changes_nothing(void **state)
{
    struct program *program = *state;
    make(program, true);
    start(program);
    assert_true(test_until(has_one, program));
    assert_string_equal(program->name, "called");
    atomic_store(&program->refuses, 1);
    quern_scheduler_reload(program->scheduler);
    assert_true(test_until(was_refused, program));
    assert_int_equal(list(program), 1);
    stop(program);
}

#define PROGRAM_TEST(function)                                                                     \
    cmocka_unit_test_setup_teardown(function, open_program, close_program)

static const struct CMUnitTest tests[] = {
    PROGRAM_TEST(options_that_are_wrong_are_refused),
    PROGRAM_TEST(entries_that_are_wrong_are_refused),
    PROGRAM_TEST(registered_entries_are_stored_and_removed),
    PROGRAM_TEST(entry_in_another_queue_keeps_its_last_tick),
    PROGRAM_TEST(callback_that_fails_changes_nothing),
};
TEST_MAIN(tests)
