/* SPDX-License-Identifier: MIT */
/* url_params.h - the parameters of a URL that are about the broker as a whole, not about one of its
 * servers: of a list of URLs the first has them. */
#ifndef QN_REDIS_FAILOVER_URL_PARAMS_H
#define QN_REDIS_FAILOVER_URL_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pace.h"
#include "base/text/url.h"
#include "quern/status.h"
#include "redis/failover/failover.h"

#define QN_WAIT_COUNT_MAX 1000
#define QN_WAIT_MS_DEFAULT 1000
#define QN_WAIT_MS_MAX 3600000

struct qn_url_params {
    enum qn_failover_strategy strategy; /* failover=round-robin|shuffle */
    uint32_t wait_count; /* wait: replicas that must confirm a stored task; 0: none is waited for */
    int64_t wait_ms;     /* for how long */
    struct qn_pace pace; /* interval_start_ms and so on; 0: not given */
    const char *master;  /* of Sentinel; the texts are the URL's; NULL: not given */
    const char *sentinel_user;
    const char *sentinel_password_file;
};

/* Whether there is such a parameter. */
bool qn_url_params_has(const char *name);
/* Reads those of the first URL. QUERN_E_INVALID: a value is wrong, or another URL has one. */
QUERN_NODISCARD quern_status qn_url_params_read(const struct qn_url *urls, size_t count,
                                                struct qn_url_params *ret_params, quern_error *err);

#endif
