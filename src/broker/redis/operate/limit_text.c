/* SPDX-License-Identifier: MIT */
/* limit_text.c - a limit as it is stored: a field of quern:limit:set and its value. */
#include <inttypes.h>

#include "broker/redis/operate/operate.h"

const char *qn_operate_limit_field(struct qn_arena *arena, const struct qn_limit_owner *owner,
                                   bool rate)
{
    bool named = owner->scope != QUERN_LIMIT_QUEUE;
    return qn_arena_printf(arena, "%d%c%s%s", (int)owner->scope, rate ? 's' : 'r', named ? ":" : "",
                           named ? owner->name : "");
}

const char *qn_operate_limit_value(struct qn_arena *arena, const quern_limit *limit)
{
    return limit->period_ms > 0 ? qn_arena_printf(arena, "%" PRId64 " %" PRId64 " %" PRId64,
                                                  limit->count, limit->period_ms, limit->burst)
                                : qn_arena_printf(arena, "%" PRId64, limit->count);
}
