/* SPDX-License-Identifier: MIT */
/* test_trash.c - the trash of a queue: what is deleted into it comes back as it was, once, within a
 * day, and unless an enqueue would refuse it. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "broker/trash/trash.h"
#include "lib_contract.h"
#include "quern/search.h"

#define MINUTE_MS INT64_C(60000)
#define DAY_MS (24 * 60 * MINUTE_MS)

static quern_status act_error(struct contract *c, quern_action action, const char *id,
                              quern_error *err)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_status status = quern_inspector_act(inspector, action, NULL, id, err);
    quern_inspector_free(inspector);
    return status;
}

static quern_status act(struct contract *c, quern_action action, const char *id)
{
    quern_error err = {0};
    return act_error(c, action, id, &err);
}

static quern_matching act_all(struct contract *c, quern_action action, const char *match,
                              bool in_trash)
{
    quern_error err = {0};
    quern_matching counted;
    quern_matching result;
    quern_inspector *inspector = contract_open_inspector(c);
    const quern_search search = {.match = match, .in_trash = in_trash};
    assert_ok(quern_inspector_count_matching(inspector, action, &search, &counted, &err), err);
    assert_ok(quern_inspector_act_matching(inspector, action, &search, &result, &err), err);
    assert_int_equal(result.matched, result.done + result.changed + result.refused);
    assert_int_equal(counted.matched, result.matched);
    assert_int_equal(counted.done, result.done + result.changed);
    quern_inspector_free(inspector);
    return result;
}

/* The trash of both queues. */
static quern_task_list *list_trash(struct contract *c, const char *match)
{
    quern_error err = {0};
    quern_task_list *list = NULL;
    quern_inspector *inspector = contract_open_inspector(c);
    const quern_search search = {.match = match, .in_trash = 1, .limit = 10000};
    assert_ok(quern_inspector_search(inspector, &search, &list, &err), err);
    quern_inspector_free(inspector);
    return list;
}

static size_t count_trash(struct contract *c, const char *match)
{
    quern_task_list *list = list_trash(c, match);
    size_t count = quern_task_list_size(list);
    quern_task_list_free(list);
    return count;
}

static struct qn_trash_use use_of(struct contract *c, const char *queue)
{
    quern_error err = {0};
    struct qn_trash_use use;
    assert_ok(qn_broker_trash_use(c->broker, queue, &use, &err), err);
    return use;
}

/* --- What comes back ---------------------------------------------------------------------- */

static const quern_header header = {.name = "user", .value = "ann"};

/* A task in each state but active, named like it, with everything that a task may have. */
static void make_all_states(struct contract *c)
{
    static const char *const ids[] = {"retry",   "archived",  "completed",
                                      "pending", "scheduled", "aggregating"};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        contract_enqueue(c, &(quern_task){.type = "mail:a",
                                          .id = ids[i],
                                          .payload = "a\0b",
                                          .payload_size = 3,
                                          .headers = &header,
                                          .header_count = 1,
                                          .retry_max = 7,
                                          .timeout_ms = 12345,
                                          .retention_ms = 2 * DAY_MS,
                                          .delay_ms = i == 4 ? MINUTE_MS + 7 : 0,
                                          .group = i == 5 ? "g" : NULL});
        if (i < 3) {
            static const enum qn_outcome_kind kinds[] = {QN_RETRY, QN_ARCHIVE, QN_DONE};
            contract_finish(c, contract_take_id(c, "default", ids[i]), kinds[i]);
        }
        contract_advance(c, 7);
    }
}

static void assert_same(const struct contract_view *before, const struct contract_view *after)
{
    assert_int_equal(after->state, before->state);
    assert_string_equal(after->type, before->type);
    assert_string_equal(after->error, before->error);
    assert_int_equal(after->payload_size, before->payload_size);
    assert_int_equal(after->retry_count, before->retry_count);
    assert_int_equal(after->crash_count, before->crash_count);
    assert_int_equal(after->failed_at_ms, before->failed_at_ms);
    assert_int_equal(after->at_ms, before->at_ms);
    assert_int_equal(after->enqueued_at_ms, before->enqueued_at_ms);
    assert_int_equal(after->completed_at_ms, before->completed_at_ms);
    assert_int_equal(after->cause, before->cause);
}

