/* SPDX-License-Identifier: MIT */
/* lib_waiter.h - a thread in quern_client_wait. */
#ifndef TESTS_LIB_WAITER_H
#define TESTS_LIB_WAITER_H

#include "lib_test.h"

#include <pthread.h>

#include "quern/client.h"

struct test_waiter {
    pthread_t thread;
    quern_client *client;
    char id[40];
    quern_status status; /* of the wait, as the next two; after join */
    quern_task_info *info;
    quern_error err;
};

/* It waits for the task as long as the patience lasts. */
void test_waiter_start(struct test_waiter *waiter, quern_client *client, const char *id);
void test_waiter_join(struct test_waiter *waiter);
/* Joins it; the wait must have returned its task in this state. */
void test_waiter_assert(struct test_waiter *waiter, quern_task_state state);

#endif
