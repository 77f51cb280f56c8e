/* SPDX-License-Identifier: MIT */
/* heartbeat.h - the record of a worker in asynq:quern:workers, which is ours alone: Go sees the
 * worker in asynq:servers, but forgets it after ten seconds, and has no word for its state.
 *
 * Lines: heartbeat_ms, status, owner, host, pid, started_at_ms, concurrency, strict, queues with
 * weights for people; then the name of each queue. */
#ifndef QN_BROKER_REDIS_UPKEEP_HEARTBEAT_H
#define QN_BROKER_REDIS_UPKEEP_HEARTBEAT_H

#include "quern/inspector.h"
#include "redis/pipeline.h"

#define QN_WORKERS_KEY "asynq:quern:workers"
#define QN_SERVER_TTL_S 10 /* as asynq */

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
/* "asynq:KIND:{host:pid:id}"; NULL when memory is out. */
const char *qn_worker_key(struct qn_arena *arena, const char *kind, const char *host, int64_t pid,
                          const char *id);

#endif
