/* SPDX-License-Identifier: MIT */
/* test_priority.c - priorities inside a queue, where a broker has them; refused where not. */
#include "lib_contract.h"

#include <string.h>

#include "quern/client.h"

static void put(struct contract *c, const char *id, int32_t priority)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = id, .priority = priority});
}

/* Takes all tasks one by one, each id is one letter, and finishes them. */
static void assert_order(struct contract *c, const char *letters)
{
    for (const char *letter = letters; *letter != '\0'; letter++) {
        const char id[] = {*letter, '\0'};
        contract_finish(c, contract_take_id(c, "default", id), QN_DONE);
    }
    assert_null(contract_take(c, "default"));
}

static void higher_ones_start_first_then_the_older(struct contract *c)
{
    if (!qn_broker_has_priorities(c->broker)) {
        return;
    }
    put(c, "a", 0);
    put(c, "b", 5);
    put(c, "c", -5);
    put(c, "d", 5);
    put(c, "e", 100);
    put(c, "f", -100);
    struct qn_leased *runs[3];
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    const char *const first[] = {"e", "b", "d"};
    const int32_t priorities[] = {100, 5, 5};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(runs[i]->task.id, first[i]);
        assert_int_equal(runs[i]->task.priority, priorities[i]);
        contract_finish(c, runs[i], QN_DONE);
    }
    put(c, "g", 1);
    assert_order(c, "gacf");
}

static void due_task_has_its_priority(struct contract *c)
{
    if (!qn_broker_has_priorities(c->broker)) {
        return;
    }
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .priority = -1, .delay_ms = 1000});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b", .priority = 3, .delay_ms = 1000});
    put(c, "c", 2);
    contract_finish(c, contract_take_id(c, "default", "c"), QN_RETRY);
    put(c, "d", 0);
    contract_advance(c, 10 * 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 3);
    assert_order(c, "bcda");
}

static void given_back_task_stays_before_lower_ones(struct contract *c)
{
    if (!qn_broker_has_priorities(c->broker)) {
        return;
    }
    put(c, "a", 5);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    put(c, "b", 5);
    put(c, "c", 6);
    put(c, "d", 0);
    contract_finish(c, run, QN_GIVE_BACK);
    contract_finish(c, contract_take_id(c, "default", "c"), QN_DONE);
    qn_leased_free(contract_take_id(c, "default", "a"));
    contract_expire(c, "default");
    assert_order(c, "abd");
}

static void run_by_hand_has_its_priority(struct contract *c)
{
    if (!qn_broker_has_priorities(c->broker)) {
        return;
    }
    quern_error err = {0};
    put(c, "a", 1);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_ARCHIVE);
    put(c, "b", 2);
    put(c, "c", 0);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "a", &err), err);
    assert_order(c, "bac");
}

/* Charged tasks are in an index of their own; they are merged by priority, too. */
static void charged_task_keeps_its_priority(struct contract *c)
{
    if (!qn_broker_has_priorities(c->broker)) {
        return;
    }
    put(c, "a", 5);
    put(c, "b", 7);
    put(c, "c", 0);
    contract_finish(c, contract_take_id(c, "default", "b"), QN_DONE);
    (void)contract_die(c, contract_take_id(c, "default", "a"));
    put(c, "d", 6);
    assert_order(c, "dac");
}

static void latency_is_that_of_the_oldest_whatever_its_priority(struct contract *c)
{
    if (!qn_broker_has_priorities(c->broker)) {
        return;
    }
    put(c, "a", -3);
    contract_advance(c, 5000);
    put(c, "b", 0);
    put(c, "c", 50);
    contract_advance(c, 1000);
    assert_int_equal(contract_queue(c, "default").latency_ms, 6000);
    contract_finish(c, contract_take_id(c, "default", "c"), QN_DONE);
    assert_int_equal(contract_queue(c, "default").latency_ms, 6000);
}

static void count_violations(const quern_finding *finding, void *user)
{
    size_t *count = user;
    *count += finding->severity == QUERN_SEVERITY_VIOLATED ? 1 : 0;
}

static void priority_is_shown_and_sound(struct contract *c)
{
    if (!qn_broker_has_priorities(c->broker)) {
        return;
    }
    quern_error err = {0};
    quern_task_list *list = NULL;
    quern_inspector *inspector = contract_open_inspector(c);
    put(c, "a", -100);
    put(c, "b", 100);
    put(c, "c", 0);
    assert_ok(quern_inspector_tasks(inspector, NULL, &list, &err), err);
    const char *const ids[] = {"b", "c", "a"};
    const int32_t priorities[] = {100, 0, -100};
    assert_int_equal(quern_task_list_size(list), 3);
    for (size_t i = 0; i < 3; i++) {
        const quern_task_info *info = quern_task_list_at(list, i);
        assert_string_equal(quern_task_info_id(info), ids[i]);
        assert_int_equal(quern_task_info_priority(info), priorities[i]);
    }
    quern_task_list_free(list);
    size_t violated = 0;
    assert_ok(quern_inspector_check(inspector, true, count_violations, &violated, &err), err);
    assert_int_equal(violated, 0);
    quern_inspector_free(inspector);
    put(c, "d", 0); /* the counter is as it was */
    assert_order(c, "bcda");
}

static void priority_is_refused_where_there_is_none(struct contract *c)
{
    quern_error err = {0};
    quern_client *client = NULL;
    quern_enqueue_result results[3];
    const quern_task tasks[3] = {{.type = "t"}, {.type = "t"}, {.type = "t", .priority = 1}};
    assert_ok(quern_client_open(c->url, NULL, &client, &err), err);
    assert_int_equal(quern_client_enqueue_batch(client, tasks, 3, results, &err),
                     QUERN_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "task 2: priority: redis has none"));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(results[i].status, QUERN_E_UNSUPPORTED);
    }
    assert_int_equal(quern_client_enqueue(client, &tasks[2], NULL, &err), QUERN_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "weights"));
    assert_int_equal(contract_queue(c, "default").size, 0);
    quern_client_free(client);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(higher_ones_start_first_then_the_older),
    CONTRACT_TEST(due_task_has_its_priority),
    CONTRACT_TEST(given_back_task_stays_before_lower_ones),
    CONTRACT_TEST(run_by_hand_has_its_priority),
    CONTRACT_TEST(charged_task_keeps_its_priority),
    CONTRACT_TEST(latency_is_that_of_the_oldest_whatever_its_priority),
    CONTRACT_TEST(priority_is_shown_and_sound),
    CONTRACT_TEST_ONLY("redis", priority_is_refused_where_there_is_none),
};
CONTRACT_MAIN(tests)
