/* SPDX-License-Identifier: MIT */
/* await.c - waits for a broker that is not available yet, as long as its URL allows.
 *
 * A server may start, a locked file be released, a full disk be cleared; a wrong password or URL
 * stays wrong, and is reported at once. A signal that ends the program meanwhile: signal.c. */
#include "cli/work/await.h"

#include <time.h>

#include "base/pace.h"
#include "broker/broker.h"
#include "broker/url/url_retry.h"

static void sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL); /* cut short by a signal: tries again a little earlier */
}

/* After a first attempt that failed. */
static int keep_trying(struct qn_cli *cli, const char *url, quern_inspector **ret_inspector)
{
    const struct qn_pace pace = qn_url_retry(url);
    const quern_inspector_options options = {.create = true};
    struct qn_random random;
    quern_status status = QUERN_E_CONNECT;
    quern_error err;
    qn_random_init(&random);
    for (uint32_t failures = 1; !qn_pace_ends(&pace, failures); failures++) {
        sleep_ms(qn_pace_next_ms(&pace, failures - 1, &random));
        status = quern_inspector_open(url, &options, ret_inspector, &err);
        if (status == QUERN_OK) {
            qn_cli_message(cli, "the broker answers");
            return QN_EXIT_OK;
        }
        if (!qn_broker_may_come(url, status)) {
            break;
        }
    }
    return qn_cli_open_failed(cli, &err);
}

int qn_work_await(struct qn_cli *cli, bool wait, quern_inspector **ret_inspector)
{
    const char *url = NULL;
    quern_error err;
    const quern_inspector_options options = {.create = true};
    int exit_code = qn_cli_broker_url(cli, true, &url);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    bool makes = qn_cli_will_make_file(url);
    quern_status status = quern_inspector_open(url, &options, ret_inspector, &err);
    if (status == QUERN_OK) {
        qn_cli_report_made(cli, makes, url);
        return QN_EXIT_OK;
    }
    if (status == QUERN_E_TIMEOUT) {
        err.code = QUERN_E_CONNECT; /* for the exit code: it is not there */
    }
    if (!wait || !qn_broker_may_come(url, status)) {
        return qn_cli_open_failed(cli, &err);
    }
    qn_cli_message(cli, "%s; waiting for it", err.text);
    return keep_trying(cli, url, ret_inspector);
}
