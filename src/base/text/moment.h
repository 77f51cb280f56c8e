/* SPDX-License-Identifier: MIT */
/* moment.h - moments as people write them: RFC 3339, "2026-11-20T12:00:00Z", or "@1700000000" in
 * seconds. */
#ifndef QN_BASE_TEXT_MOMENT_H
#define QN_BASE_TEXT_MOMENT_H

#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"

QUERN_NODISCARD quern_status qn_moment_parse(const char *text, int64_t *ret_at_ms,
                                             quern_error *err);
/* RFC 3339 in UTC with milliseconds: "2026-11-20T12:00:00.000Z". */
void qn_moment_format(int64_t at_ms, char *out, size_t out_size);

#endif
