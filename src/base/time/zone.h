/* SPDX-License-Identifier: MIT */
/* zone.h - one time zone, read from a TZif file (RFC 8536 and 9636, versions 1 to 4): the offset
 * from UTC at any moment, and local times as moments. No I/O; zones.h finds the file.
 *
 * A zone is not changed once it is made: any number of threads may use it. */
#ifndef QN_BASE_TIME_ZONE_H
#define QN_BASE_TIME_ZONE_H

#include <stdint.h>

#include "base/memory/view.h"
#include "base/time/civil.h"
#include "quern/status.h"

#define QN_ZONE_FILE_SIZE_MAX ((size_t)128 << 10) /* those of 2025 have up to 4 KiB */
#define QN_ZONE_CHANGES_MAX 4096                  /* of those up to 250; tzcode stops at 2000 */

struct qn_zone; /* NULL is UTC, wherever a zone is asked for its offset */

/* QUERN_E_CORRUPT: it is not such a file, or it is damaged, or counts leap seconds, which the time
 * of a system does not; the error begins with the fault. qn_zone_free frees the zone. */
QUERN_NODISCARD quern_status qn_zone_parse(struct qn_bytes file, struct qn_zone **ret_zone,
                                           quern_error *err);
void qn_zone_free(struct qn_zone *zone);
/* Seconds east of UTC, less than 26 hours. */
int32_t qn_zone_offset(const struct qn_zone *zone, int64_t at_s);
/* The local time of a moment. */
void qn_zone_to_civil(const struct qn_zone *zone, int64_t at_s, struct qn_civil *ret_civil);
/* The moment with this local time, counted on as by qn_civil_to_seconds. A local time that clocks
 * skip becomes one an offset before or behind it, and of one that they show twice one is chosen, in
 * both cases as Go's time.Date does: by the offset that is in force when UTC has this time. */
int64_t qn_zone_from_civil(const struct qn_zone *zone, const struct qn_civil *civil);

#endif
