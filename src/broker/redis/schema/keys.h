/* SPDX-License-Identifier: MIT */
/* keys.h - the names of keys, as arguments of the commands of a pipeline.
 *
 * docs/protocol/redis.md describes all keys. The scripts get the prefix of a queue and make the
 * names of all its keys from it. */
#ifndef QN_BROKER_REDIS_SCHEMA_KEYS_H
#define QN_BROKER_REDIS_SCHEMA_KEYS_H

#include <stdint.h>

#include "redis/pipeline.h"

/* Keys that all queues share, and the channels of cancellations and of commands to workers. */
#define QN_KEY_QUEUES "asynq:queues"
#define QN_KEY_SERVERS "asynq:servers"
#define QN_KEY_WORKERS "asynq:workers"
#define QN_KEY_RECORDS "asynq:quern:workers" /* ours: worker_record.h */
#define QN_KEY_CANCEL "asynq:cancel"
#define QN_KEY_COMMAND "asynq:quern"              /* ours: command/command.h */
#define QN_KEY_ALL "asynq:"                       /* before those of limits of all queues */
#define QN_KEY_ALL_LIMITS "asynq:quern:limit:set" /* ours, a hash: these limits */
#define QN_KEY_SCHEDULERS "asynq:schedulers"      /* and of each its record, see record.c */
#define QN_KEY_SCHEDULES "asynq:quern:schedules"  /* ours, a set: queues with entries */
#define QN_KEY_SCHEDULE "asynq:quern:schedule"    /* ours, a hash: the leader, the version */

/* The keys of a queue: "asynq:{queue}:" and one of asynq's names or of these, which are ours. */
#define QN_KEY_ROOT "asynq:{"
#define QN_KEY_NAME "}:" /* what follows the queue */
#define QN_KEY_TASK "t:" /* before an id */
#define QN_KEY_GROUP "g:"
#define QN_KEY_UNIQUE "unique:"
#define QN_KEY_DUE "quern:due"
#define QN_KEY_SKIP "quern:skip"
#define QN_KEY_TRASH "quern:trash" /* and with ":" before an id */
#define QN_KEY_TRASH_BYTES "quern:trash_bytes"
#define QN_KEY_MAX_PENDING "quern:max_pending"
#define QN_KEY_LIMITS "quern:limit:set"
#define QN_KEY_LANES "quern:lanes"
#define QN_KEY_IDLE "quern:lanes:idle"
#define QN_KEY_BRAKED "quern:braked"
#define QN_KEY_META "quern:meta"
#define QN_KEY_HOLDERS "quern:workers"
#define QN_KEY_ENTRIES "quern:entries"
#define QN_KEY_TICKS "quern:ticks"
#define QN_KEY_TICKLOG "quern:ticklog:" /* before the name of an entry */

/* "asynq:{queue}:", the key of our scripts. Copied. */
void qn_keys_add_prefix(struct qn_pipeline *pipeline, const char *queue);
/* "asynq:{queue}:" followed by suffix, for plain commands. Copied. NULL for suffix is memory that
 * was out when it was made (pipeline.h). */
void qn_keys_add(struct qn_pipeline *pipeline, const char *queue, const char *suffix);
/* The hash of a task; its id may hold NUL bytes. Copied. */
void qn_keys_add_task(struct qn_pipeline *pipeline, const char *queue, const char *id,
                      size_t id_size);
/* A session of a stamp, as it is written in a key: 16 hexadecimal digits. Copied. */
void qn_keys_add_session(struct qn_pipeline *pipeline, uint64_t session);

#endif
