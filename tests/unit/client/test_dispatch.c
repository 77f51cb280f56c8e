/* SPDX-License-Identifier: MIT */
/* test_dispatch.c - which threads a notice wakes, over a broker whose notices the test makes. */
#include "lib_test.h"

#include <pthread.h>
#include <unistd.h>

#include "base/cond.h"
#include "broker/ops.h"
#include "client/dispatch.h"

#define THREAD_COUNT 20
#define ALL_TASKS UINT64_MAX

/* The broker: one notice at a time, until it is taken. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t change;
    uint64_t posted; /* 0: none */
    size_t failures; /* the next awaits fail */
} source;

static quern_status await_posted(struct qn_broker *broker, int64_t timeout_ms,
                                 struct qn_notices *ret_notices, quern_error *err)
{
    (void)broker;
    (void)err;
    int64_t until_ns = qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS;
    pthread_mutex_lock(&source.mutex);
    while (source.posted == 0 && source.failures == 0 &&
           qn_cond_wait_until(&source.change, &source.mutex, until_ns)) {
    }
    quern_status status = source.failures > 0 ? QUERN_E_CONNECT : QUERN_OK;
    source.failures -= status != QUERN_OK ? 1 : 0;
    ret_notices->all = source.posted == ALL_TASKS;
    if (source.posted != 0 && source.posted != ALL_TASKS) {
        qn_notices_add(ret_notices, source.posted);
    }
    source.posted = 0;
    pthread_cond_broadcast(&source.change);
    pthread_mutex_unlock(&source.mutex);
    return status;
}

static void post(uint64_t task)
{
    pthread_mutex_lock(&source.mutex);
    source.posted = task;
    pthread_cond_broadcast(&source.change);
    while (source.posted != 0) {
        pthread_cond_wait(&source.change, &source.mutex);
    }
    pthread_mutex_unlock(&source.mutex);
}

struct dispatched {
    struct qn_dispatch dispatch;
    struct qn_broker_ops ops;
    struct qn_broker broker;
    struct {
        pthread_t thread;
        struct dispatched *home;
        struct qn_waiting waiting;
        bool noticed;
    } threads[THREAD_COUNT];
};

static void *wait_once(void *user)
{
    struct dispatched *self = *(struct dispatched **)user;
    size_t i = 0;
    while (&self->threads[i].home != user) {
        i++;
    }
    int64_t until_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    self->threads[i].noticed =
        qn_dispatch_await(&self->dispatch, &self->threads[i].waiting, &self->broker, until_ns);
    return NULL;
}

/* Each waits for the task of its number, from 1; those with the same remainder by `tasks` for the
 * same one. */
static void start(struct dispatched *self, size_t tasks)
{
    source.posted = 0;
    source.failures = 0;
    (void)pthread_mutex_init(&source.mutex, NULL);
    qn_cond_init(&source.change);
    self->ops = (struct qn_broker_ops){.await = await_posted};
    self->broker = (struct qn_broker){.ops = &self->ops, .opener_pid = getpid()};
    qn_dispatch_init(&self->dispatch);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        self->threads[i].home = self;
        qn_dispatch_join(&self->dispatch, &self->threads[i].waiting, 1 + i % tasks);
        assert_int_equal(
            pthread_create(&self->threads[i].thread, NULL, wait_once, &self->threads[i].home), 0);
    }
}

static void assert_noticed(struct dispatched *self, size_t i)
{
    assert_int_equal(pthread_join(self->threads[i].thread, NULL), 0);
    assert_true(self->threads[i].noticed);
    qn_dispatch_leave(&self->dispatch, &self->threads[i].waiting);
}

static bool is_noticed(struct dispatched *self, size_t i)
{
    pthread_mutex_lock(&self->dispatch.mutex);
    bool noticed = self->threads[i].waiting.noticed;
    pthread_mutex_unlock(&self->dispatch.mutex);
    return noticed;
}

static void finish(struct dispatched *self)
{
    qn_dispatch_finish(&self->dispatch);
    (void)pthread_cond_destroy(&source.change);
    (void)pthread_mutex_destroy(&source.mutex);
}

/* Whichever leads: each of them is the one that is named once, and another one leads then. */
static void notice_wakes_only_the_thread_of_its_task(void **state)
{
    (void)state;
    struct dispatched self;
    start(&self, THREAD_COUNT);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        if (i > 0) {
            post(THREAD_COUNT + 1); /* of no thread */
        }
        post(1 + i);
        assert_noticed(&self, i);
        for (size_t other = i + 1; other < THREAD_COUNT; other++) {
            assert_false(is_noticed(&self, other));
        }
    }
    finish(&self);
}

static void notice_wakes_all_threads_of_its_task(void **state)
{
    (void)state;
    struct dispatched self;
    start(&self, 2);
    post(2);
    for (size_t i = 1; i < THREAD_COUNT; i += 2) {
        assert_noticed(&self, i);
        assert_false(is_noticed(&self, i - 1));
    }
    post(1);
    for (size_t i = 0; i < THREAD_COUNT; i += 2) {
        assert_noticed(&self, i);
    }
    finish(&self);
}

static void notice_without_a_task_wakes_all_threads(void **state)
{
    (void)state;
    struct dispatched self;
    start(&self, THREAD_COUNT);
    post(ALL_TASKS);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        assert_noticed(&self, i);
    }
    finish(&self);
}

static void failure_of_the_broker_wakes_all_threads(void **state)
{
    (void)state;
    struct dispatched self;
    start(&self, THREAD_COUNT);
    pthread_mutex_lock(&source.mutex);
    source.failures = 1;
    pthread_cond_broadcast(&source.change);
    pthread_mutex_unlock(&source.mutex);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        assert_noticed(&self, i);
    }
    finish(&self);
}

static void full_set_of_notices_means_all(void **state)
{
    (void)state;
    struct qn_notices notices;
    qn_notices_clear(&notices);
    assert_true(qn_notices_empty(&notices));
    for (uint64_t i = 0; i < QN_NOTICES_MAX; i++) {
        qn_notices_add(&notices, i);
        assert_false(notices.all);
    }
    qn_notices_add(&notices, QN_NOTICES_MAX);
    assert_true(notices.all);
    assert_int_equal(notices.count, QN_NOTICES_MAX);
    qn_notices_clear(&notices);
    assert_true(qn_notices_empty(&notices));
}

static void key_of_redis_and_its_parts_have_one_mark(void **state)
{
    (void)state;
    static const char name[] = "low}:t:42";
    assert_true(qn_notices_task("low", "42") == qn_notices_task_of_name(name, sizeof name - 1));
    assert_true(qn_notices_task("low", "42") != qn_notices_task("low", "43"));
    assert_true(qn_notices_task("low4", "2") != qn_notices_task("low", "42"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(notice_wakes_only_the_thread_of_its_task),
    cmocka_unit_test(notice_wakes_all_threads_of_its_task),
    cmocka_unit_test(notice_without_a_task_wakes_all_threads),
    cmocka_unit_test(failure_of_the_broker_wakes_all_threads),
    cmocka_unit_test(full_set_of_notices_means_all),
    cmocka_unit_test(key_of_redis_and_its_parts_have_one_mark),
};
TEST_MAIN(tests)