static void deleted_task_comes_back_as_it_was_from_each_state(struct contract *c)
{
    static const char *const ids[] = {"retry",   "archived",  "completed",
                                      "pending", "scheduled", "aggregating"};
    struct contract_view before[TEST_COUNT(ids)];
    make_all_states(c);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        before[i] = contract_inspect(c, "default", ids[i]);
        assert_int_equal(act(c, QUERN_ACTION_TRASH, ids[i]), QUERN_OK);
        assert_int_equal(contract_state(c, "default", ids[i]), 0);
        assert_int_equal(act(c, QUERN_ACTION_TRASH, ids[i]), QUERN_E_NOT_FOUND);
    }
    assert_int_equal(contract_queue(c, "default").size, 0);
    assert_int_equal(use_of(c, "default").count, TEST_COUNT(ids));
    quern_task_list *list = list_trash(c, "type = mail:* and header.user = ann");
    assert_int_equal(quern_task_list_size(list), TEST_COUNT(ids));
    const quern_task_info *last = quern_task_list_at(list, 0);
    assert_int_equal(quern_task_info_deleted_at_ms(last), qn_clock_wall_ms(&c->clock));
    assert_int_equal(quern_task_info_timeout_ms(last), 12345);
    assert_int_equal(quern_task_info_retry_max(last), 7);
    assert_string_equal(quern_task_info_queue(last), "default");
    quern_task_list_free(list);
    contract_advance(c, 1000);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_int_equal(act(c, QUERN_ACTION_RESTORE, ids[i]), QUERN_OK);
        struct contract_view after = contract_inspect(c, "default", ids[i]);
        assert_same(&before[i], &after);
        assert_int_equal(act(c, QUERN_ACTION_RESTORE, ids[i]), QUERN_E_NOT_FOUND);
    }
    assert_int_equal(use_of(c, "default").count, 0);
    assert_int_equal(use_of(c, "default").bytes, 0);
    contract_finish(c, contract_take_id(c, "default", "pending"), QN_DROP);
    contract_advance(c, MINUTE_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 2);
    assert_int_equal(contract_state(c, "default", "retry"), QUERN_TASK_PENDING);
}

static void active_task_is_not_deleted(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a"), QUERN_E_STATE);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(count_trash(c, NULL), 0);
}

static void restored_task_with_a_limit_key_runs(struct contract *c)
{
    contract_need_limits(c);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .limit_key = "k"});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b"});
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a"), QUERN_OK);
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "b"), QUERN_OK);
    contract_limit(c, "default", QUERN_LIMIT_TYPE, "t", "2");
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a"), QUERN_OK);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "b"), QUERN_OK);
    struct qn_leased *runs[4];
    assert_int_equal(contract_lease(c, "default", 4, runs), 2);
    contract_finish(c, runs[0], QN_DONE);
    contract_finish(c, runs[1], QN_DONE);
}

/* --- What an enqueue would refuse --------------------------------------------------------- */

static const quern_task unique = {
    .type = "u", .id = "a", .payload = "p", .payload_size = 1, .unique_ms = 60 * MINUTE_MS};

static void lock_is_free_in_the_trash_and_taken_again(struct contract *c)
{
    quern_task second = unique;
    quern_error err = {0};
    second.id = "b";
    contract_enqueue(c, &unique);
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a"), QUERN_OK);
    contract_enqueue(c, &second);
    assert_int_equal(act_error(c, QUERN_ACTION_RESTORE, "a", &err), QUERN_E_STATE);
    assert_non_null(strstr(err.text, "lock"));
    assert_int_equal(act_all(c, QUERN_ACTION_RESTORE, "id = a", true).refused, 1);
    assert_int_equal(act(c, QUERN_ACTION_DELETE, "b"), QUERN_OK);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a"), QUERN_OK);
    assert_int_equal(contract_try(c, &second), QUERN_E_DUPLICATE);
    contract_advance(c, 61 * MINUTE_MS);
    assert_int_equal(contract_try(c, &second), QUERN_OK);
}

