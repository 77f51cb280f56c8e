/* SPDX-License-Identifier: MIT */
/* test_watch.c - notices of the end of a task, for clients that wait for it.
 *
 * A test watches, lets something happen through another broker object, as another process would,
 * and only then awaits: so the notice must be there already. At the end clients wait in threads. */
#include "lib_contract.h"
#include "lib_waiter.h"

#include <stdio.h>
#include <string.h>

#define BRIEFLY_MS 400 /* shorter than the second after which a client reads without a notice */
#define MINUTE_MS INT64_C(60000)
#define WAITER_COUNT 12

/* The broker object of a client, on which no thread arms or waits for work. */
static struct qn_broker *watch(struct contract *c, const char *id)
{
    struct qn_broker *broker = contract_open(c);
    quern_error err = {0};
    assert_ok(qn_broker_watch(broker, "default", id, &err), err);
    return broker;
}

static struct qn_notices await(struct qn_broker *broker, int64_t timeout_ms)
{
    struct qn_notices notices;
    quern_error err = {0};
    assert_ok(qn_broker_await(broker, timeout_ms, &notices, &err), err);
    return notices;
}

static bool names(const struct qn_notices *notices, const char *queue, const char *id)
{
    bool named = false;
    for (size_t i = 0; i < notices->count; i++) {
        named = named || notices->tasks[i] == qn_notices_task(queue, id);
    }
    return named;
}

/* The next one names this task of the queue "default", and not all tasks. */
static void assert_named(struct qn_broker *broker, const char *id)
{
    struct qn_notices notices = await(broker, BRIEFLY_MS);
    assert_true(names(&notices, "default", id));
    assert_false(notices.all);
}

static void assert_noticed(struct qn_broker *broker)
{
    assert_named(broker, "a");
    qn_broker_close(broker);
}

static void assert_nothing_comes(struct qn_broker *broker)
{
    struct qn_notices notices = await(broker, 20);
    assert_true(qn_notices_empty(&notices));
}

static void nothing_brings_no_notice(struct contract *c)
{
    contract_put(c, "default", "a");
    struct qn_broker *broker = watch(c, "a");
    assert_nothing_comes(broker);
    qn_broker_close(broker);
}

static void end_of_a_watched_task_is_noticed(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = MINUTE_MS});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    struct qn_broker *broker = watch(c, "a");
    contract_finish(c, run, QN_DONE);
    assert_noticed(broker);
}

static void end_of_a_task_without_retention_is_noticed(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    struct qn_broker *broker = watch(c, "a");
    contract_finish(c, run, QN_DONE);
    assert_noticed(broker);
}

static void archived_task_is_noticed(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    struct qn_broker *broker = watch(c, "a");
    contract_finish(c, run, QN_ARCHIVE);
    assert_noticed(broker);
}

static void action_of_an_operator_is_noticed(struct contract *c)
{
    static const quern_action actions[] = {QUERN_ACTION_ARCHIVE, QUERN_ACTION_DELETE};
    contract_put(c, "default", "a");
    for (size_t i = 0; i < TEST_COUNT(actions); i++) {
        quern_error err = {0};
        struct qn_broker *broker = watch(c, "a");
        assert_ok(qn_broker_operate(c->broker, actions[i], "default", "a", &err), err);
        assert_noticed(broker);
    }
}

static void removal_of_its_queue_is_noticed(struct contract *c)
{
    quern_error err = {0};
    contract_put(c, "default", "a");
    struct qn_broker *broker = watch(c, "a");
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    struct qn_notices notices = await(broker, BRIEFLY_MS);
    assert_true(notices.all || names(&notices, "default", "a"));
    qn_broker_close(broker);
}

