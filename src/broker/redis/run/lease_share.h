/* SPDX-License-Identifier: MIT */
/* lease_share.h - how the queues of a cluster share the room of an exchange. No I/O. */
#ifndef QN_BROKER_REDIS_RUN_LEASE_SHARE_H
#define QN_BROKER_REDIS_RUN_LEASE_SHARE_H

#include "broker/broker.h"

/* Whether the exchange is about one queue only, that of the solo lock. */
bool qn_lease_is_alone(const struct qn_exchange *exchange);
/* want[i]: how many runs the i-th queue is asked for, `room` in all. First by the quotas that were
 * drawn, in strict order the first queue for all. */
void qn_lease_share_first(const struct qn_exchange *exchange, uint32_t solo_queue, uint32_t room,
                          uint32_t *want);
/* Then, where that came back short: waiting[i]: how many more the queue may have. */
void qn_lease_share_again(const struct qn_exchange *exchange, const uint32_t *waiting,
                          uint32_t room, uint32_t *want);

#endif
