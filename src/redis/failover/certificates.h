/* SPDX-License-Identifier: MIT */
/* certificates.h - reads the files of TLS again, of all servers of a broker. */
#ifndef QN_REDIS_FAILOVER_CERTIFICATES_H
#define QN_REDIS_FAILOVER_CERTIFICATES_H

#include "quern/status.h"
#include "redis/failover/failover.h"
#include "redis/failover/sentinel.h"

/* For connections that are made from now on (net/tls.h). sentinels: NULL where there are none.
 * QUERN_E_UNSUPPORTED: there is no TLS; QUERN_E_INVALID: a file is broken, and what it is for stays
 * as it was. Any thread. */
QUERN_NODISCARD quern_status qn_certificates_reload(struct qn_failover *failover,
                                                    struct qn_sentinels *sentinels,
                                                    quern_error *err);

#endif
