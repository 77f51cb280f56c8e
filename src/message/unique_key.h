/* SPDX-License-Identifier: MIT */
/* unique_key.h - the name of a uniqueness lock, as asynq builds it. */
#ifndef QN_MESSAGE_UNIQUE_KEY_H
#define QN_MESSAGE_UNIQUE_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory/arena.h"
#include "quern/status.h"

/* "asynq:{queue}:unique:type:<md5 of the payload in lower-case hex>", in the arena. payload NULL
 * gives an empty last part, as Go's nil slice does; an empty payload that is not NULL gives the MD5
 * of nothing. */
QUERN_NODISCARD quern_status qn_unique_key(struct qn_arena *arena, const char *queue,
                                           const char *type, const void *payload,
                                           size_t payload_size, const char **ret_key,
                                           quern_error *err);

#endif
