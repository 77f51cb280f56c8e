/* SPDX-License-Identifier: MIT */
/* unique_key.h - the name of a uniqueness lock, as asynq builds it. */
#ifndef QN_MESSAGE_ASYNQ_UNIQUE_KEY_H
#define QN_MESSAGE_ASYNQ_UNIQUE_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory/arena.h"
#include "base/memory/view.h"
#include "quern/status.h"

/* Two tasks that agree in queue, type and payload are equal, and have the same lock; or, where
 * `key` is not NULL, in queue and key. */
struct qn_uniqueness {
    const char *queue;
    const char *type;
    struct qn_bytes payload;
    const char *key;
};

/* "asynq:{queue}:unique:type:<md5 of the payload in lower-case hex>", in the arena. A payload of
 * NULL gives an empty last part, as Go's nil slice does; an empty one that is not NULL gives the
 * MD5 of nothing. With a key "asynq:{queue}:unique:key:custom": no lock of Go's ends like that. */
QUERN_NODISCARD quern_status qn_unique_key(struct qn_arena *arena, const struct qn_uniqueness *same,
                                           const char **ret_key, quern_error *err);
/* The key of its own that gave the lock its name, in the arena; *ret_key NULL: it has none. */
QUERN_NODISCARD quern_status qn_unique_key_own(struct qn_arena *arena, const char *queue,
                                               const char *lock, const char **ret_key,
                                               quern_error *err);
/* The name of a lock of the queue `from` in the queue `to`, in the arena; *ret_moved NULL: it is no
 * lock of that queue. */
struct qn_unique_move {
    const char *lock;
    const char *from;
    const char *to;
};
QUERN_NODISCARD quern_status qn_unique_key_move(struct qn_arena *arena,
                                                const struct qn_unique_move *move,
                                                const char **ret_moved, quern_error *err);

#endif
