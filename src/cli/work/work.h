/* SPDX-License-Identifier: MIT */
/* work.h - what the files of `quern work` share. */
#ifndef QN_CLI_WORK_WORK_H
#define QN_CLI_WORK_WORK_H

#include "cli/cli.h"
#include "cli/handlers/zygote.h"
#include "cli/work/log.h"
#include "quern/worker.h"
#include "quern/zygote.h"
#include "task/limits.h"
#include "worker/hand_over/estate.h"

struct qn_work_failed; /* see end.c */
struct qn_work_health; /* see health.c */

struct qn_work {
    struct qn_cli *cli;
    quern_queue queues[QN_QUEUES_MAX];
    char *names[QN_QUEUES_MAX]; /* owned */
    size_t queue_count;
    uint32_t concurrency;
    bool strict;
    bool drain;
    bool until_idle;
    bool no_retry;
    bool aggregates;
    bool reloads;                             /* on HUP */
    struct qn_handlers_zygote_start handlers; /* its path is NULL: commands only */
    quern_zygote *zygote;                     /* owned; forks children, and all commands */
    quern_mux *mux;                           /* owned; NULL: that of the zygote */
    bool only_checks;        /* it is asked whether it could continue a worker, see restart.h */
    struct qn_estate estate; /* of the worker that it continues; data NULL: of none */
    struct qn_work_log log;
    struct qn_work_failed *failed; /* owned; NULL: no run has failed */
    struct qn_work_health *health; /* owned; NULL: it is not served */
    struct qn_otlp *otlp;          /* owned; NULL: it makes no spans */
};

#endif
