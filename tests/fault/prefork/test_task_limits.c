/* SPDX-License-Identifier: MIT */
/* test_task_limits.c - limits of one run that a task brings along, in a child. */
#include "lib_worker.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

/* Computes for ever; "spin" of the rig yields, and uses little time on a busy machine. TSan hands
 * out signals in calls of the system only. */
static quern_outcome burn(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    volatile uint64_t turns = 1;
    while (turns > 0) {
        turns++;
        if (turns % 1000000 == 0) {
            (void)poll(NULL, 0, 0);
        }
    }
    return QUERN_DONE;
}

/* The same, whatever the kernel says. */
static quern_outcome burn_deaf(quern_run *run, const quern_task *task, void *user)
{
    (void)signal(SIGXCPU, SIG_IGN);
    return burn(run, task, user);
}

static void prepare(struct rig *rig)
{
    quern_error error = {0};
    const quern_handler_options slow = {.kill_after_ms = 600000};
    assert_ok(quern_mux_handle(rig->mux, "burn", burn, rig, NULL, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "deaf", burn_deaf, rig, NULL, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "slow", rig_handler(), rig, &slow, &error), error);
}

static void assert_has_error(struct rig *rig, const char *id, const char *text)
{
    quern_task_info *info = rig_inspect(rig, id);
    if (strstr(quern_task_info_error(info), text) == NULL) {
        fail_msg("%s: %s", id, quern_task_info_error(info));
    }
    quern_task_info_free(info);
}

static void its_cpu_time_ends_it(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_put_task(
        rig, &(quern_task){.id = "x", .type = "burn", .cpu_ms = 1, .retry_max = QUERN_RETRY_NEVER});
    rig_put_task(
        rig, &(quern_task){.id = "y", .type = "deaf", .cpu_ms = 1, .retry_max = QUERN_RETRY_NEVER});
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_ARCHIVED);
    assert_has_error(rig, "x", "signal 24 (SIGXCPU)");
    rig_wait_state(rig, "y", QUERN_TASK_ARCHIVED);
    assert_has_error(rig, "y", "signal 9 (SIGKILL), its CPU limit was reached");
    rig_put(rig, "after", "done");
    rig_wait_state(rig, "after", 0);
    rig_stop(&worker);
    rig_free(rig);
}

/* Its handler would have ten minutes, a thread of this worker one. */
static void its_time_from_cancel_to_kill_counts(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_put_task(rig, &(quern_task){.id = "x",
                                    .type = "slow",
                                    .payload = "spin",
                                    .payload_size = 4,
                                    .timeout_ms = 500,
                                    .kill_after_ms = 100});
    rig_start(rig, &worker, &(quern_worker_options){.quarantine_after_ms = 60000});
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    assert_has_error(rig, "x", "timeout of 500ms");
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(its_cpu_time_ends_it),
    cmocka_unit_test(its_time_from_cancel_to_kill_counts),
};
TEST_MAIN_OVER_BROKERS(tests)
