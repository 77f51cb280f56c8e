/* SPDX-License-Identifier: MIT */
/* until_signal.c - a worker that SIGINT and SIGTERM stop, for programs without a handler. */
#include "pool/until_signal.h"
#include "base/error.h"
#include "quern/worker.h"

static quern_status run(void *object, quern_error *err)
{
    return quern_worker_run(object, err);
}

static void stop(void *object)
{
    quern_worker_stop(object);
}

quern_status quern_worker_run_until_signal(quern_worker *worker, quern_error *err)
{
    if (worker == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "worker: must not be NULL");
    }
    const struct qn_until_signal activity = {.run = run, .stop = stop, .object = worker};
    return qn_until_signal_run(&activity, err);
}
