/* SPDX-License-Identifier: MIT */
/* test_edit.c - a task that waits is edited: payload, moment and options, unless it was changed
 * meanwhile, and with the lock that it has. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "broker/edit/edit.h"
#include "lib_contract.h"
#include "quern/search.h"

#define MINUTE_MS INT64_C(60000)

static quern_status edit_task(struct contract *c, const char *id, const quern_task_edit *edit,
                              quern_error *err)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_status status = quern_inspector_task_edit(inspector, "default", id, edit, err);
    quern_inspector_free(inspector);
    return status;
}

static quern_task_info *read_task(struct contract *c, const char *id)
{
    quern_error err = {0};
    quern_task_info *info = NULL;
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ok(quern_inspector_task(inspector, "default", id, &info, &err), err);
    quern_inspector_free(inspector);
    return info;
}

static void must_edit(struct contract *c, const char *id, const quern_task_edit *edit)
{
    quern_error err = {0};
    assert_ok(edit_task(c, id, edit, &err), err);
}

static const quern_task_edit new_payload = {
    .payload = "a\0new", .payload_size = 5, .set_payload = 1};

static void payload_and_options_change_and_the_rest_stays(struct contract *c)
{
    const quern_header header = {.name = "user", .value = "ann"};
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .id = "a",
                                      .payload = "old",
                                      .payload_size = 3,
                                      .headers = &header,
                                      .header_count = 1,
                                      .delay_ms = MINUTE_MS + 7,
                                      .deadline_at_ms = CONTRACT_NOW_MS + 90 * MINUTE_MS + 1,
                                      .timeout_ms = 12345});
    quern_task_info *before = read_task(c, "a");
    quern_task_edit edit = new_payload;
    edit.retry_max = 3;
    edit.timeout_ms = 4321;
    edit.retention_ms = 99999;
    edit.deadline_at_ms = CONTRACT_NOW_MS + 80 * MINUTE_MS + 1;
    must_edit(c, "a", &edit);
    quern_task_info *after = read_task(c, "a");
    size_t size = 0;
    assert_memory_equal(quern_task_info_payload(after, &size), "a\0new", 5);
    assert_int_equal(size, 5);
    assert_int_equal(quern_task_info_retry_max(after), 3);
    assert_int_equal(quern_task_info_timeout_ms(after), 4321);
    assert_int_equal(quern_task_info_retention_ms(after), 99999);
    assert_int_equal(quern_task_info_due_at_ms(after), quern_task_info_due_at_ms(before));
    assert_int_equal(quern_task_info_deadline_at_ms(after), CONTRACT_NOW_MS + 80 * MINUTE_MS + 1);
    assert_int_equal(quern_task_info_enqueued_at_ms(after), quern_task_info_enqueued_at_ms(before));
    assert_string_equal(quern_task_info_headers(after)[0].value, "ann");
    quern_task_info_free(before);
    quern_task_info_free(after);
    contract_advance(c, MINUTE_MS + 7);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.payload_size, 5);
    assert_int_equal(run->task.timeout_ms, 4321);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_COMPLETED);
}

/* A second that is not whole is kept beside the message on Redis: it must not seem to be valid for
 * the next whole one. */
static void options_that_become_whole_seconds_are_so(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .id = "a",
                                      .timeout_ms = 500,
                                      .retention_ms = 500,
                                      .deadline_at_ms = CONTRACT_NOW_MS + MINUTE_MS - 500});
    must_edit(c, "a",
              &(quern_task_edit){.timeout_ms = 1000,
                                 .retention_ms = 1000,
                                 .deadline_at_ms = CONTRACT_NOW_MS + MINUTE_MS});
    quern_task_info *after = read_task(c, "a");
    assert_int_equal(quern_task_info_timeout_ms(after), 1000);
    assert_int_equal(quern_task_info_retention_ms(after), 1000);
    assert_int_equal(quern_task_info_deadline_at_ms(after), CONTRACT_NOW_MS + MINUTE_MS);
    quern_task_info_free(after);
    must_edit(c, "a",
              &(quern_task_edit){.timeout_ms = QUERN_TIMEOUT_NEVER,
                                 .retention_ms = QUERN_RETENTION_NONE,
                                 .retry_max = QUERN_RETRY_NEVER,
                                 .deadline_at_ms = QUERN_DEADLINE_NONE});
    after = read_task(c, "a");
    assert_int_equal(quern_task_info_timeout_ms(after), QUERN_TIMEOUT_NEVER);
    assert_int_equal(quern_task_info_retention_ms(after), 0);
    assert_int_equal(quern_task_info_deadline_at_ms(after), 0);
    assert_int_equal(quern_task_info_retry_max(after), QUERN_RETRY_NEVER);
    quern_task_info_free(after);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(contract_state(c, "default", "a"), 0);
}

