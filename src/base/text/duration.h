/* SPDX-License-Identifier: MIT */
/* duration.h - durations as people and Go write them ("1h30m", "1.5s", "250ms", "2d"; a bare
 * number is seconds), and moments (RFC 3339, "2026-11-20T12:00:00Z", or "@1700000000" in seconds).
 */
#ifndef QN_BASE_TEXT_DURATION_H
#define QN_BASE_TEXT_DURATION_H

#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"

/* Units: ns, us, ms, s, m, h, d. Not negative, at most 100 years. */
QUERN_NODISCARD quern_status qn_duration_parse(const char *text, int64_t *ret_ms, quern_error *err);
/* "1h30m", "1.5s", "250ms"; out of 32 bytes always suffices. */
void qn_duration_format(int64_t ms, char *out, size_t out_size);
QUERN_NODISCARD quern_status qn_moment_parse(const char *text, int64_t *ret_at_ms,
                                             quern_error *err);
/* RFC 3339 in UTC with milliseconds: "2026-11-20T12:00:00.000Z". */
void qn_moment_format(int64_t at_ms, char *out, size_t out_size);

#endif
