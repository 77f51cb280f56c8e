/* SPDX-License-Identifier: MIT */
/* recover.h - how far recovery has come: it reads leases in pages, and continues in the next call
 * where it stopped in this one. */
#ifndef QN_BROKER_REDIS_UPKEEP_RECOVER_H
#define QN_BROKER_REDIS_UPKEEP_RECOVER_H

/* A list of the queues that were ever recovered; NULL: none. Guarded by the channel of recover. */
struct qn_recovery_cursor;
void qn_recover_free_cursors(struct qn_recovery_cursor *cursors);

#endif
