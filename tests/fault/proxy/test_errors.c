/* SPDX-License-Identifier: MIT */
/* test_errors.c - every error with which a server can refuse, in place of every reply: each
 * operation of the broker returns the status that the error stands for, with its code in the text,
 * the next call works, and worker and client get over those errors that pass. */
#include "lib_proxy.h"
#include "lib_round.h"
#include "lib_store.h"
#include "lib_task.h"
#include "lib_worker.h"

#include <string.h>

#include "broker/edit/edit.h"
#include "broker/move/move.h"
#include "task/limits.h"

#define COMMANDS_MAX 40            /* of an operation; more would not end */
#define WRONG_RESULT QUERN_E_STATE /* no operation returns it */

struct error_row {
    const char *name; /* of proxy_errors */
    const char *code; /* in the text */
    quern_status status;
};

static const struct error_row errors[] = {
    {"LOADING", "LOADING", QUERN_E_BUSY},
    {"BUSY", "BUSY", QUERN_E_BUSY},
    {"READONLY", "READONLY", QUERN_E_BUSY},
    {"MASTERDOWN", "MASTERDOWN", QUERN_E_BUSY},
    {"CLUSTERDOWN", "CLUSTERDOWN", QUERN_E_BUSY},
    {"TRYAGAIN", "TRYAGAIN", QUERN_E_BUSY},
    {"NOREPLICAS", "NOREPLICAS", QUERN_E_BUSY},
    {"MAXCLIENTS", "max number of clients", QUERN_E_BUSY},
    {"OOM", "OOM", QUERN_E_FULL},
    {"MISCONF", "MISCONF", QUERN_E_FULL},
    {"NOAUTH", "NOAUTH", QUERN_E_DENIED},
    {"NOPERM", "NOPERM", QUERN_E_BROKER},
    {"UNKILLABLE", "UNKILLABLE", QUERN_E_BROKER},
};

/* --- Operations ----------------------------------------------------------------------- */

struct bench {
    struct proxy *proxy;
    struct qn_broker *broker;
    struct qn_leased *run; /* of the task "held"; NULL: none */
    uint64_t sequence;
};

static const char *const names[] = {"default"};
static const struct qn_upkeep upkeep = {{names, 1}, 100};

static quern_status enqueue_two(struct bench *bench, quern_error *err)
{
    struct qn_task tasks[2] = {test_task("a"), test_task("b")};
    quern_status results[2];
    const struct qn_enqueue enqueue = {{1, ++bench->sequence}, tasks, 2, results};
    return qn_broker_enqueue(bench->broker, &enqueue, err);
}

static quern_status exchange(struct bench *bench, uint32_t room, struct qn_leased **runs,
                             quern_error *err)
{
    const struct qn_outcome outcome = {.run = bench->run, .kind = QN_DONE};
    enum qn_applied applied[1];
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange request = {.stamp = {2, ++bench->sequence},
                                  .outcomes = &outcome,
                                  .outcome_count = bench->run == NULL ? 0 : 1,
                                  .worker_id = "w",
                                  .lease_ms = 600000,
                                  .queues = &share,
                                  .queue_count = 1,
                                  .room = room,
                                  .start_count_now = room};
    struct qn_exchange_reply reply = {.applied = applied, .runs = runs};
    quern_status status = qn_broker_exchange(bench->broker, &request, &reply, err);
    return status == QUERN_OK && reply.run_count != room ? WRONG_RESULT : status;
}

static quern_status end_and_lease(struct bench *bench, quern_error *err)
{
    struct qn_leased *run = NULL;
    quern_status status = exchange(bench, 1, &run, err);
    qn_leased_free(run);
    return status;
}

static quern_status extend(struct bench *bench, quern_error *err)
{
    struct qn_extension extension = {.run = bench->run};
    quern_status status = qn_broker_extend(bench->broker, &extension, 1, 600000, err);
    return status == QUERN_OK && !extension.held ? WRONG_RESULT : status;
}

static quern_status write_result(struct bench *bench, quern_error *err)
{
    return qn_broker_write_result(bench->broker, bench->run, (struct qn_bytes){"42", 2}, err);
}

