/* SPDX-License-Identifier: MIT */
/* test_backoff.c - one outage for the threads of a worker: backoff, waking, log lines. */
#include "lib_test.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "worker/backoff.h"

struct world {
    struct qn_log log;
    struct qn_backoff_group all;
    struct qn_backoff pump;
    struct qn_backoff keeper;
    struct qn_backoff forward; /* lazy */
    size_t wakes;
    size_t begins;
    size_t ends;
    char line[256]; /* the latest */
};

static void on_log(quern_log_level level, const char *line, void *user)
{
    (void)level;
    struct world *world = user;
    (void)snprintf(world->line, sizeof world->line, "%s", line);
    world->begins += strstr(line, "broker does not answer") != NULL ? 1 : 0;
    world->ends += strstr(line, "broker answers again") != NULL ? 1 : 0;
}

static void on_wake(void *user)
{
    ((struct world *)user)->wakes++;
}

static void open_world(struct world *world)
{
    *world = (struct world){0};
    qn_log_init(&world->log, on_log, world);
    qn_backoff_group_init(&world->all, &world->log, on_wake, world);
    qn_backoff_init(&world->pump, &world->all);
    qn_backoff_init(&world->keeper, &world->all);
    qn_backoff_init(&world->forward, &world->all);
    world->forward.is_lazy = true;
}

static void close_world(struct world *world)
{
    qn_backoff_finish(&world->forward);
    qn_backoff_finish(&world->keeper);
    qn_backoff_finish(&world->pump);
    qn_backoff_group_finish(&world->all);
    qn_log_finish(&world->log);
}

static void nobody_waits_for_more_than_a_second(void **state)
{
    (void)state;
    struct world world;
    const quern_error error = {.code = QUERN_E_CONNECT};
    open_world(&world);
    for (int i = 0; i < 200; i++) {
        qn_backoff_fail(&world.pump, &error);
        int64_t wait_ns = world.pump.retry_at_mono_ns - qn_clock_mono_ns();
        assert_true(wait_ns <= (QN_PACE_LIMIT_MS + 1) * INT64_C(1000000));
    }
    close_world(&world);
}

static void the_first_answer_ends_the_waiting_of_all(void **state)
{
    (void)state;
    struct world world;
    const quern_error error = {.code = QUERN_E_CONNECT};
    open_world(&world);
    qn_backoff_fail(&world.pump, &error);
    qn_backoff_fail(&world.keeper, &error);
    qn_backoff_fail(&world.forward, &error);
    assert_true(world.keeper.retry_at_mono_ns != 0);
    qn_backoff_end(&world.pump);
    assert_int_equal(world.keeper.retry_at_mono_ns, 0);
    assert_int_equal(world.forward.retry_at_mono_ns, 0);
    assert_true(world.keeper.since_mono_ns != 0); /* it has not been answered itself */
    assert_int_equal(world.wakes, 1);
    qn_backoff_end(&world.pump); /* was over before: wakes no thread */
    assert_int_equal(world.wakes, 1);
    close_world(&world);
}

static void an_outage_is_logged_once_for_all_threads(void **state)
{
    (void)state;
    struct world world;
    const quern_error error = {.code = QUERN_E_CONNECT};
    open_world(&world);
    for (int i = 0; i < 3; i++) {
        qn_backoff_fail(&world.pump, &error);
        qn_backoff_fail(&world.keeper, &error);
        qn_backoff_fail(&world.forward, &error);
    }
    assert_int_equal(world.begins, 1);
    qn_backoff_end(&world.pump);
    assert_int_equal(world.ends, 0); /* the keeper still fails: its request may be another one */
    qn_backoff_end(&world.keeper);
    assert_int_equal(world.ends, 1); /* it is unknown when the lazy one is called again */
    close_world(&world);
}

/* At the end of a worker its threads leave one after the other, and the last ones fail, too. */
static void the_outage_of_a_member_that_left_is_logged_once(void **state)
{
    (void)state;
    struct world world;
    struct qn_backoff ack;
    const quern_error error = {.code = QUERN_E_CONNECT};
    open_world(&world);
    qn_backoff_init(&ack, &world.all);
    qn_backoff_fail(&ack, &error);
    qn_backoff_finish(&ack);
    assert_int_equal(world.begins, 1);
    assert_int_equal(world.ends, 0); /* no thread got an answer */
    qn_backoff_fail(&world.pump, &error);
    assert_int_equal(world.begins, 1);
    qn_backoff_end(&world.pump);
    assert_int_equal(world.ends, 1);
    close_world(&world);
}