static void backoff_and_limits_of_a_run_change(struct contract *c)
{
    contract_put(c, "default", "a");
    must_edit(c, "a",
              &(quern_task_edit){.kill_after_ms = 1500,
                                 .cpu_ms = 7000,
                                 .memory_max = 1 << 20,
                                 .set_retry = 1,
                                 .retry = QUERN_BACKOFF_FIXED(250)});
    quern_task_info *after = read_task(c, "a");
    assert_int_equal(quern_task_info_kill_after_ms(after), 1500);
    assert_int_equal(quern_task_info_cpu_ms(after), 7000);
    assert_int_equal(quern_task_info_memory_max(after), 1 << 20);
    assert_int_equal(quern_task_info_retry(after).base_ms, 250);
    quern_task_info_free(after);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.kill_after_ms, 1500);
    assert_int_equal(run->task.memory_max, 1 << 20);
    assert_int_equal(run->task.retry.base_ms, 250);
    contract_finish(c, run, QN_RETRY);
    must_edit(c, "a",
              &(quern_task_edit){.kill_after_ms = QUERN_RUN_LIMIT_NONE,
                                 .cpu_ms = QUERN_RUN_LIMIT_NONE,
                                 .memory_max = QUERN_RUN_LIMIT_NONE,
                                 .set_retry = 1});
    after = read_task(c, "a");
    assert_int_equal(quern_task_info_kill_after_ms(after), 0);
    assert_int_equal(quern_task_info_cpu_ms(after), 0);
    assert_int_equal(quern_task_info_memory_max(after), 0);
    assert_int_equal(quern_task_info_retry(after).kind, 0);
    quern_task_info_free(after);
}

static void priority_moves_a_task_before_the_others(struct contract *c)
{
    quern_error err = {0};
    const quern_task_edit edit = {.set_priority = 1, .priority = 5};
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    quern_status status = edit_task(c, "b", &edit, &err);
    if (status == QUERN_E_UNSUPPORTED) { /* but none is what it has */
        must_edit(c, "b", &(quern_task_edit){.set_priority = 1});
        return;
    }
    assert_ok(status, err);
    struct qn_leased *run = contract_take_id(c, "default", "b");
    assert_int_equal(run->task.priority, 5);
    contract_finish(c, run, QN_DONE);
}

static void moment_by_which_it_must_start_moves_along(struct contract *c)
{
    contract_enqueue(
        c, &(quern_task){
               .type = "t", .id = "a", .delay_ms = MINUTE_MS, .start_within_ms = 2 * MINUTE_MS});
    must_edit(c, "a", &(quern_task_edit){.delay_ms = 10 * MINUTE_MS});
    quern_task_info *after = read_task(c, "a");
    assert_int_equal(quern_task_info_start_by_at_ms(after),
                     qn_clock_wall_ms(&c->clock) + 12 * MINUTE_MS);
    quern_task_info_free(after);
}

static void pending_archived_and_grouped_tasks_get_a_payload(struct contract *c)
{
    contract_finish(c, contract_start(c, "archived"), QN_ARCHIVE);
    contract_put(c, "default", "pending");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "grouped", .group = "g"});
    static const char *const ids[] = {"archived", "pending", "grouped"};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        struct contract_view before = contract_inspect(c, "default", ids[i]);
        must_edit(c, ids[i], &new_payload);
        struct contract_view after = contract_inspect(c, "default", ids[i]);
        assert_int_equal(after.payload_size, 5);
        assert_int_equal(after.state, before.state);
        assert_int_equal(after.at_ms, before.at_ms);
        assert_string_equal(after.error, before.error);
    }
}

