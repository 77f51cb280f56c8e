/* SPDX-License-Identifier: MIT */
/* worker_fate.h - which of the workers that have a record are dead. */
#ifndef QN_BROKER_SQLITE_UPKEEP_WORKER_FATE_H
#define QN_BROKER_SQLITE_UPKEEP_WORKER_FATE_H

#include "base/memory/arena.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/upkeep/worker_death.h"

enum qn_fate {
    QN_FATE_KEEP,    /* alive, or only its lease can decide */
    QN_FATE_GONE,    /* its leases end now */
    QN_FATE_SILENT,  /* unknown, no heartbeat for long: removed once it holds nothing */
    QN_FATE_FOREIGN, /* its leases are on another clock: not known yet */
};

struct qn_worker_fate {
    struct qn_worker_death death; /* its host is in the arena */
    const char *id;               /* in the arena, as the next */
    const char *owner;
    enum qn_fate fate;
    int64_t heartbeat_at_ms;
    bool lives; /* an expired lease of it is merely late */
    bool is_silent;
    bool was_leaving;
};

struct qn_worker_fates {
    struct qn_sqlite *self;
    struct qn_conn *conn;   /* reading */
    struct qn_arena *arena; /* of ids, owners and hosts */
    int64_t now_ms;
    int64_t now_boot_ms;
    struct qn_worker_fate *workers; /* the caller frees them */
    size_t count;
    size_t capacity;
};

/* Reads all records and decides about each; between qn_transaction_read_begin and read_end. */
QUERN_NODISCARD quern_status qn_worker_fate_read_all(struct qn_worker_fates *fates,
                                                     quern_error *err);
/* No task is charged with its end: it was leaving, or its host is silent. */
bool qn_worker_fate_is_excused(const struct qn_worker_fates *fates,
                               const struct qn_worker_fate *worker);

#endif
