/* SPDX-License-Identifier: MIT */
/* heartbeat_age.h - for how long the records of workers on other hosts have not changed, by our own
 * clock since boot. The moment in a record was written by the clock of another host, and ours may
 * be wrong for a moment, too. */
#ifndef QN_BROKER_SQLITE_UPKEEP_HEARTBEAT_AGE_H
#define QN_BROKER_SQLITE_UPKEEP_HEARTBEAT_AGE_H

#include "broker/sqlite/sqlite.h"

/* A reading of all records begins: those that the one before did not find are forgotten. */
void qn_heartbeat_age_begin(struct qn_heartbeat_ages *ages);
/* The entry of the record, valid until the next call; NULL: out of memory. Within one scan the
 * numbers grow. */
const struct qn_heartbeat_age *qn_heartbeat_age_note(struct qn_heartbeat_ages *ages,
                                                     int64_t worker_no, int64_t heartbeat_at_ms,
                                                     int64_t now_boot_ms);
void qn_heartbeat_age_finish(struct qn_heartbeat_ages *ages);

#endif
