/* SPDX-License-Identifier: MIT */
/* test_wait.c - how often quern_client_wait reads its task. Hooks stand between the client and the
 * broker: they count the reads, and lose or invent notices. */
#include "lib_client.h"
#include "lib_waiter.h"

#include "broker/ops.h"

#define WAIT_MS 600

static struct {
    struct qn_broker_ops ops;
    const struct qn_broker_ops *real;
    _Atomic size_t reads;
    _Atomic size_t awaits;
    _Atomic int64_t await_ms_max;
} hooks;

static quern_status count_reads(struct qn_broker *broker, const quern_task_filter *filter,
                                bool (*on_task)(const quern_task_info *info, void *user),
                                void *user, quern_error *err)
{
    atomic_fetch_add(&hooks.reads, 1);
    return hooks.real->tasks(broker, filter, on_task, user, err);
}

/* No notice ever comes. To sleep for more than a second is a failure. */
static quern_status lose_notices(struct qn_broker *broker, int64_t timeout_ms,
                                 struct qn_notices *ret_notices, quern_error *err)
{
    (void)broker;
    (void)ret_notices;
    (void)err;
    atomic_fetch_add(&hooks.awaits, 1);
    if (timeout_ms > atomic_load(&hooks.await_ms_max)) {
        atomic_store(&hooks.await_ms_max, timeout_ms);
    }
    test_pause_ms(timeout_ms < WAIT_MS ? (int)timeout_ms : WAIT_MS);
    return timeout_ms > 1000 ? QUERN_E_CONNECT : QUERN_OK;
}

static quern_status invent_notices(struct qn_broker *broker, int64_t timeout_ms,
                                   struct qn_notices *ret_notices, quern_error *err)
{
    (void)broker;
    (void)timeout_ms;
    (void)err;
    atomic_fetch_add(&hooks.awaits, 1);
    ret_notices->all = true;
    return QUERN_OK;
}

static void hook(struct client_test *t, qn_await_fn *await)
{
    hooks.real = t->client->broker->ops;
    hooks.ops = *hooks.real;
    hooks.ops.tasks = count_reads;
    hooks.ops.await = await;
    t->client->broker->ops = &hooks.ops;
    atomic_store(&hooks.reads, 0);
    atomic_store(&hooks.awaits, 0);
    atomic_store(&hooks.await_ms_max, 0);
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &(quern_task){.type = "t", .id = "a"}, NULL, &err),
              err);
}

static bool awaits(void *user)
{
    (void)user;
    return atomic_load(&hooks.awaits) > 0;
}

static void end_without_a_notice_is_found_by_the_read_each_second(void **state)
{
    struct client_test *t = *state;
    struct test_waiter waiter;
    quern_error err = {0};
    hook(t, lose_notices);
    test_waiter_start(&waiter, t->client, "a");
    assert_true(test_until(awaits, NULL));
    assert_ok(qn_broker_operate(t->client->broker, QUERN_ACTION_ARCHIVE, NULL, "a", &err), err);
    test_waiter_assert(&waiter, QUERN_TASK_ARCHIVED);
    assert_in_range(atomic_load(&hooks.await_ms_max), 1, 1000);
}

/* Eight at once, then ten a second; and two before the first notice, and one at the end. */
static void notices_without_end_bring_few_reads(void **state)
{
    struct client_test *t = *state;
    quern_task_info *info = NULL;
    quern_error err = {0};
    hook(t, invent_notices);
    int64_t began_ms = test_now_ms();
    assert_int_equal(quern_client_wait(t->client, "a", WAIT_MS, &info, &err), QUERN_E_TIMEOUT);
    size_t waited_ms = (size_t)(test_now_ms() - began_ms);
    assert_in_range(atomic_load(&hooks.reads), 8, 8 + waited_ms / 100 + 4);
}

static const struct CMUnitTest tests[] = {
    CLIENT_TEST(end_without_a_notice_is_found_by_the_read_each_second),
    CLIENT_TEST(notices_without_end_bring_few_reads),
};
TEST_MAIN(tests)
