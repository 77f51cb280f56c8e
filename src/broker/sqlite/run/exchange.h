/* SPDX-License-Identifier: MIT */
/* exchange.h - the two halves of an exchange; both work inside its transaction. */
#ifndef QN_BROKER_SQLITE_RUN_EXCHANGE_H
#define QN_BROKER_SQLITE_RUN_EXCHANGE_H

#include "broker/sqlite/queue/queue_counters.h"

/* Applies one outcome if its token is still valid (outcome.c). */
QUERN_NODISCARD quern_status qn_outcome_apply(struct qn_queue_counters *counters,
                                              const struct qn_outcome *outcome,
                                              enum qn_applied *ret_applied, quern_error *err);

struct qn_lease_terms {
    int64_t now_wall_ms;
    int64_t now_boot_ms;
    int64_t first_token; /* out: of the leased runs, which have consecutive tokens */
    size_t run_count;    /* out: how many they are */
    uint32_t solo_queue; /* out: as exchange->solo_queue */
};
/* Serves requests for solo locks, and leases up to exchange->room runs into reply->runs
 * (lease.c). On failure it has freed them. */
QUERN_NODISCARD quern_status qn_lease_take(struct qn_queue_counters *counters,
                                           struct qn_exchange *exchange,
                                           struct qn_lease_terms *terms,
                                           struct qn_exchange_reply *reply, quern_error *err);
/* Reads the runs that were leased with the tokens of the terms before, for a replay. */
QUERN_NODISCARD quern_status qn_lease_again(struct qn_conn *conn, struct qn_exchange *exchange,
                                            struct qn_lease_terms *terms,
                                            struct qn_exchange_reply *reply, quern_error *err);

#endif