static void two_tasks_that_had_one_lock_do_not_both_come_back(struct contract *c)
{
    quern_task second = unique;
    second.id = "b";
    contract_enqueue(c, &unique);
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a"), QUERN_OK);
    contract_enqueue(c, &second);
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "b"), QUERN_OK);
    quern_matching result = act_all(c, QUERN_ACTION_DELETE, "id = none", true);
    assert_int_equal(result.matched, 0);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    const quern_search search = {.in_trash = 1};
    assert_ok(quern_inspector_act_matching(inspector, QUERN_ACTION_RESTORE, &search, &result, &err),
              err);
    quern_inspector_free(inspector);
    assert_int_equal(result.done, 1);
    assert_int_equal(result.refused, 1);
    assert_int_equal(count_trash(c, NULL), 1);
}

static void id_that_exists_is_refused_and_a_later_task_takes_its_place(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "first", .id = "a"});
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a"), QUERN_OK);
    contract_enqueue(c, &(quern_task){.type = "second", .id = "a"});
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a"), QUERN_E_STATE);
    assert_string_equal(contract_inspect(c, "default", "a").type, "second");
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a"), QUERN_OK);
    assert_int_equal(use_of(c, "default").count, 1);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a"), QUERN_OK);
    assert_string_equal(contract_inspect(c, "default", "a").type, "second");
}

static void id_in_two_queues_needs_the_queue(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_put(c, "other", "a");
    assert_int_equal(act_all(c, QUERN_ACTION_TRASH, "id = a", false).done, 2);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a"), QUERN_E_STATE);
    assert_int_equal(act_all(c, QUERN_ACTION_RESTORE, "queue = other", true).done, 1);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_PENDING);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a"), QUERN_OK);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
}

/* --- Many ----------------------------------------------------------------------------------- */

static void many_tasks_go_and_come_back_once(struct contract *c)
{
    contract_put_many(c, "default", "a", 1200);
    contract_put_many(c, "other", "b", 130);
    assert_int_equal(act_all(c, QUERN_ACTION_TRASH, "id ~ a or id = b00*", false).done, 1300);
    assert_int_equal(count_trash(c, NULL), 1300);
    assert_int_equal(act_all(c, QUERN_ACTION_RESTORE, "id = a0??0", true).done, 100);
    assert_int_equal(act_all(c, QUERN_ACTION_DELETE, "id = a0??1", true).done, 100);
    quern_matching result = act_all(c, QUERN_ACTION_RESTORE, NULL, true);
    assert_int_equal(result.done, 1100);
    assert_int_equal(result.refused, 0);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1100);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_PENDING), 130);
    assert_int_equal(use_of(c, "default").count + use_of(c, "default").bytes, 0);
    assert_int_equal(act_all(c, QUERN_ACTION_RESTORE, NULL, true).matched, 0);
}

static void pending_tasks_come_back_in_their_order(struct contract *c)
{
    struct qn_leased *runs[5];
    contract_put_many(c, "default", "a", 4);
    contract_put(c, "default", "a much longer id");
    assert_int_equal(act_all(c, QUERN_ACTION_TRASH, NULL, false).done, 5);
    assert_int_equal(act_all(c, QUERN_ACTION_RESTORE, NULL, true).done, 5);
    assert_int_equal(contract_lease(c, "default", 5, runs), 5);
    for (size_t i = 0; i < 5; i++) {
        static const char *const ids[] = {"a0000", "a0001", "a0002", "a0003", "a much longer id"};
        assert_string_equal(runs[i]->task.id, ids[i]);
        qn_leased_free(runs[i]);
    }
}