static quern_status forward(struct bench *bench, quern_error *err)
{
    size_t moved = 0;
    int64_t due_at_ms = 0;
    return qn_broker_forward(bench->broker, upkeep, &moved, &due_at_ms, err);
}

static quern_status recover(struct bench *bench, quern_error *err)
{
    size_t count = 0;
    return qn_broker_recover(bench->broker, upkeep, NULL, &count, err);
}

static quern_status prune(struct bench *bench, quern_error *err)
{
    size_t count = 0;
    return qn_broker_prune(bench->broker, upkeep, &count, err);
}

static quern_status arm(struct bench *bench, quern_error *err)
{
    bool work = false;
    int64_t due_at_ms = 0;
    quern_status status = qn_broker_arm(bench->broker, upkeep.queues, &work, &due_at_ms, err);
    return status == QUERN_OK && !work ? WRONG_RESULT : status;
}

static quern_status heartbeat(struct bench *bench, quern_error *err)
{
    const struct qn_heartbeat beat = {.worker_id = "w",
                                      .owner = "",
                                      .host = "h",
                                      .status = "active",
                                      .queues = "default=1",
                                      .pid = 1};
    return qn_broker_heartbeat(bench->broker, &beat, err);
}

static quern_status drained(struct bench *bench, quern_error *err)
{
    bool yes = true;
    quern_status status =
        qn_broker_drained(bench->broker, upkeep.queues, QN_UNTIL_EMPTY, &yes, err);
    return status == QUERN_OK && yes ? WRONG_RESULT : status;
}

static quern_status pause_queue(struct bench *bench, quern_error *err)
{
    return qn_broker_pause(bench->broker, "default", true, err);
}

static quern_status archive(struct bench *bench, quern_error *err)
{
    return qn_broker_operate(bench->broker, QUERN_ACTION_ARCHIVE, "default", "next", err);
}

static quern_status archive_found(struct bench *bench, quern_error *err)
{
    static const struct qn_found found = {"next", ""};
    const struct qn_found_list list = {.action = QUERN_ACTION_ARCHIVE,
                                       .queue = "default",
                                       .state = QUERN_TASK_PENDING,
                                       .items = &found,
                                       .count = 1};
    size_t done = 0;
    quern_status status = qn_broker_search_act(bench->broker, &list, &done, err);
    return status == QUERN_OK && done != 1 ? WRONG_RESULT : status;
}

static quern_status edit(struct bench *bench, quern_error *err)
{
    static const struct qn_edit_item item = {.id = "next"};
    const struct qn_edit_list list = {.edit = &(quern_task_edit){.payload = "", .retry_max = 9},
                                      .queue = "default",
                                      .items = &item,
                                      .count = 1};
    struct qn_edit_answer answer = {0};
    quern_status status = qn_broker_edit(bench->broker, &list, &answer, err);
    return status == QUERN_OK && answer.result != QN_EDIT_DONE ? WRONG_RESULT : status;
}

static quern_status move(struct bench *bench, quern_error *err)
{
    static const struct qn_found item = {.id = "next"};
    const struct qn_move_list list = {
        .queue = "default", .to = "other", .items = &item, .count = 1};
    struct qn_move_answer answer = {0};
    quern_status status = qn_broker_move(bench->broker, &list, &answer, err);
    return status == QUERN_OK && answer.result != QN_MOVE_DONE ? WRONG_RESULT : status;
}

static quern_status deregister(struct bench *bench, quern_error *err)
{
    return qn_broker_deregister(bench->broker, "w", err);
}

static const struct operation {
    const char *name;
    quern_status (*run)(struct bench *bench, quern_error *err);
} operations[] = {
    {"enqueue", enqueue_two},
    {"exchange", end_and_lease},
    {"extend", extend},
    {"result", write_result},
    {"forward", forward},
    {"recover", recover},
    {"prune", prune},
    {"arm", arm},
    {"heartbeat", heartbeat},
    {"drained", drained},
    {"pause", pause_queue},
    {"archive", archive},
    {"deregister", deregister},
    {"search_act", archive_found},
    {"edit", edit},
    {"move", move},
};

