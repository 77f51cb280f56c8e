/* SPDX-License-Identifier: MIT */
/* lib_waiter.c - see lib_waiter.h. */
#include "lib_waiter.h"

static void *wait_long(void *user)
{
    struct test_waiter *waiter = user;
    waiter->status = quern_client_wait(waiter->client, waiter->id, TEST_PATIENCE_MS, &waiter->info,
                                       &waiter->err);
    return NULL;
}

void test_waiter_start(struct test_waiter *waiter, quern_client *client, const char *id)
{
    *waiter = (struct test_waiter){.client = client};
    (void)snprintf(waiter->id, sizeof waiter->id, "%s", id);
    assert_int_equal(pthread_create(&waiter->thread, NULL, wait_long, waiter), 0);
}

void test_waiter_join(struct test_waiter *waiter)
{
    assert_int_equal(pthread_join(waiter->thread, NULL), 0);
}

void test_waiter_assert(struct test_waiter *waiter, quern_task_state state)
{
    test_waiter_join(waiter);
    assert_ok(waiter->status, waiter->err);
    assert_string_equal(quern_task_info_id(waiter->info), waiter->id);
    assert_int_equal(quern_task_info_state(waiter->info), state);
    quern_task_info_free(waiter->info);
}