static void each_watched_task_is_noticed_once(struct contract *c)
{
    struct qn_leased *first = contract_start(c, "first");
    struct qn_leased *second = contract_start(c, "second");
    quern_error err = {0};
    struct qn_broker *broker = watch(c, "first");
    assert_ok(qn_broker_watch(broker, "default", "second", &err), err);
    contract_finish(c, first, QN_ARCHIVE);
    assert_named(broker, "first");
    assert_nothing_comes(broker);
    contract_finish(c, second, QN_ARCHIVE);
    assert_named(broker, "second");
    qn_broker_close(broker);
}

static void batch_of_ends_names_each(struct contract *c)
{
    enum { COUNT = 40 };
    struct qn_leased *runs[COUNT];
    struct qn_outcome outcomes[COUNT];
    enum qn_applied applied[COUNT];
    struct qn_broker *broker = contract_open(c);
    quern_error err = {0};
    contract_put_many(c, "default", "t", COUNT);
    assert_int_equal(contract_lease(c, "default", COUNT, runs), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_ok(qn_broker_watch(broker, "default", runs[i]->task.id, &err), err);
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_DONE, .started = true};
    }
    contract_exchange(c, &(struct qn_exchange){.outcomes = outcomes, .outcome_count = COUNT},
                      applied, NULL);
    struct qn_notices all = {.count = 0};
    for (struct qn_notices some = await(broker, BRIEFLY_MS); !qn_notices_empty(&some);
         some = await(broker, 20)) {
        assert_false(some.all);
        for (size_t i = 0; i < some.count; i++) {
            qn_notices_add(&all, some.tasks[i]);
        }
    }
    assert_int_equal(all.count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(names(&all, "default", runs[i]->task.id));
        qn_leased_free(runs[i]);
    }
    qn_broker_close(broker);
}

static void task_archived_past_its_deadline_is_noticed(struct contract *c)
{
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "a", .deadline_at_ms = CONTRACT_NOW_MS + 1000});
    struct qn_broker *broker = watch(c, "a");
    contract_advance(c, 2000);
    assert_null(contract_take(c, "default"));
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    assert_noticed(broker);
}

/* One exchange archives more of them than a message has room for. */
static void one_of_many_archived_past_their_deadline_is_noticed(struct contract *c)
{
    enum { COUNT = QN_NOTICES_MAX + 100 };
    for (size_t i = 0; i < COUNT; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "t%zu", i);
        contract_enqueue(
            c, &(quern_task){.type = "t", .id = id, .deadline_at_ms = CONTRACT_NOW_MS + 1000});
    }
    struct qn_broker *broker = watch(c, "t355");
    contract_advance(c, 2000);
    assert_null(contract_take(c, "default"));
    assert_int_equal(contract_state(c, "default", "t355"), QUERN_TASK_ARCHIVED);
    struct qn_notices notices = await(broker, BRIEFLY_MS);
    assert_true(notices.all || names(&notices, "default", "t355"));
    qn_broker_close(broker);
}

static void task_without_attempts_after_a_death_is_noticed(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    qn_leased_free(contract_take_id(c, "default", "a"));
    struct qn_broker *broker = watch(c, "a");
    contract_expire(c, "default");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    assert_noticed(broker);
}

/* More messages than can wait to be received: 10 on many systems, 512 on others. */
static int too_many_messages(void)
{
    int limit = 0;
    FILE *file = fopen("/proc/sys/net/unix/max_dgram_qlen", "re");
    bool known = file != NULL && fscanf(file, "%d", &limit) == 1;
    if (file != NULL) {
        (void)fclose(file);
    }
    return known && limit < 600 ? limit + 20 : 600;
}

static void notice_that_finds_no_room_is_not_lost(struct contract *c)
{
    quern_error err = {0};
    char id[16];
    contract_put(c, "default", "a");
    struct qn_broker *broker = watch(c, "a");
    const int count = too_many_messages();
    contract_put_many(c, "default", "t", (size_t)count);
    for (int i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "t%04d", i);
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", id, &err), err);
    }
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_ARCHIVE, "default", "a", &err), err);
    struct qn_notices notices;
    do {
        notices = await(broker, BRIEFLY_MS);
        assert_false(qn_notices_empty(&notices));
    } while (!notices.all && !names(&notices, "default", "a"));
    qn_broker_close(broker);
}

