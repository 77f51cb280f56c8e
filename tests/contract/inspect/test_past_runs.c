/* SPDX-License-Identifier: MIT */
/* test_past_runs.c - the last runs of a task: which are noted, how each ended, how many are kept,
 * and that a task that is done at once leaves nothing. */
#include "lib_contract.h"

#include <stdio.h>
#include <string.h>

#include "task/past_runs.h"

/* For the caller to free. */
static quern_task_info *task_of(struct contract *c, const char *id)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_task(inspector, "default", id, &info, &err), err);
    quern_inspector_free(inspector);
    return info;
}

struct expected {
    quern_run_end end;
    quern_cause cause;
};

static void assert_runs(struct contract *c, const char *id, const struct expected *expected,
                        size_t count)
{
    quern_task_info *info = task_of(c, id);
    assert_int_equal(quern_task_info_run_count(info), count);
    for (size_t i = 0; i < count; i++) {
        const quern_past_run *run = quern_task_info_run_at(info, i);
        assert_int_equal(run->end, expected[i].end);
        assert_int_equal(run->cause, expected[i].cause);
    }
    assert_null(quern_task_info_run_at(info, count));
    quern_task_info_free(info);
}

/* Ends the run of task "a" so, with what is known of its process. */
static void end_so(struct contract *c, const struct qn_outcome *outcome)
{
    struct qn_leased *run = contract_take_id(c, "default", "a");
    struct qn_outcome mine = *outcome;
    mine.run = run;
    assert_int_equal(contract_end(c, &mine), QN_APPLIED);
    qn_leased_free(run);
}

static void facts_of_a_run_are_kept(struct contract *c)
{
    const struct qn_run_facts facts = {
        .known = true, .cpu_ms = 12, .memory_kib = 34, .exit_code = 5, .signal = 0};
    contract_put(c, "default", "a");
    end_so(c, &(struct qn_outcome){.kind = QN_ARCHIVE,
                                   .started = true,
                                   .lived_ms = 700,
                                   .ago_ms = 300,
                                   .error = "no\x1e route\x1f\n",
                                   .facts = &facts});
    quern_task_info *info = task_of(c, "a");
    const quern_past_run *run = quern_task_info_run_at(info, 0);
    assert_non_null(run);
    assert_int_equal(run->end, QUERN_RUN_ARCHIVED);
    assert_int_equal(run->cpu_ms, 12);
    assert_int_equal(run->memory_bytes, 34 * 1024);
    assert_int_equal(run->exit_code, 5);
    assert_int_equal(run->signal, 0);
    assert_string_equal(run->error, "no  route \n");
    assert_int_equal(run->ended_at_ms - run->started_at_ms, 700);
    assert_int_equal(quern_task_info_archived_at_ms(info) - run->ended_at_ms, 300);
    assert_non_null(strstr(run->worker, ":"));
    quern_task_info_free(info);
}

static void each_end_has_its_name(struct contract *c)
{
    static const struct expected ends[] = {
        {QUERN_RUN_CANCELLED, QUERN_CAUSE_CHILD_DIED},
        {QUERN_RUN_CHILD_DIED, QUERN_CAUSE_GIVEN_BACK},
        {QUERN_RUN_GIVEN_BACK, QUERN_CAUSE_SNOOZE},
        {QUERN_RUN_SNOOZED, QUERN_CAUSE_RETRY},
        {QUERN_RUN_FAILED, QUERN_CAUSE_NONE},
    };
    int64_t next_ms = 0;
    contract_put(c, "default", "a");
    end_so(c, &(struct qn_outcome){.kind = QN_RETRY, .started = true, .error = "failed"});
    contract_advance(c, 1);
    contract_forward(c, "default", &next_ms);
    end_so(c, &(struct qn_outcome){.kind = QN_SNOOZE, .started = true});
    contract_advance(c, 1);
    contract_forward(c, "default", &next_ms);
    end_so(c, &(struct qn_outcome){
                  .kind = QN_GIVE_BACK, .started = true, .cause = QUERN_CAUSE_GIVEN_BACK});
    end_so(c, &(struct qn_outcome){
                  .kind = QN_CRASH, .started = true, .cause = QUERN_CAUSE_CHILD_DIED});
    end_so(c, &(struct qn_outcome){.kind = QN_CANCEL, .started = true, .error = "cancelled"});
    assert_runs(c, "a", ends, TEST_COUNT(ends));
}