static void moment_of_a_scheduled_task_and_of_a_retry_moves(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = 10 * MINUTE_MS});
    contract_finish(c, contract_start(c, "b"), QN_RETRY);
    must_edit(c, "a", &(quern_task_edit){.delay_ms = 1500});
    must_edit(c, "b", &(quern_task_edit){.process_at_ms = CONTRACT_NOW_MS + 5 * MINUTE_MS});
    assert_int_equal(contract_inspect(c, "default", "a").at_ms, qn_clock_wall_ms(&c->clock) + 1500);
    assert_int_equal(contract_inspect(c, "default", "b").at_ms, CONTRACT_NOW_MS + 5 * MINUTE_MS);
    assert_int_equal(contract_inspect(c, "default", "b").retry_count, 1);
    contract_advance(c, 1499);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
    contract_advance(c, 1);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    contract_advance(c, 5 * MINUTE_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
}

static void states_that_do_not_wait_are_refused(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = contract_start(c, "active");
    contract_put(c, "default", "pending");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "done", .retention_ms = MINUTE_MS});
    assert_int_equal(edit_task(c, "active", &new_payload, &err), QUERN_E_STATE);
    assert_int_equal(edit_task(c, "pending", &(quern_task_edit){.delay_ms = 5}, &err),
                     QUERN_E_STATE);
    assert_int_equal(edit_task(c, "none", &new_payload, &err), QUERN_E_NOT_FOUND);
    contract_finish(c, run, QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "pending"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "done"), QN_DONE);
    assert_int_equal(edit_task(c, "done", &new_payload, &err), QUERN_E_STATE);
}

static void task_that_changed_since_it_was_seen_is_left_alone(struct contract *c)
{
    quern_error err = {0};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = MINUTE_MS});
    quern_task_info *seen = read_task(c, "a");
    quern_task_edit first = new_payload;
    quern_task_edit second = {.payload = "2", .payload_size = 1, .set_payload = 1, .seen = seen};
    first.seen = seen;
    must_edit(c, "a", &first);
    assert_int_equal(edit_task(c, "a", &second, &err), QUERN_E_CONFLICT);
    assert_int_equal(contract_inspect(c, "default", "a").payload_size, 5);
    quern_task_info_free(seen);
    seen = read_task(c, "a");
    contract_advance(c, MINUTE_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    second.seen = seen;
    assert_int_equal(edit_task(c, "a", &second, &err), QUERN_E_CONFLICT);
    quern_task_info_free(seen);
}

/* --- By a query --------------------------------------------------------------------------- */

static quern_matching edit_matching(struct contract *c, const char *match,
                                    const quern_task_edit *edit, bool dry_run)
{
    quern_error err = {0};
    quern_matching matching;
    const quern_search search = {.match = match, .dry_run = dry_run};
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ok(quern_inspector_edit_matching(inspector, edit, &search, &matching, &err), err);
    quern_inspector_free(inspector);
    return matching;
}

static void query_edits_each_task_once(struct contract *c)
{
    for (int i = 0; i < 700; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "a%03d", i);
        contract_enqueue(
            c,
            &(quern_task){.type = i % 7 == 0 ? "other" : "t", .id = id, .delay_ms = MINUTE_MS + i});
    }
    contract_finish(c, contract_start(c, "retry"), QN_RETRY);
    contract_put(c, "other", "pending");
    const quern_task_edit edit = {.delay_ms = 90 * MINUTE_MS};
    quern_matching would = edit_matching(c, "type = t", &edit, true);
    assert_int_equal(would.done, 601);
    assert_int_equal(would.refused, 1);
    assert_int_equal(contract_inspect(c, "default", "a001").at_ms,
                     qn_clock_wall_ms(&c->clock) + MINUTE_MS + 1);
    quern_matching done = edit_matching(c, "type = t", &edit, false);
    assert_memory_equal(&done, &would, sizeof done);
    assert_int_equal(contract_inspect(c, "default", "a001").at_ms,
                     qn_clock_wall_ms(&c->clock) + 90 * MINUTE_MS);
    assert_int_equal(contract_inspect(c, "default", "retry").at_ms,
                     qn_clock_wall_ms(&c->clock) + 90 * MINUTE_MS);
    assert_int_equal(contract_inspect(c, "default", "a007").at_ms,
                     qn_clock_wall_ms(&c->clock) + MINUTE_MS + 7);
    done = edit_matching(c, "id = a01*", &new_payload, false);
    assert_int_equal(done.done, 10);
    assert_int_equal(contract_inspect(c, "default", "a014").payload_size, 5);
    assert_int_equal(contract_inspect(c, "default", "a020").payload_size, 0);
}

