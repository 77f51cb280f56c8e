/* SPDX-License-Identifier: MIT */
/* headers.h - the headers of a task as a JSON object of texts, for brokers that store them so. */
#ifndef QN_MESSAGE_HEADERS_H
#define QN_MESSAGE_HEADERS_H

#include <stddef.h>

#include "base/arena.h"
#include "quern/task.h"

/* {"name":"value",...} in their order, in the arena; "{}" when count is 0. QUERN_E_INVALID: a
 * header that is not UTF-8, or two with the same name. */
QUERN_NODISCARD quern_status qn_headers_to_json(struct qn_arena *arena, const quern_header *headers,
                                                size_t count, const char **ret_text,
                                                quern_error *err);
/* The way back, in the order of the text; everything is in the arena. NULL and "" mean none, and
 * *ret_headers is NULL when there are none. QUERN_E_CORRUPT: not a JSON object of texts. */
QUERN_NODISCARD quern_status qn_headers_from_json(struct qn_arena *arena, const char *text,
                                                  const quern_header **ret_headers,
                                                  size_t *ret_count, quern_error *err);

#endif
