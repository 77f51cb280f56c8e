/* SPDX-License-Identifier: MIT */
/* link.c - opens the broker of a client: again and again, with full jitter, while it is absent or
 * busy and there is time. */
#include "client/link.h"

#include <poll.h>

#include "base/clock.h"
#include "base/random.h"
#include "broker/url/url_retry.h"
#include "client/client.h"
#include "redis/failover/failover.h"

/* Attempts to open, and what is left of them. */
struct attempts {
    struct qn_pace pace;
    int64_t until_mono_ns;
    uint32_t failures;
    struct qn_random random;
};

struct qn_pace qn_link_pace(const quern_client_options *options, const char *url)
{
    const struct qn_pace given = {.start_ms = options->interval_start_ms,
                                  .step_ms = options->interval_step_ms,
                                  .max_ms = options->interval_max_ms,
                                  .retries_max = options->max_retries};
    const struct qn_pace of_url = url == NULL ? (struct qn_pace){0} : qn_url_retry(url);
    return qn_pace_or(&given, &of_url);
}

static void begin(struct attempts *attempts, const char *url, const quern_client_options *options)
{
    *attempts = (struct attempts){.pace = qn_link_pace(options, url)};
    attempts->until_mono_ns = qn_clock_mono_ns() + options->connect_wait_ms * QN_NS_PER_MS;
    if (options->connect_wait_ms == 0 && attempts->pace.retries_max != 0 && !options->no_wait) {
        attempts->until_mono_ns = INT64_MAX;
    }
    qn_random_init(&attempts->random);
}

/* After a failure. False: that was the last attempt. */
static bool rest(struct attempts *attempts)
{
    int64_t left_ms = (attempts->until_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS;
    int64_t pause_ms = qn_pace_next_ms(&attempts->pace, attempts->failures, &attempts->random);
    attempts->failures++;
    if (left_ms <= 0 || qn_pace_ends(&attempts->pace, attempts->failures)) {
        return false;
    }
    (void)poll(NULL, 0, (int)(pause_ms < left_ms ? pause_ms : left_ms));
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
    struct attempts attempts;
    begin(&attempts, url, options);
    quern_status status = qn_broker_open(url, &how, ret_broker, err);
    while (qn_broker_may_come(url, status) && rest(&attempts)) {
        status = qn_broker_open(url, &how, ret_broker, err);
    }
    return status;
}
