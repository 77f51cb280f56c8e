/* SPDX-License-Identifier: MIT */
/* lib_queue.h - one queue on a redis-server, through the broker and key by key: for tests of the
 * effects of single calls. */
#ifndef QN_TEST_LIB_QUEUE_H
#define QN_TEST_LIB_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/inspect.h"
#include "lib_redis.h"
#include "lib_task.h"
#include "task/limits.h"

#define Q "asynq:{default}:"
#define NOW_MS INT64_C(1800000000000)

extern struct test_redis redis;
extern struct qn_broker *broker;
extern quern_error err;

/* An empty server, started once, whose clock stands still at NOW_MS. */
int queue_set_up(void **state);
int queue_tear_down(void **state);

quern_status enqueue(const struct qn_task *task);
void put(const char *id);
const char *field(const char *id, const char *name);

/* The runs that one exchange leased; freed by free_batch. */
struct batch {
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t count;
    bool more;
};
quern_status lease_with(struct qn_stamp stamp, uint32_t room, struct batch *batch);
/* The same with a stamp that is new. */
void lease(uint32_t room, struct batch *batch);
void expect(const struct batch *batch, size_t index, const char *id);
void free_batch(struct batch *batch);

#endif
