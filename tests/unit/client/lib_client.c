/* SPDX-License-Identifier: MIT */
/* lib_client.c - see lib_client.h. The hook keeps its records in static variables: a test program
 * runs one test at a time, and the broker's operations have no user pointer. */
#include "lib_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "broker/ops.h"

#define TURNS_MAX 4096

static struct {
    struct qn_broker_ops ops;
    const struct qn_broker_ops *real;
    struct qn_broker *broker;
    client_trick trick;
    _Atomic size_t turns;
    struct qn_stamp stamps[TURNS_MAX];
    size_t counts[TURNS_MAX];
} hand;

/* --- The client ----------------------------------------------------------------------- */

void client_reopen(struct client_test *t, const quern_client_options *options)
{
    quern_client_options own = {0};
    if (options != NULL) {
        own = *options;
    }
    own.clock = &t->clock;
    quern_client_free(t->client);
    t->client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(t->url, &own, &t->client, &err), err);
}

int client_setup(void **state)
{
    struct client_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    test_dir_make(t->dir);
    (void)snprintf(t->url, sizeof t->url, "%s/client.db", t->dir);
    qn_clock_init(&t->clock, CLIENT_NOW_MS, 1000000);
    client_reopen(t, NULL);
    *state = t;
    return 0;
}

int client_teardown(void **state)
{
    struct client_test *t = *state;
    quern_client_free(t->client);
    test_dir_remove(t->dir);
    free(t);
    return 0;
}

/* --- The hand --------------------------------------------------------------------------- */

static quern_status hooked_enqueue(struct qn_broker *broker, const struct qn_enqueue *enqueue,
                                   quern_error *err)
{
    assert_ptr_equal(broker, hand.broker);
    size_t turn = atomic_fetch_add(&hand.turns, 1);
    if (turn < TURNS_MAX) {
        hand.stamps[turn] = enqueue->stamp;
        hand.counts[turn] = enqueue->count;
    }
    if (hand.trick == NULL) {
        return client_pass_on(enqueue, err);
    }
    return hand.trick(turn, enqueue, err);
}

void client_hook(struct client_test *t, client_trick trick)
{
    struct qn_broker *broker = t->client->broker;
    if (broker->ops != &hand.ops) {
        hand.real = broker->ops;
        hand.ops = *broker->ops;
        hand.ops.enqueue = hooked_enqueue;
        hand.broker = broker;
        broker->ops = &hand.ops;
    }
    hand.trick = trick;
    atomic_store(&hand.turns, 0);
}

void client_hook_remote(struct client_test *t, client_trick trick)
{
    client_hook(t, trick);
    hand.ops.is_remote = true;
}

quern_status client_pass_on(const struct qn_enqueue *enqueue, quern_error *err)
{
    return hand.real->enqueue(hand.broker, enqueue, err);
}

size_t client_turns(void)
{
    return atomic_load(&hand.turns);
}

struct qn_stamp client_stamp(size_t turn)
{
    assert_true(turn < TURNS_MAX && turn < client_turns());
    return hand.stamps[turn];
}

size_t client_count(size_t turn)
{
    assert_true(turn < TURNS_MAX && turn < client_turns());
    return hand.counts[turn];
}

/* --- Looking ------------------------------------------------------------------------------ */

static bool keep_copy(const quern_task_info *info, void *user)
{
    quern_task_info **found = user;
    *found = qn_task_info_copy(info);
    assert_non_null(*found);
    return false;
}

quern_task_info *client_find(struct client_test *t, const char *queue, const char *id)
{
    quern_task_info *found = NULL;
    const quern_task_filter filter = {.queue = queue, .id = id};
    quern_error err = {0};
    assert_ok(qn_broker_tasks(t->client->broker, &filter, keep_copy, &found, &err), err);
    return found;
}

static bool count_task(const quern_task_info *info, void *user)
{
    (void)info;
    size_t *count = user;
    (*count)++;
    return true;
}

size_t client_stored(struct client_test *t)
{
    size_t count = 0;
    const quern_task_filter filter = {.limit = 10000};
    quern_error err = {0};
    assert_ok(qn_broker_tasks(t->client->broker, &filter, count_task, &count, &err), err);
    return count;
}

static bool check_place(const quern_task_info *info, void *user)
{
    size_t *place = user;
    char wanted[24];
    (void)snprintf(wanted, sizeof wanted, "%zu", *place);
    size_t size = 0;
    const void *payload = quern_task_info_payload(info, &size);
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(payload, wanted, size);
    (*place)++;
    return true;
}

void client_assert_order(struct client_test *t, size_t count)
{
    size_t place = 0;
    const quern_task_filter filter = {
        .queue = "default", .state = QUERN_TASK_PENDING, .limit = 10000};
    quern_error err = {0};
    assert_ok(qn_broker_tasks(t->client->broker, &filter, check_place, &place, &err), err);
    assert_int_equal(place, count);
}
