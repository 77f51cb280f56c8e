/* SPDX-License-Identifier: MIT */
/* lib_queue.c - queues for the tests of the Redis broker. */
#include "lib_queue.h"

#include "lib_test.h"

struct test_redis redis;
struct qn_broker *broker;
quern_error err;
static uint64_t sequence;

int queue_set_up(void **state)
{
    (void)state;
    if (redis.pid == 0) {
        test_redis_start(&redis, &(struct test_redis_options){.turned = true});
    }
    test_redis_empty(&redis);
    test_redis_turn(&redis, NOW_MS * 1000);
    assert_ok(qn_broker_open(redis.url, NULL, &broker, &err), err);
    return 0;
}

int queue_tear_down(void **state)
{
    (void)state;
    qn_broker_close(broker);
    broker = NULL;
    return 0;
}

quern_status enqueue(const struct qn_task *task)
{
    quern_status result = QUERN_E_INVALID;
    assert_ok(qn_broker_enqueue(broker,
                                &(struct qn_enqueue){(struct qn_stamp){0}, task, 1, &result}, &err),
              err);
    return result;
}

void put(const char *id)
{
    const struct qn_task task = test_task(id);
    assert_int_equal(enqueue(&task), QUERN_OK);
}

void free_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        qn_leased_free(batch->runs[i]);
    }
    batch->count = 0;
}

quern_status lease_with(struct qn_stamp stamp, uint32_t room, struct batch *batch)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = room};
    struct qn_exchange exchange = {.stamp = stamp,
                                   .worker_id = "host:1:worker",
                                   .lease_ms = 30000,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = room,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.runs = batch->runs};
    quern_status status = qn_broker_exchange(broker, &exchange, &reply, &err);
    batch->count = reply.run_count;
    batch->more = reply.more;
    return status;
}

void lease(uint32_t room, struct batch *batch)
{
    assert_ok(lease_with((struct qn_stamp){77, ++sequence}, room, batch), err);
}

void expect(const struct batch *batch, size_t index, const char *id)
{
    assert_true(index < batch->count);
    assert_string_equal(batch->runs[index]->task.id, id);
}

const char *field(const char *id, const char *name)
{
    return test_redis_do(&redis, "HGET " Q "t:%s %s", id, name);
}