/* What the search found may be something else by the time of its turn. */
static void found_task_that_changed_is_left_alone(struct contract *c)
{
    quern_error err = {0};
    struct qn_condition *condition = NULL;
    assert_ok(qn_condition_parse("payload = old", &condition, &err), err);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "c", .payload = "old", .payload_size = 3});
    contract_finish(c, contract_take_id(c, "default", "c"), QN_RETRY);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .payload = "new", .payload_size = 3});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b", .payload = "old", .payload_size = 3});
    const struct qn_edit_item items[] = {{.id = "a"}, {.id = "b"}, {.id = "c"}, {.id = "gone"}};
    const struct qn_edit_list list = {.edit = &new_payload,
                                      .queue = "default",
                                      .state = QUERN_TASK_PENDING,
                                      .items = items,
                                      .count = TEST_COUNT(items),
                                      .condition = condition};
    struct qn_edit_answer answers[TEST_COUNT(items)];
    assert_ok(qn_broker_edit(c->broker, &list, answers, &err), err);
    assert_int_equal(answers[0].result, QN_EDIT_CHANGED);
    assert_int_equal(answers[1].result, QN_EDIT_DONE);
    assert_int_equal(answers[2].result, QN_EDIT_CHANGED);
    assert_int_equal(answers[3].result, QN_EDIT_MISSING);
    assert_int_equal(contract_inspect(c, "default", "a").payload_size, 3);
    assert_int_equal(contract_inspect(c, "default", "b").payload_size, 5);
    qn_condition_free(condition);
}

/* --- Compare and set ---------------------------------------------------------------------- */

#define RIVAL_COUNT 3
#define STEP_COUNT 40

struct rival {
    pthread_t thread;
    quern_inspector *inspector;
    quern_status failure;
    int conflicts;
};

/* One more, unless another rival was faster. */
static quern_status add_one(struct rival *rival)
{
    size_t size = 0;
    char text[16] = "";
    quern_task_info *seen = NULL;
    quern_status status = quern_inspector_task(rival->inspector, "default", "sum", &seen, NULL);
    if (status != QUERN_OK) {
        return status;
    }
    const char *payload = quern_task_info_payload(seen, &size);
    int length = snprintf(text, sizeof text, "%ld", strtol(payload, NULL, 10) + 1);
    const quern_task_edit edit = {
        .payload = text, .payload_size = (size_t)length, .set_payload = 1, .seen = seen};
    status = quern_inspector_task_edit(rival->inspector, "default", "sum", &edit, NULL);
    quern_task_info_free(seen);
    return status;
}

static void *add_many(void *user)
{
    struct rival *rival = user;
    for (int done = 0; done < STEP_COUNT && rival->failure == QUERN_OK;) {
        quern_status status = add_one(rival);
        done += status == QUERN_OK;
        rival->conflicts += status == QUERN_E_CONFLICT;
        rival->failure = status == QUERN_E_CONFLICT ? QUERN_OK : status;
    }
    return NULL;
}

