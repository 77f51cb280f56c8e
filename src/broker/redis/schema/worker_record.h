/* SPDX-License-Identifier: MIT */
/* worker_record.h - the records that a worker keeps of itself, as text: written and read here.
 *
 * The whole one is in asynq:quern:workers, a short one of the holder of leases in quern:workers
 * of each of its queues. docs/protocol/redis.md has their format; heartbeat.lua puts the moment of
 * the heartbeat before each, because that is the server's. Both are ours alone: Go sees the worker
 * in keys of its own. */
#ifndef QN_BROKER_REDIS_SCHEMA_WORKER_RECORD_H
#define QN_BROKER_REDIS_SCHEMA_WORKER_RECORD_H

#include "broker/broker.h"
#include "quern/inspector.h"
#include "redis/pipeline.h"

struct qn_worker_record {
    quern_worker_info info; /* without runs */
    const char *owner;
    const char *const *queues;
    size_t queue_count;
};
/* id and reply: a field of the hash. Texts live in the arena. QUERN_E_CORRUPT: no such record. */
QUERN_NODISCARD quern_status qn_worker_record_read(struct qn_arena *arena, const char *id,
                                                   const struct qn_reply *reply,
                                                   struct qn_worker_record *ret_record,
                                                   quern_error *err);
/* In the arena; NULL when memory is out. */
const char *qn_worker_record_write(struct qn_arena *arena, const struct qn_heartbeat *heartbeat);

/* The short record, by which recovery of a queue decides whether the worker lives. */
struct qn_worker_holder {
    int64_t heartbeat_at_ms;
    const char *owner;
    const char *host;
};
/* Texts live in the arena. False: it is no such record, or memory is out. */
bool qn_worker_record_read_holder(struct qn_arena *arena, const struct qn_reply *reply,
                                  struct qn_worker_holder *ret_holder);
/* In the arena; NULL when memory is out. */
const char *qn_worker_record_write_holder(struct qn_arena *arena,
                                          const struct qn_heartbeat *heartbeat);

#define QN_SERVER_TTL_S 10 /* of the data about a worker for Go; as asynq */

/* The key under which Go finds the worker (set: QN_KEY_SERVERS) or its runs (QN_KEY_WORKERS):
 * "SET:{host:pid:id}", by these three of info. NULL when memory is out. */
const char *qn_worker_record_go_key(struct qn_arena *arena, const char *set,
                                    const quern_worker_info *info);

#endif
