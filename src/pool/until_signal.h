/* SPDX-License-Identifier: MIT */
/* until_signal.h - runs a worker or a scheduler until SIGINT or SIGTERM. */
#ifndef QN_POOL_UNTIL_SIGNAL_H
#define QN_POOL_UNTIL_SIGNAL_H

#include "quern/status.h"

struct qn_until_signal {
    quern_status (*run)(void *object, quern_error *err); /* blocks until it is stopped */
    void (*stop)(void *object);                          /* any thread, several times */
    void *object;
};

/* The status of run. QUERN_E_FULL: no descriptor is free; QUERN_E_NOMEM: no thread. */
QUERN_NODISCARD quern_status qn_until_signal_run(const struct qn_until_signal *activity,
                                                 quern_error *err);

#endif
