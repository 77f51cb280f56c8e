/* SPDX-License-Identifier: MIT */
/* test_task_limits.c - the limits of one run that a task brings along: each of its runs has them,
 * and they are kept in every state. */
#include "lib_contract.h"

#include <string.h>

#define KILL_AFTER_MS INT64_C(10250)
#define CPU_MS INT64_C(60000)
#define MEMORY_MAX (INT64_C(3) << 30)

static quern_task limited(const char *id)
{
    return (quern_task){.type = "t",
                        .id = id,
                        .kill_after_ms = KILL_AFTER_MS,
                        .cpu_ms = CPU_MS,
                        .memory_max = MEMORY_MAX};
}

static void assert_limits(const struct qn_task *task)
{
    assert_int_equal(task->kill_after_ms, KILL_AFTER_MS);
    assert_int_equal(task->cpu_ms, CPU_MS);
    assert_int_equal(task->memory_max, MEMORY_MAX);
}

static void assert_shown(struct contract *c, const char *id)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_task(inspector, "default", id, &info, &err), err);
    assert_int_equal(quern_task_info_kill_after_ms(info), KILL_AFTER_MS);
    assert_int_equal(quern_task_info_cpu_ms(info), CPU_MS);
    assert_int_equal(quern_task_info_memory_max(info), MEMORY_MAX);
    quern_task_info_free(info);
    quern_inspector_free(inspector);
}

static void run_knows_the_limits_of_its_task(struct contract *c)
{
    quern_task task = limited("a");
    contract_enqueue(c, &task);
    assert_shown(c, "a");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_limits(&run->task);
    contract_finish(c, run, QN_RETRY);
    assert_shown(c, "a");
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    run = contract_take_id(c, "default", "a");
    assert_limits(&run->task);
    contract_finish(c, run, QN_ARCHIVE);
    assert_shown(c, "a");
}

static void limits_stand_beside_all_other_options(struct contract *c)
{
    quern_task task = limited("a");
    task.delay_ms = 5000;
    task.timeout_ms = 1500;
    task.retry = (quern_retry_policy)QUERN_BACKOFF_FIXED(700);
    task.unique_ms = 60000;
    task.start_within_ms = 90000;
    task.limit_key = "r1:2:3 acme; r4:5:6";
    contract_enqueue(c, &task);
    assert_shown(c, "a");
    contract_advance(c, 5000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_limits(&run->task);
    assert_int_equal(run->task.timeout_ms, 1500);
    assert_int_equal(run->task.retry.base_ms, 700);
    assert_int_equal(run->task.unique_span_ms, 60000);
    assert_string_equal(run->task.limit_key, "r1:2:3 acme; r4:5:6");
    contract_finish(c, run, QN_DONE);
}

static void task_without_limits_has_none(struct contract *c)
{
    quern_task with = limited("a");
    contract_enqueue(c, &with);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b", .limit_key = "r7:8:9"});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "c", .memory_max = MEMORY_MAX});
    struct qn_leased *runs[3];
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct qn_task *task = &runs[i]->task;
        bool has_all = strcmp(task->id, "a") == 0;
        assert_int_equal(task->kill_after_ms, has_all ? KILL_AFTER_MS : 0);
        assert_int_equal(task->cpu_ms, has_all ? CPU_MS : 0);
        assert_int_equal(task->memory_max, strcmp(task->id, "b") == 0 ? 0 : MEMORY_MAX);
        contract_finish(c, runs[i], QN_DONE);
    }
}

static void limits_go_with_a_task_to_another_queue(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    quern_task task = limited("a");
    contract_enqueue(c, &task);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    const struct qn_outcome outcome = {
        .run = run, .kind = QN_SNOOZE, .started = true, .delay_ms = 1000, .change = &change};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    qn_leased_free(run);
    contract_advance(c, 1000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    run = contract_take_id(c, "other", "a");
    assert_limits(&run->task);
    contract_finish(c, run, QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(run_knows_the_limits_of_its_task),
    CONTRACT_TEST(limits_stand_beside_all_other_options),
    CONTRACT_TEST(task_without_limits_has_none),
    CONTRACT_TEST(limits_go_with_a_task_to_another_queue),
};
CONTRACT_MAIN(tests)
