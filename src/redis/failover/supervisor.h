/* SPDX-License-Identifier: MIT */
/* supervisor.h - a thread that finds out that the link should go to another server, although the
 * present one answers.
 *
 * Of a list it probes the preferred server while another one is used, ever more seldom, and returns
 * to it. With sentinels it waits for their message that there is another master, and asks them from
 * time to time, as such a message can be lost. Where there is only one server there is no
 * thread. */
#ifndef QN_REDIS_FAILOVER_SUPERVISOR_H
#define QN_REDIS_FAILOVER_SUPERVISOR_H

#include <pthread.h>
#include <stdbool.h>

#include "base/memory/arena.h"
#include "redis/connection.h"
#include "redis/failover/failover.h"
#include "redis/failover/sentinel.h"

struct qn_supervisor {
    struct qn_failover *failover;   /* borrowed */
    struct qn_sentinels *sentinels; /* borrowed; NULL: the servers are a list */
    int stop_fd;                    /* an eventfd, written once */
    bool runs;
    pthread_t thread;
};

/* Starts the thread where one is needed. QUERN_E_NOMEM, QUERN_E_CONNECT: no thread or descriptor
 * is left. */
QUERN_NODISCARD quern_status qn_supervisor_start(struct qn_supervisor *supervisor,
                                                 struct qn_failover *failover,
                                                 struct qn_sentinels *sentinels, quern_error *err);
/* Ends it, within the time for one attempt to connect. */
void qn_supervisor_stop(struct qn_supervisor *supervisor);

#endif
