/* SPDX-License-Identifier: MIT */
/* test_shortage.c - commands that cannot be started: when fetching pauses, when it resumes, and the
 * outcome of their tasks. */
#include "lib_test.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "worker/internal.h"
#include "worker/run/report.h"
#include "worker/run/verdict.h"

#define SECOND_NS INT64_C(1000000000)

struct world {
    struct quern_worker worker;
    quern_mux *mux;
    size_t begins;
    size_t ends;
    size_t reports;
};

static void on_log(quern_log_level level, const char *line, void *user)
{
    struct world *world = user;
    (void)level;
    world->begins += strstr(line, "commands cannot be started") != NULL ? 1 : 0;
    world->ends += strstr(line, "commands can be started again") != NULL ? 1 : 0;
}

static void on_run(const quern_run_report *report, void *user)
{
    struct world *world = user;
    (void)report;
    world->reports++;
}

static int open_world(void **state)
{
    struct world *world = qn_alloc_zero(1, sizeof *world);
    struct quern_worker *worker = &world->worker;
    assert_int_equal(quern_mux_new(&world->mux, NULL), QUERN_OK);
    worker->mux = world->mux;
    worker->signals.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&worker->mutex, NULL);
    qn_random_init(&worker->random);
    qn_log_init(&worker->log, on_log, world);
    worker->options.on_run = on_run;
    worker->options.user = world;
    *state = world;
    return 0;
}

static int close_world(void **state)
{
    struct world *world = *state;
    qn_log_finish(&world->worker.log);
    (void)pthread_mutex_destroy(&world->worker.mutex);
    (void)close(world->worker.signals.wake_fd);
    quern_mux_free(world->mux);
    qn_free(world);
    return 0;
}

static void refuse(struct world *world)
{
    struct quern_run run = {.not_started = true, .started_at_mono_ns = qn_clock_mono_ns()};
    qn_shortage_note(&world->worker, &run);
}

/* A command ends that was started so long after now. */
static void end_one(struct world *world, int64_t later_ns)
{
    struct quern_run run = {.started_at_mono_ns = qn_clock_mono_ns() + later_ns};
    qn_shortage_note(&world->worker, &run);
}

/* The shortage is this much older, and its pause is over. */
static void pass(struct world *world, int64_t ns)
{
    world->worker.shortage.failed_at_mono_ns -= ns;
    world->worker.shortage.pauses = false;
}

static void a_command_that_was_started_since_ends_the_shortage(void **state)
{
    struct world *world = *state;
    refuse(world);
    assert_true(qn_shortage_pauses(&world->worker, qn_clock_mono_ns()));
    pass(world, 3 * SECOND_NS);
    end_one(world, 0);
    assert_int_equal(world->begins, 1);
    assert_int_equal(world->ends, 1);
}

static void a_command_that_was_started_before_it_does_not_report_the_shortage(void **state)
{
    struct world *world = *state;
    refuse(world);
    pass(world, 3 * SECOND_NS);
    end_one(world, -10 * SECOND_NS);
    assert_int_equal(world->ends, 0);
    refuse(world);
    assert_true(world->worker.shortage.pause_ms > 100); /* longer than the first one */
}

static void a_system_that_lets_some_commands_start_gets_short_pauses(void **state)
{
    struct world *world = *state;
    struct qn_shortage *shortage = &world->worker.shortage;
    for (size_t round = 0; round < 6; round++) {
        refuse(world);
        assert_int_equal(shortage->pause_ms, 100);
        shortage->until_mono_ns = qn_clock_mono_ns();
        assert_int_equal(qn_shortage_watch(&world->worker), -1);
        struct quern_run started = {.started_at_mono_ns = qn_clock_mono_ns()};
        refuse(world);                              /* of the same round, so behind it in time */
        qn_shortage_note(&world->worker, &started); /* it ended well */
        shortage->until_mono_ns = qn_clock_mono_ns();
        assert_int_equal(qn_shortage_watch(&world->worker), -1);
    }
    assert_int_equal(world->begins, 1);
    assert_int_equal(world->ends, 0);
}

static void a_shortage_that_lasts_is_reported_each_minute(void **state)
{
    struct world *world = *state;
    refuse(world);
    pass(world, SECOND_NS);
    refuse(world);
    assert_int_equal(world->begins, 1);
    world->worker.shortage.logged_at_mono_ns -= 60 * SECOND_NS;
    refuse(world);
    assert_int_equal(world->begins, 2);
}

static void a_cancelled_run_that_was_not_started_uses_up_nothing(void **state)
{
    struct world *world = *state;
    struct qn_leased leased = {.task = {.type = "t", .queue = "q", .id = "a"}};
    struct quern_run run = {
        .leased = &leased, .outcome = QUERN_RETRY, .not_started = true, .again_in_ms = -1};
    struct qn_verdict verdict;
    atomic_init(&run.cancel_reason, QN_REASON_OPERATOR_RETRY);
    qn_verdict_judge(&world->worker, &run, &verdict);
    assert_true(verdict.offered);
    assert_int_equal(verdict.kind, QN_SNOOZE);
    qn_free(run.error);
}

static void a_run_that_was_not_started_is_no_run_for_on_run(void **state)
{
    struct world *world = *state;
    struct qn_leased leased = {.task = {.type = "t", .queue = "q", .id = "a"}};
    struct quern_run run = {.leased = &leased,
                            .phase = QN_RUN_FINISHED,
                            .started_at_mono_ns = 1,
                            .ended_at_mono_ns = 2,
                            .verdict = {.offered = true, .kind = QN_GIVE_BACK}};
    qn_report_run(&world->worker, &run, QN_APPLIED);
    assert_int_equal(world->reports, 1);
    run.not_started = true;
    qn_report_run(&world->worker, &run, QN_APPLIED);
    assert_int_equal(world->reports, 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
static const struct CMUnitTest tests[] = {
    CASE(a_command_that_was_started_since_ends_the_shortage),
    CASE(a_command_that_was_started_before_it_does_not_report_the_shortage),
    CASE(a_system_that_lets_some_commands_start_gets_short_pauses),
    CASE(a_shortage_that_lasts_is_reported_each_minute),
    CASE(a_cancelled_run_that_was_not_started_uses_up_nothing),
    CASE(a_run_that_was_not_started_is_no_run_for_on_run),
};
TEST_MAIN(tests)
