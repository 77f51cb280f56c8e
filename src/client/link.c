/* SPDX-License-Identifier: MIT */
/* link.c - opens the broker of a client: again and again, with full jitter, while it is absent or
 * busy and there is time. */
#include "client/link.h"

#include <poll.h>

#include "base/clock.h"
#include "base/random.h"
#include "client/client.h"
#include "redis/failover/failover.h"

#define PAUSE_MS_FIRST 50
#define PAUSE_MS_MAX 1000

/* False: there is no time left. */
static bool rest(struct qn_random *random, unsigned attempt, int64_t until_mono_ns)
{
    int64_t left_ms = (until_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS;
    int64_t limit_ms = attempt < 5 ? PAUSE_MS_FIRST << attempt : PAUSE_MS_MAX;
    limit_ms = limit_ms < left_ms ? limit_ms : left_ms;
    if (limit_ms <= 0) {
        return false;
    }
    (void)poll(NULL, 0, (int)(1 + qn_random_below(random, (uint64_t)limit_ms)));
    return true;
}

quern_status qn_link_open(const char *url, const quern_client_options *options,
                          struct qn_broker **ret_broker, quern_error *err)
{
    const struct qn_failover_rules rules = {.choose = options->choose_server,
                                            .on_failure = options->on_link_failure,
                                            .user = options->link_user};
    const struct qn_broker_options how = {
        .clock = options->clock != NULL ? options->clock : qn_clock_system(),
        .connect_timeout_ms = options->connect_timeout_ms,
        .command_timeout_ms = options->command_timeout_ms,
        .failover = &rules,
        .create = true,
    };
    struct qn_random random;
    int64_t until_mono_ns = qn_clock_mono_ns() + options->connect_wait_ms * QN_NS_PER_MS;
    quern_status status = qn_broker_open(url, &how, ret_broker, err);
    qn_random_init(&random);
    for (unsigned attempt = 0;
         qn_broker_may_come(url, status) && rest(&random, attempt, until_mono_ns); attempt++) {
        status = qn_broker_open(url, &how, ret_broker, err);
    }
    return status;
}
