/* SPDX-License-Identifier: MIT */
/* duration.h - durations as people and Go write them: "1h30m", "1.5s", "250ms", "2d"; a bare number
 * is seconds. */
#ifndef QN_BASE_TEXT_DURATION_H
#define QN_BASE_TEXT_DURATION_H

#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"

/* Units: ns, us, ms, s, m, h, d. Not negative, at most 100 years. */
QUERN_NODISCARD quern_status qn_duration_parse(const char *text, int64_t *ret_ms, quern_error *err);
/* "1h30m", "1.5s", "250ms"; out of 32 bytes always suffices. */
void qn_duration_format(int64_t ms, char *out, size_t out_size);

#endif