/* --- The table ------------------------------------------------------------------------ */

/* The index-th request that is no greeting is refused, SIZE_MAX: none. */
static void refuse(const struct bench *bench, const struct error_row *row, size_t index)
{
    const struct proxy_rule rules[] = {{.to = "HELLO", .fault = PROXY_NOTHING},
                                       {.fault = index == SIZE_MAX ? PROXY_NOTHING : PROXY_ERROR,
                                        .error = row == NULL ? NULL : proxy_error_text(row->name),
                                        .skip = index == SIZE_MAX ? 0 : index,
                                        .count = 1}};
    proxy_rules(bench->proxy, rules, TEST_COUNT(rules));
}

/* An empty server with a run in progress, and a task behind it. */
static void prepare(struct bench *bench)
{
    struct qn_task tasks[2] = {test_task("held"), test_task("next")};
    quern_status results[2];
    quern_error err = {0};
    proxy_rules(bench->proxy, NULL, 0);
    test_redis_empty(test_store_server());
    const struct qn_enqueue enqueue = {{1, ++bench->sequence}, tasks, 2, results};
    assert_ok(qn_broker_enqueue(bench->broker, &enqueue, &err), err);
    assert_ok(heartbeat(bench, &err), err);
    qn_leased_free(bench->run);
    bench->run = NULL;
    struct qn_leased *run = NULL;
    assert_ok(exchange(bench, 1, &run, &err), err);
    bench->run = run;
}

/* An error may be passed over where the command is for comfort only. What was changed in part is
 * unknown until the request is repeated. */
static bool is_right(const struct error_row *row, quern_status status, const quern_error *err)
{
    return status == QUERN_OK || ((status == row->status || status == QUERN_E_UNKNOWN) &&
                                  strstr(err->text, row->code) != NULL);
}

/* Returns whether it had so many commands. */
static bool try_one(struct bench *bench, const struct operation *operation,
                    const struct error_row *row, size_t index)
{
    quern_error err = {0};
    prepare(bench);
    refuse(bench, row, index);
    quern_status status = operation->run(bench, &err);
    bool refused = proxy_matches(bench->proxy, 1) > index;
    if (!refused) {
        assert_ok(status, err);
        return false;
    }
    if (!is_right(row, status, &err)) {
        fail_msg("%s, command %zu, %s: %s \"%s\"", operation->name, index, row->name,
                 quern_status_name(status), err.text);
    }
    return true;
}

/* In the place of all replies: then nothing may look as if it had worked. */
static void try_all(struct bench *bench, const struct operation *operation,
                    const struct error_row *row)
{
    quern_error err = {0};
    prepare(bench);
    const struct proxy_rule rules[] = {
        {.to = "HELLO", .fault = PROXY_NOTHING},
        {.fault = PROXY_ERROR, .error = proxy_error_text(row->name)}};
    proxy_rules(bench->proxy, rules, TEST_COUNT(rules));
    quern_status status = operation->run(bench, &err);
    if (status != row->status || strstr(err.text, row->code) == NULL) {
        fail_msg("%s, all commands, %s: %s \"%s\"", operation->name, row->name,
                 quern_status_name(status), err.text);
    }
}

static void each_error_at_each_command_is_the_status_that_it_stands_for(void **state)
{
    (void)state;
    struct test_store store;
    quern_error err = {0};
    size_t count = 0;
    test_store_open(&store, 0);
    struct bench bench = {.proxy = proxy_start_for(test_store_server(), 1)};
    assert_ok(
        qn_broker_open(proxy_url(bench.proxy), &(struct qn_broker_options){0}, &bench.broker, &err),
        err);
    for (size_t i = 0; i < TEST_COUNT(operations); i++) {
        for (size_t k = 0; k < TEST_COUNT(errors); k++) {
            size_t index = 0;
            while (try_one(&bench, &operations[i], &errors[k], index)) {
                index++;
                assert_true(index < COMMANDS_MAX);
            }
            count += index;
            assert_true(index > 0);
            try_all(&bench, &operations[i], &errors[k]);
        }
    }
    print_message("%zu replies were replaced\n", count);
    proxy_rules(bench.proxy, NULL, 0);
    qn_leased_free(bench.run);
    qn_broker_close(bench.broker);
    proxy_stop(bench.proxy);
    test_store_close(&store);
}