static void no_edit_of_several_programs_is_lost(struct contract *c)
{
    struct rival rivals[RIVAL_COUNT] = {0};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "sum", .payload = "0", .payload_size = 1});
    for (size_t i = 0; i < RIVAL_COUNT; i++) {
        rivals[i].inspector = contract_open_inspector(c);
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, add_many, &rivals[i]), 0);
    }
    for (size_t i = 0; i < RIVAL_COUNT; i++) {
        assert_int_equal(pthread_join(rivals[i].thread, NULL), 0);
        assert_int_equal(rivals[i].failure, QUERN_OK);
        quern_inspector_free(rivals[i].inspector);
    }
    size_t size = 0;
    quern_task_info *after = read_task(c, "sum");
    assert_string_equal(quern_task_info_payload(after, &size), "120");
    quern_task_info_free(after);
}

static void moment_that_changed_meanwhile_is_not_overwritten(struct contract *c)
{
    quern_error err = {0};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = MINUTE_MS});
    quern_task_info *seen = read_task(c, "a");
    must_edit(c, "a", &(quern_task_edit){.delay_ms = 5 * MINUTE_MS});
    const quern_task_edit late = {.delay_ms = 9 * MINUTE_MS, .seen = seen};
    assert_int_equal(edit_task(c, "a", &late, &err), QUERN_E_CONFLICT);
    assert_int_equal(contract_inspect(c, "default", "a").at_ms,
                     qn_clock_wall_ms(&c->clock) + 5 * MINUTE_MS);
    quern_task_info_free(seen);
}

/* --- The rest ----------------------------------------------------------------------------- */

static void lock_stays_that_of_the_first_payload(struct contract *c)
{
    quern_task unique = {.type = "u",
                         .id = "a",
                         .payload = "p",
                         .payload_size = 1,
                         .unique_ms = MINUTE_MS,
                         .delay_ms = MINUTE_MS};
    contract_enqueue(c, &unique);
    must_edit(c, "a", &new_payload);
    must_edit(c, "a", &(quern_task_edit){.delay_ms = 10 * MINUTE_MS});
    unique.id = "b";
    unique.delay_ms = 0;
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
    contract_advance(c, 10 * MINUTE_MS + 1000);
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void absurd_edits_are_refused(struct contract *c)
{
    static const quern_task_edit wrong[] = {
        {.set_retry = 2},       {.set_payload = 0},
        {.set_payload = 2},     {.set_payload = 1, .payload_size = 5},
        {.delay_ms = -1},       {.delay_ms = 1, .process_at_ms = 1},
        {.process_at_ms = -1},  {.retry_max = -2},
        {.timeout_ms = -2},     {.retention_ms = -2},
        {.deadline_at_ms = -2}, {.priority = 1},
        {.set_priority = 2},    {.set_priority = 1, .priority = 101},
        {.payload = "x"},       {.kill_after_ms = -2},
        {.memory_max = 5},      {.retry = QUERN_BACKOFF_FIXED(5)}};
    quern_error err = {0};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = MINUTE_MS});
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        assert_int_equal(edit_task(c, "a", &wrong[i], &err), QUERN_E_INVALID);
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(payload_and_options_change_and_the_rest_stays),
    CONTRACT_TEST(options_that_become_whole_seconds_are_so),
    CONTRACT_TEST(backoff_and_limits_of_a_run_change),
    CONTRACT_TEST(priority_moves_a_task_before_the_others),
    CONTRACT_TEST(moment_by_which_it_must_start_moves_along),
    CONTRACT_TEST(query_edits_each_task_once),
    CONTRACT_TEST(found_task_that_changed_is_left_alone),
    CONTRACT_TEST(no_edit_of_several_programs_is_lost),
    CONTRACT_TEST(moment_that_changed_meanwhile_is_not_overwritten),
    CONTRACT_TEST(pending_archived_and_grouped_tasks_get_a_payload),
    CONTRACT_TEST(moment_of_a_scheduled_task_and_of_a_retry_moves),
    CONTRACT_TEST(states_that_do_not_wait_are_refused),
    CONTRACT_TEST(task_that_changed_since_it_was_seen_is_left_alone),
    CONTRACT_TEST(lock_stays_that_of_the_first_payload),
    CONTRACT_TEST(absurd_edits_are_refused),
};

CONTRACT_MAIN(tests)