/* --- Its bounds ----------------------------------------------------------------------------- */

static size_t prune(struct contract *c)
{
    const char *queue = "default";
    size_t removed = 0;
    quern_error err = {0};
    assert_ok(qn_broker_prune(c->broker, (struct qn_upkeep){{&queue, 1}, 1000}, &removed, &err),
              err);
    return removed;
}

static void trash_is_gone_after_a_day(struct contract *c)
{
    contract_put_many(c, "default", "a", 30);
    assert_int_equal(act_all(c, QUERN_ACTION_TRASH, NULL, false).done, 30);
    (void)prune(c);
    contract_advance(c, DAY_MS - 1000);
    contract_put(c, "default", "later");
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "later"), QUERN_OK);
    (void)prune(c);
    assert_int_equal(count_trash(c, NULL), 31);
    contract_advance(c, 1001);
    assert_int_equal(count_trash(c, NULL), 1);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a0001"), QUERN_E_NOT_FOUND);
    (void)prune(c);
    assert_int_equal(use_of(c, "default").count, 1);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "later"), QUERN_OK);
    contract_put(c, "default", "a0001");
}

static void janitor_removes_what_is_over(struct contract *c)
{
    contract_put_many(c, "default", "a", 30);
    assert_int_equal(act_all(c, QUERN_ACTION_TRASH, NULL, false).done, 30);
    contract_advance(c, 2 * DAY_MS);
    while (prune(c) > 0) {
    }
    assert_int_equal(use_of(c, "default").count, 0);
    assert_int_equal(use_of(c, "default").bytes, 0);
}

/* As if so many bytes were in the trash of "default". False: not for this broker. */
static bool plant_bytes(struct contract *c, long long bytes)
{
    if (test_store_is(&c->store, "redis")) {
        (void)test_redis_do(test_store_server(), "SET asynq:{default}:quern:trash_bytes %lld",
                            bytes);
        return true;
    }
    if (!test_store_is(&c->store, "sqlite")) {
        return false;
    }
    char path[TEST_DIR_SIZE + 16];
    sqlite3 *db = NULL;
    (void)snprintf(path, sizeof path, "%s/tasks.db", c->store.dir);
    char *sql = sqlite3_mprintf("UPDATE quern_queue SET trash_bytes = %lld", bytes);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    sqlite3_free(sql);
    return true;
}

static void full_trash_refuses_and_changes_nothing(struct contract *c)
{
    quern_error err = {0};
    quern_matching result;
    contract_put_many(c, "default", "a", 12);
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a0000"), QUERN_OK);
    if (!plant_bytes(c, QN_TRASH_BYTES_MAX - QN_TRASH_TASK_BYTES)) {
        skip();
    }
    quern_inspector *inspector = contract_open_inspector(c);
    const quern_search all = {.match = NULL};
    assert_int_equal(
        quern_inspector_act_matching(inspector, QUERN_ACTION_TRASH, &all, &result, &err),
        QUERN_E_STATE);
    assert_int_equal(result.done, 0);
    quern_inspector_free(inspector);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 11);
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a0001"), QUERN_OK);
    assert_int_equal(act_error(c, QUERN_ACTION_TRASH, "a0002", &err), QUERN_E_STATE);
    assert_non_null(strstr(err.text, "the trash of queue default is full: 2 tasks"));
    assert_int_equal(contract_state(c, "default", "a0002"), QUERN_TASK_PENDING);
    assert_int_equal(act_all(c, QUERN_ACTION_DELETE, NULL, true).done, 2);
    assert_int_equal(use_of(c, "default").bytes, 0);
    assert_int_equal(act(c, QUERN_ACTION_TRASH, "a0002"), QUERN_OK);
}