/* Of the errors every third one, from one that the seed chooses; all in full. */
static size_t each_of(void)
{
    return test_full() ? 1 : 3;
}

static size_t first_of(uint64_t seed)
{
    return (size_t)(seed % each_of());
}

/* --- Every operation ------------------------------------------------------------------ */

/* Whatever it is, no operation crashes, hangs or takes it for an answer of another kind. */
static void each_error_in_the_place_of_any_reply_is_survived(void **state)
{
    (void)state;
    struct test_store store;
    quern_error err = {0};
    struct test_round round = {.worker_id = "w"};
    test_store_open(&store, 0);
    uint64_t seed = test_seed();
    struct proxy *proxy = proxy_start_for(test_store_server(), seed);
    const char *url = proxy_url(proxy);
    assert_ok(qn_broker_open(url, &(struct qn_broker_options){0}, &round.broker, &err), err);
    assert_ok(qn_broker_open(url, &(struct qn_broker_options){0}, &round.watcher, &err), err);
    for (size_t i = first_of(seed); i < proxy_error_count; i += each_of()) {
        const struct proxy_rule rule = {
            .fault = PROXY_ERROR, .error = proxy_errors[i].text, .skip = i};
        test_redis_empty(test_store_server());
        proxy_rules(proxy, NULL, 0);
        test_round(&round);
        proxy_rules(proxy, &rule, 1);
        test_round(&round);
        assert_null(round.strange);
    }
    qn_broker_close(round.watcher);
    qn_broker_close(round.broker);
    proxy_stop(proxy);
    test_store_close(&store);
}

/* --- Worker and client ---------------------------------------------------------------- */

static bool passes(const struct error_row *row)
{
    return row->status == QUERN_E_BUSY;
}

/* A worker outlives all of them: an operator may mend the server meanwhile. */
static void worker_and_client_get_over_each_error(void **state)
{
    (void)state;
    enum { COUNT = 20, REFUSED = 8 };
    for (size_t i = first_of(test_seed()); i < TEST_COUNT(errors); i += each_of()) {
        struct rig *rig = rig_new(false);
        struct proxy *proxy = proxy_start_for(test_store_server(), 1);
        struct rig_worker worker;
        quern_client *client = NULL;
        quern_error err = {0};
        const quern_task task = {.type = "t", .id = "more", .payload = "done", .payload_size = 4};
        const struct proxy_rule rules[] = {
            {.to = "HELLO", .fault = PROXY_NOTHING},
            {.by = "rest", .to = "SADD", .fault = PROXY_NOTHING},
            {.fault = PROXY_ERROR, .error = proxy_error_text(errors[i].name), .count = REFUSED}};
        rig->url = proxy_url(proxy);
        assert_ok(quern_client_open(rig->url, NULL, &client, &err), err);
        rig_start(rig, &worker, NULL);
        rig_put(rig, "first", "done");
        rig_wait_reports(rig, 1);
        proxy_rules(proxy, rules, TEST_COUNT(rules));
        rig_put_many(rig, NULL, "n", COUNT);
        quern_status status = quern_client_enqueue(client, &task, NULL, &err);
        bool stored = status == QUERN_OK;
        print_message("%s: enqueue: %s\n", errors[i].name, quern_status_name(status));
        assert_true(stored || (!passes(&errors[i]) && strstr(err.text, errors[i].code) != NULL));
        rig_wait_reports(rig, COUNT + (stored ? 2 : 1));
        rig_stop(&worker);
        assert_int_equal(rig->start_count, COUNT + (stored ? 2 : 1));
        quern_client_free(client);
        proxy_stop(proxy);
        rig_free(rig);
    }
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", each_error_at_each_command_is_the_status_that_it_stands_for),
    TEST_ONLY_OVER("redis", each_error_in_the_place_of_any_reply_is_survived),
    TEST_ONLY_OVER("redis", worker_and_client_get_over_each_error),
};
TEST_MAIN_OVER_BROKERS(tests)