static void a_member_that_leaves_holds_no_outage_open(void **state)
{
    (void)state;
    struct world world;
    struct qn_backoff ack;
    const quern_error error = {.code = QUERN_E_CONNECT};
    open_world(&world);
    qn_backoff_init(&ack, &world.all);
    qn_backoff_fail(&ack, &error);
    qn_backoff_finish(&ack);
    world.all.since_mono_ns -= INT64_C(3600000000000);
    world.all.logged_mono_ns -= INT64_C(3600000000000);
    world.all.failed_mono_ns -= INT64_C(3600000000000);
    qn_backoff_fail(&world.pump, &error);
    assert_int_equal(world.begins, 2);
    assert_null(strstr(world.line, "since_ms"));
    qn_backoff_end(&world.pump);
    assert_int_equal(world.ends, 1);
    close_world(&world);
}

static void only_a_later_line_reports_how_long_an_outage_lasts(void **state)
{
    (void)state;
    struct world world;
    const quern_error error = {.code = QUERN_E_CONNECT};
    open_world(&world);
    qn_backoff_fail(&world.pump, &error);
    assert_null(strstr(world.line, "since_ms"));
    world.all.logged_mono_ns -= INT64_C(60000000000);
    qn_backoff_fail(&world.pump, &error);
    assert_int_equal(world.begins, 2);
    assert_non_null(strstr(world.line, "since_ms"));
    close_world(&world);
}

/* The lazy one failed, and was not called again: it is unknown when the broker answered. */
static void an_outage_that_nobody_saw_end_is_not_part_of_the_next(void **state)
{
    (void)state;
    struct world world;
    const quern_error error = {.code = QUERN_E_CONNECT};
    open_world(&world);
    qn_backoff_fail(&world.forward, &error);
    world.all.since_mono_ns -= INT64_C(3600000000000);
    world.all.logged_mono_ns -= INT64_C(3600000000000);
    world.all.failed_mono_ns -= INT64_C(3600000000000);
    qn_backoff_fail(&world.pump, &error);
    assert_int_equal(world.begins, 2);
    assert_null(strstr(world.line, "since_ms"));
    qn_backoff_end(&world.pump);
    assert_non_null(strstr(world.line, "failures=1"));
    close_world(&world);
}

/* "Closed by the server" does not say why no connection is made since, such as a certificate. */
static void an_outage_that_began_with_a_lost_connection_gets_its_reason_once(void **state)
{
    (void)state;
    struct world world;
    const quern_error lost = {.code = QUERN_E_UNKNOWN, .text = "closed by the server"};
    const quern_error refused = {.code = QUERN_E_CONNECT, .text = "unknown CA"};
    open_world(&world);
    for (int outage = 0; outage < 2; outage++) {
        qn_backoff_fail(&world.pump, &lost);
        qn_backoff_fail(&world.keeper, &lost);
        assert_null(strstr(world.line, "no connection to the broker"));
        qn_backoff_fail(&world.keeper, &refused);
        assert_non_null(strstr(world.line, "no connection to the broker\" error=\"unknown CA\""));
        world.line[0] = '\0';
        qn_backoff_fail(&world.pump, &refused);
        assert_string_equal(world.line, "");
        qn_backoff_end(&world.pump);
        qn_backoff_end(&world.keeper);
    }
    qn_backoff_fail(&world.pump, &refused);
    qn_backoff_fail(&world.keeper, &refused);
    assert_null(strstr(world.line, "no connection to the broker"));
    assert_int_equal(world.begins, 3);
    close_world(&world);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nobody_waits_for_more_than_a_second),
    cmocka_unit_test(the_first_answer_ends_the_waiting_of_all),
    cmocka_unit_test(an_outage_is_logged_once_for_all_threads),
    cmocka_unit_test(the_outage_of_a_member_that_left_is_logged_once),
    cmocka_unit_test(a_member_that_leaves_holds_no_outage_open),
    cmocka_unit_test(only_a_later_line_reports_how_long_an_outage_lasts),
    cmocka_unit_test(an_outage_that_nobody_saw_end_is_not_part_of_the_next),
    cmocka_unit_test(an_outage_that_began_with_a_lost_connection_gets_its_reason_once),
};
TEST_MAIN(tests)
