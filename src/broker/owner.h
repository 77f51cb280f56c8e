/* SPDX-License-Identifier: MIT */
/* owner.h - the owner of a lease: "bootid:pidns:pid:starttime", from /proc.
 *
 * Only an owner of this kernel (boot id) and this pid namespace can be judged by /proc; all others
 * by their lease. The start time distinguishes a process from a later one with the same pid. */
#ifndef QN_BROKER_OWNER_H
#define QN_BROKER_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "quern/status.h"

#define QN_OWNER_SIZE 128
#define QN_BOOT_ID_SIZE 37 /* with its NUL */

enum qn_owner_state { QN_OWNER_UNKNOWN, QN_OWNER_ALIVE, QN_OWNER_DEAD };

QUERN_NODISCARD quern_status qn_owner_self(char out[QN_OWNER_SIZE], quern_error *err);
/* Malformed text is QN_OWNER_UNKNOWN. Another boot of this machine cannot be distinguished from
 * another machine: QN_OWNER_UNKNOWN. */
enum qn_owner_state qn_owner_judge(const char *owner);
/* Whether a worker with such a record is alive: by its state or, if that is unknown, by the age of
 * its heartbeat. */
#define QN_HEARTBEAT_MS_MAX 30000
/* When one of its leases has expired, it is taken for dead after this time already. */
#define QN_HEARTBEAT_MS_LAPSED 15000
bool qn_owner_lives(const char *owner, int64_t heartbeat_at_ms, int64_t now_ms);
/* 0: malformed. */
int64_t qn_owner_pid(const char *owner);
/* The id of this boot of the kernel; false when it cannot be read. */
bool qn_owner_boot_id(char out[QN_BOOT_ID_SIZE]);
/* Whether it names this boot of this kernel (then its leases are on our boot clock). */
bool qn_owner_same_boot(const char *owner);

#endif
