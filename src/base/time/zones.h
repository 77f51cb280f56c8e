/* SPDX-License-Identifier: MIT */
/* zones.h - time zones by their names in the IANA database, read from the system's files when they
 * are first needed, and then kept.
 *
 * Any thread may call qn_zones_get at any time. A zone that was read stays as it is until
 * qn_zones_finish: a newer database is for a new struct qn_zones. */
#ifndef QN_BASE_TIME_ZONES_H
#define QN_BASE_TIME_ZONES_H

#include <pthread.h>
#include <stddef.h>

#include "base/time/zone.h"

#define QN_ZONE_NAME_SIZE_MAX 63 /* the longest of 2025 has 32 */
#define QN_ZONES_MAX 2048        /* kept at a time: all names of 2025 are 600, 1 MiB together */

struct qn_zones_entry;

struct qn_zones {
    const char *folder;
    pthread_mutex_t mutex;
    struct qn_zones_entry *first; /* guarded by mutex */
    size_t count;                 /* guarded by mutex */
};

/* folder: where the files are; NULL: where the system has them. It is not copied. */
QUERN_NODISCARD quern_status qn_zones_init(struct qn_zones *zones, const char *folder,
                                           quern_error *err);
void qn_zones_finish(struct qn_zones *zones);
/* QUERN_E_INVALID: it cannot be the name of a zone, whatever files there are: empty, too long, with
 * other characters than letters, digits, "_+-./", or a path that leaves the folder. */
QUERN_NODISCARD quern_status qn_zones_check_name(const char *name, quern_error *err);
/* The zone of this name; NULL, which is UTC, for "UTC", even where there are no files. It lives as
 * long as `zones`. QUERN_E_INVALID as above; QUERN_E_NOT_FOUND: no such zone, no zones at all, or a
 * file that may not be read, and the error says which; QUERN_E_CORRUPT: its file is damaged;
 * QUERN_E_BUSY: it cannot be read now; QUERN_E_FULL: more than QN_ZONES_MAX. */
QUERN_NODISCARD quern_status qn_zones_get(struct qn_zones *zones, const char *name,
                                          const struct qn_zone **ret_zone, quern_error *err);

#endif