static void removed_queue_takes_its_trash_along(struct contract *c)
{
    quern_error err = {0};
    contract_put_many(c, "default", "a", 700);
    assert_int_equal(act_all(c, QUERN_ACTION_TRASH, NULL, false).done, 700);
    assert_ok(qn_broker_remove_queue(c->broker, "default", false, &err), err);
    contract_put(c, "default", "b");
    assert_int_equal(count_trash(c, NULL), 0);
    assert_int_equal(act(c, QUERN_ACTION_RESTORE, "a0001"), QUERN_E_NOT_FOUND);
    assert_int_equal(use_of(c, "default").count, 0);
}

static void note_finding(const quern_finding *finding, void *user)
{
    size_t *count = user;
    *count += finding->severity == QUERN_SEVERITY_VIOLATED;
}

static void doctor_finds_nothing_wrong_with_trash(struct contract *c)
{
    quern_error err = {0};
    size_t violations = 0;
    make_all_states(c);
    contract_enqueue(c, &unique);
    assert_int_equal(act_all(c, QUERN_ACTION_TRASH, NULL, false).done, 7);
    assert_ok(qn_broker_doctor(c->broker, false, note_finding, &violations, &err), err);
    assert_int_equal(violations, 0);
    assert_int_equal(act_all(c, QUERN_ACTION_RESTORE, NULL, true).done, 7);
    assert_ok(qn_broker_doctor(c->broker, false, note_finding, &violations, &err), err);
    assert_int_equal(violations, 0);
}

static void wrong_actions_are_refused(struct contract *c)
{
    quern_error err = {0};
    quern_matching result;
    quern_inspector *inspector = contract_open_inspector(c);
    const quern_search trash = {.in_trash = 1};
    const quern_search tasks = {.match = NULL};
    const quern_search state = {.in_trash = 1, .state = QUERN_TASK_RETRY};
    const quern_search odd = {.in_trash = 2};
    assert_int_equal(
        quern_inspector_act_matching(inspector, QUERN_ACTION_RUN, &trash, &result, &err),
        QUERN_E_INVALID);
    assert_int_equal(
        quern_inspector_act_matching(inspector, QUERN_ACTION_RESTORE, &tasks, &result, &err),
        QUERN_E_INVALID);
    assert_int_equal(
        quern_inspector_act_matching(inspector, QUERN_ACTION_RESTORE, &state, &result, &err),
        QUERN_E_INVALID);
    assert_int_equal(
        quern_inspector_act_matching(inspector, QUERN_ACTION_RESTORE, &odd, &result, &err),
        QUERN_E_INVALID);
    assert_int_equal(quern_inspector_act(inspector, QUERN_ACTION_RESTORE, "none", "a", &err),
                     QUERN_E_NOT_FOUND);
    quern_inspector_free(inspector);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(deleted_task_comes_back_as_it_was_from_each_state),
    CONTRACT_TEST(active_task_is_not_deleted),
    CONTRACT_TEST(restored_task_with_a_limit_key_runs),
    CONTRACT_TEST(lock_is_free_in_the_trash_and_taken_again),
    CONTRACT_TEST(two_tasks_that_had_one_lock_do_not_both_come_back),
    CONTRACT_TEST(id_that_exists_is_refused_and_a_later_task_takes_its_place),
    CONTRACT_TEST(id_in_two_queues_needs_the_queue),
    CONTRACT_TEST(many_tasks_go_and_come_back_once),
    CONTRACT_TEST(pending_tasks_come_back_in_their_order),
    CONTRACT_TEST(trash_is_gone_after_a_day),
    CONTRACT_TEST(janitor_removes_what_is_over),
    CONTRACT_TEST(full_trash_refuses_and_changes_nothing),
    CONTRACT_TEST(removed_queue_takes_its_trash_along),
    CONTRACT_TEST(doctor_finds_nothing_wrong_with_trash),
    CONTRACT_TEST(wrong_actions_are_refused),
};

CONTRACT_MAIN(tests)