/* Go makes queues with names that are longer than ours. */
static void end_in_a_queue_with_a_long_name_is_noticed(struct contract *c)
{
    char queue[QN_SERVED_NAME_SIZE_MAX + 1];
    struct qn_arena arena = {0};
    struct qn_task task = {0};
    struct test_waiter waiter;
    quern_client *client = NULL;
    quern_error err = {0};
    quern_status result = QUERN_OK;
    memset(queue, 'q', sizeof queue - 1);
    queue[sizeof queue - 1] = '\0';
    const struct qn_task_terms terms = contract_terms(c);
    const quern_task kept = {.type = "t", .id = "a", .retention_ms = MINUTE_MS};
    assert_ok(qn_task_prepare(&kept, &terms, &arena, &task, &err), err);
    task.queue = queue;
    const struct qn_enqueue enqueue = {(struct qn_stamp){71, 1}, &task, 1, &result};
    assert_ok(qn_broker_enqueue(c->broker, &enqueue, &err), err);
    qn_arena_finish(&arena);
    struct qn_leased *run = contract_take_id(c, queue, "a");
    struct qn_broker *broker = contract_open(c);
    assert_ok(qn_broker_watch(broker, queue, "a", &err), err);
    assert_ok(quern_client_open(c->url, NULL, &client, &err), err);
    quern_task_info *info = NULL;
    assert_int_equal(quern_client_wait(client, "a", BRIEFLY_MS, &info, &err), QUERN_E_TIMEOUT);
    test_waiter_start(&waiter, client, "a");
    contract_finish(c, run, QN_DONE);
    test_waiter_assert(&waiter, QUERN_TASK_COMPLETED);
    struct qn_notices notices = await(broker, BRIEFLY_MS);
    assert_true(names(&notices, queue, "a"));
    quern_client_free(client);
    qn_broker_close(broker);
}

/* --- Clients ------------------------------------------------------------------------- */

/* The first one leads the others, and ends first: another one has to take over. */
static void threads_that_wait_on_one_client_see_each_its_end(struct contract *c)
{
    struct test_waiter waiters[WAITER_COUNT];
    struct qn_leased *runs[WAITER_COUNT];
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(c->url, NULL, &client, &err), err);
    for (size_t i = 0; i < WAITER_COUNT; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "task-%zu", i);
        contract_enqueue(c, &(quern_task){.type = "t", .id = id, .retention_ms = MINUTE_MS});
        runs[i] = contract_take_id(c, "default", id);
        test_waiter_start(&waiters[i], client, id);
    }
    for (size_t i = 0; i < WAITER_COUNT; i++) {
        contract_finish(c, runs[i], QN_DONE);
        test_waiter_assert(&waiters[i], QUERN_TASK_COMPLETED);
    }
    quern_client_free(client);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(nothing_brings_no_notice),
    CONTRACT_TEST(end_of_a_watched_task_is_noticed),
    CONTRACT_TEST(end_of_a_task_without_retention_is_noticed),
    CONTRACT_TEST(archived_task_is_noticed),
    CONTRACT_TEST(action_of_an_operator_is_noticed),
    CONTRACT_TEST(removal_of_its_queue_is_noticed),
    CONTRACT_TEST(each_watched_task_is_noticed_once),
    CONTRACT_TEST(batch_of_ends_names_each),
    CONTRACT_TEST(task_archived_past_its_deadline_is_noticed),
    CONTRACT_TEST(one_of_many_archived_past_their_deadline_is_noticed),
    CONTRACT_TEST(task_without_attempts_after_a_death_is_noticed),
    CONTRACT_TEST(notice_that_finds_no_room_is_not_lost),
    CONTRACT_TEST_ONLY("redis", end_in_a_queue_with_a_long_name_is_noticed),
    CONTRACT_TEST(threads_that_wait_on_one_client_see_each_its_end),
};

CONTRACT_MAIN(tests)
