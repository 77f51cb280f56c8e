/* SPDX-License-Identifier: MIT */
/* keys.h - the names of keys, as arguments of the commands of a pipeline.
 *
 * docs/protocol/redis.md says what lies where. The scripts get the prefix of a queue and make the
 * names of all its keys from it. */
#ifndef QN_BROKER_REDIS_SCHEMA_KEYS_H
#define QN_BROKER_REDIS_SCHEMA_KEYS_H

#include <stdint.h>

#include "redis/pipeline.h"

/* "asynq:{queue}:", the key of our scripts. Copied. */
void qn_keys_add_prefix(struct qn_pipeline *pipeline, const char *queue);
/* "asynq:{queue}:" followed by suffix, for plain commands. Copied. */
void qn_keys_add(struct qn_pipeline *pipeline, const char *queue, const char *suffix);
/* A session of a stamp, as it stands in a key: 16 hexadecimal digits. Copied. */
void qn_keys_add_session(struct qn_pipeline *pipeline, uint64_t session);

#endif
