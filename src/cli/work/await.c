/* SPDX-License-Identifier: MIT */
/* await.c - waits for a broker that is not available yet.
 *
 * A server may start, a locked file be released, a full disk be cleared; a wrong password or URL
 * stays wrong, and is reported at once. While it waits, it does not sleep but takes TERM and
 * similar signals out of the queue of signals: they end the program also where it is the first
 * process of a container. */
#include "cli/work/await.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "broker/broker.h"
#include "cli/work/signal.h"

#define PAUSE_MS_MIN 50
#define PAUSE_MS_MAX 1000

/* False: a signal came. */
static bool sleep_unless_signalled(const sigset_t *signals, uint64_t ms)
{
    struct timespec timeout = {.tv_sec = (time_t)(ms / 1000),
                               .tv_nsec = (long)(ms % 1000) * 1000000};
    return sigtimedwait(signals, NULL, &timeout) < 0;
}

static int keep_trying(struct qn_cli *cli, const char *url, const sigset_t *signals,
                       quern_inspector **ret_inspector)
{
    struct qn_random random;
    quern_error err;
    const quern_inspector_options options = {.create = true};
    uint64_t pause_ms = PAUSE_MS_MIN;
    qn_random_init(&random);
    while (sleep_unless_signalled(signals, pause_ms / 2 + qn_random_below(&random, pause_ms))) {
        quern_status status = quern_inspector_open(url, &options, ret_inspector, &err);
        if (status == QUERN_OK) {
            qn_cli_message(cli, "the broker answers");
            return QN_EXIT_OK;
        }
        if (!qn_broker_may_come(url, status)) {
            return qn_cli_open_failed(cli, &err);
        }
        pause_ms = pause_ms * 2 < PAUSE_MS_MAX ? pause_ms * 2 : PAUSE_MS_MAX;
    }
    qn_cli_message(cli, "ended before the broker was available");
    return QN_EXIT_OK;
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
    sigset_t signals;
    sigset_t before;
    qn_work_signal_ends(&signals);
    (void)sigprocmask(SIG_BLOCK, &signals, &before); /* a user who reads the next line may send
                                                      * one */
    qn_cli_message(cli, "%s; waiting for it", err.text);
    exit_code = keep_trying(cli, url, &signals, ret_inspector);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return exit_code;
}
