/* SPDX-License-Identifier: MIT */
/* watch.h - reports a scheduler to the service manager. */
#ifndef QN_CLI_SCHEDULE_WATCH_H
#define QN_CLI_SCHEDULE_WATCH_H

#include "quern/scheduler.h"

struct qn_schedule_watch;

/* Starts a thread that reports it, where a service manager wants that; else NULL. The scheduler
 * must live until stop. */
struct qn_schedule_watch *qn_schedule_watch_start(const quern_scheduler *scheduler);
/* NULL is allowed. Reports that the service ends. */
void qn_schedule_watch_stop(struct qn_schedule_watch *watch);

#endif
