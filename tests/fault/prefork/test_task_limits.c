/* SPDX-License-Identifier: MIT */
/* test_task_limits.c - limits of one run that a task brings along, in a child. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

/* Takes as many MiB of address space as the payload says. */
static quern_outcome take_memory(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    size_t size = (size_t)strtoul(task->payload, NULL, 10) * MIB;
    char *data = malloc(size);
    if (data == NULL) {
        return quern_run_fail(run, QUERN_ARCHIVE, "no memory");
    }
    free(data);
    return QUERN_DONE;
}

/* Computes for ever; "spin" of the rig yields, and uses little time on a busy machine. */
static quern_outcome burn(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    volatile uint64_t turns = 1;
    while (turns > 0) {
        turns |= 1;
    }
    return QUERN_DONE;
}

static void prepare(struct rig *rig)
{
    quern_error error = {0};
    const quern_handler_options wide = {.memory_max = (int64_t)1 << 50};
    const quern_handler_options slow = {.kill_after_ms = 600000};
    assert_ok(quern_mux_handle(rig->mux, "memory", take_memory, rig, &wide, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "burn", burn, rig, NULL, &error), error);
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
        rig,
        &(quern_task){.id = "x", .type = "burn", .cpu_ms = 1000, .retry_max = QUERN_RETRY_NEVER});
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_ARCHIVED);
    assert_has_error(rig, "x", "CPU");
    rig_put(rig, "after", "done");
    rig_wait_state(rig, "after", 0);
    rig_stop(&worker);
    rig_free(rig);
}

/* The sanitizers reserve more address space than any limit. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { HAS_SANITIZER = 1 };
#else
enum { HAS_SANITIZER = 0 };
#endif

static void its_memory_is_limited_and_only_its(void **state)
{
    (void)state;
    if (HAS_SANITIZER) {
        skip();
    }
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_put_task(rig, &(quern_task){.id = "x",
                                    .type = "memory",
                                    .payload = "512",
                                    .payload_size = 3,
                                    .memory_max = (int64_t)256 * MIB});
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    rig_wait_state(rig, "x", QUERN_TASK_ARCHIVED);
    assert_has_error(rig, "x", "no memory");
    rig_put_task(rig,
                 &(quern_task){.id = "y", .type = "memory", .payload = "512", .payload_size = 3});
    rig_wait_state(rig, "y", 0);
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
    cmocka_unit_test(its_memory_is_limited_and_only_its),
    cmocka_unit_test(its_time_from_cancel_to_kill_counts),
};
TEST_MAIN_OVER_BROKERS(tests)
