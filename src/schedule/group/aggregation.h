/* SPDX-License-Identifier: MIT */
/* aggregation.h - one call of an aggregator for one set: the definition of quern_aggregation. */
#ifndef QN_SCHEDULE_GROUP_AGGREGATION_H
#define QN_SCHEDULE_GROUP_AGGREGATION_H

#include <pthread.h>
#include <stdatomic.h>

#include "message/id.h"
#include "quern/group.h"
#include "schedule/group/group_table.h"
#include "task/limits.h"

enum qn_aggregation_cancel {
    QN_AGGREGATION_GOES_ON = 0,
    QN_AGGREGATION_TIMEOUT,
    QN_AGGREGATION_LEASE_LOST,
    QN_AGGREGATION_SHUTDOWN
};

struct qn_launcher;

/* The thread of the aggregator owns it; fields that others use are marked. */
struct quern_aggregation {
    struct qn_broker *broker;
    const struct quern_clock *clock;
    struct qn_stamp *stamp; /* of the thread that aggregates */
    struct qn_id_source *ids;
    struct qn_launcher *launcher; /* starts a command; NULL: a fork of this process does */
    struct qn_group_set *set;     /* owned */
    struct qn_group_entry entry;  /* a copy */
    quern_task *tasks;            /* the members as they are passed on, both owned */
    const quern_task **members;
    int64_t timeout_at_mono_ns; /* 0: never */
    bool stored;
    char error[QN_ERROR_TEXT_SIZE_MAX + 1]; /* "": none */
    _Atomic bool ends;                      /* a request that ends the set was sent; all threads */
    _Atomic int cancel_reason;              /* a qn_aggregation_cancel; all threads */
    _Atomic bool abandoned;                 /* given up: a command must not continue; all threads */
    pthread_mutex_t cancel_mutex;           /* guards making cancel_fd */
    int cancel_fd;                          /* -1 until requested */
};

/* Takes the set, also on failure. QUERN_E_NOMEM. */
QUERN_NODISCARD quern_status qn_aggregation_init(struct quern_aggregation *aggregation,
                                                 struct qn_group_set *take_set,
                                                 const struct qn_group_entry *entry,
                                                 quern_error *err);
void qn_aggregation_finish(struct quern_aggregation *aggregation);
/* The first reason counts. Makes the descriptor readable. Any thread. */
void qn_aggregation_cancel(struct quern_aggregation *aggregation,
                           enum qn_aggregation_cancel reason);
enum qn_aggregation_cancel qn_aggregation_cancel_reason(
    const struct quern_aggregation *aggregation);
/* Deletes the members, and stores the task unless it is NULL. Waits while the broker does not
 * answer, until it is cancelled. */
QUERN_NODISCARD quern_status qn_aggregation_end(struct quern_aggregation *aggregation,
                                                const struct qn_task *task, quern_error *err);

#endif