static void what_was_no_run_is_not_noted(struct contract *c)
{
    contract_put(c, "default", "a");
    end_so(c, &(struct qn_outcome){.kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK});
    end_so(c, &(struct qn_outcome){.kind = QN_ASIDE, .delay_ms = 60000});
    assert_runs(c, "a", NULL, 0);
}

static void a_task_that_is_kept_notes_its_end_only_behind_other_runs(struct contract *c)
{
    static const struct expected two[] = {{QUERN_RUN_DONE, QUERN_CAUSE_GIVEN_BACK},
                                          {QUERN_RUN_GIVEN_BACK, QUERN_CAUSE_NONE}};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 60000});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b", .retention_ms = 60000});
    struct qn_leased *first = contract_take_id(c, "default", "a");
    struct qn_leased *other = contract_take_id(c, "default", "b");
    assert_int_equal(contract_finish(c, other, QN_DONE), QN_APPLIED);
    assert_runs(c, "b", NULL, 0);
    struct qn_outcome back = {
        .run = first, .kind = QN_GIVE_BACK, .started = true, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_int_equal(contract_end(c, &back), QN_APPLIED);
    qn_leased_free(first);
    end_so(c, &(struct qn_outcome){.kind = QN_DONE, .started = true});
    assert_runs(c, "a", two, TEST_COUNT(two));
}

static void loss_of_a_lease_is_noted_and_removed_by_the_salvage(struct contract *c)
{
    static const struct expected lost[] = {{QUERN_RUN_LEASE_EXPIRED, QUERN_CAUSE_NONE}};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 60000});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_expire(c, "default");
    quern_task_info *info = task_of(c, "a");
    const quern_past_run *past = quern_task_info_run_at(info, 0);
    bool is_lost = past != NULL && past->end == QUERN_RUN_LEASE_EXPIRED;
    assert_true(is_lost || (past != NULL && past->end == QUERN_RUN_WORKER_DIED));
    assert_true(past->ended_at_ms - past->started_at_ms <= CONTRACT_LEASE_MS + 5000);
    quern_task_info_free(info);
    if (is_lost) {
        assert_runs(c, "a", lost, 1);
    }
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_SALVAGED);
    assert_runs(c, "a", NULL, 0);
}

static void ten_are_kept_and_the_oldest_is_dropped(struct contract *c)
{
    contract_put(c, "default", "a");
    for (int64_t i = 0; i < QN_PAST_RUNS_MAX + 3; i++) {
        end_so(c, &(struct qn_outcome){.kind = QN_GIVE_BACK,
                                       .started = true,
                                       .cause = QUERN_CAUSE_GIVEN_BACK,
                                       .lived_ms = i});
    }
    quern_task_info *info = task_of(c, "a");
    assert_int_equal(quern_task_info_run_count(info), QN_PAST_RUNS_MAX);
    for (size_t i = 0; i < QN_PAST_RUNS_MAX; i++) {
        const quern_past_run *run = quern_task_info_run_at(info, i);
        assert_int_equal(run->ended_at_ms - run->started_at_ms, QN_PAST_RUNS_MAX + 2 - (int64_t)i);
    }
    quern_task_info_free(info);
}

static void a_task_with_the_id_of_one_that_is_done_has_no_past(struct contract *c)
{
    contract_put(c, "default", "a");
    end_so(c, &(struct qn_outcome){
                  .kind = QN_GIVE_BACK, .started = true, .cause = QUERN_CAUSE_GIVEN_BACK});
    end_so(c, &(struct qn_outcome){.kind = QN_DONE, .started = true});
    contract_put(c, "default", "a");
    assert_runs(c, "a", NULL, 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(facts_of_a_run_are_kept),
    CONTRACT_TEST(each_end_has_its_name),
    CONTRACT_TEST(what_was_no_run_is_not_noted),
    CONTRACT_TEST(a_task_that_is_kept_notes_its_end_only_behind_other_runs),
    CONTRACT_TEST(loss_of_a_lease_is_noted_and_removed_by_the_salvage),
    CONTRACT_TEST(ten_are_kept_and_the_oldest_is_dropped),
    CONTRACT_TEST(a_task_with_the_id_of_one_that_is_done_has_no_past),
};
CONTRACT_MAIN(tests)
