/* SPDX-License-Identifier: MIT */
/* listing.h - the part of a broker's interface that lists queues and tasks: for inspectors, and for
 * the log of a worker.
 *
 * It belongs to broker.h, whose rules and errors hold here, too. A listing is a consistent snapshot
 * where the broker has transactions for reading, and never delays a writer. Callbacks receive
 * borrowed data; a callback that returns false stops the listing. */
#ifndef QN_BROKER_LISTING_H
#define QN_BROKER_LISTING_H

#include "broker/broker.h"
#include "broker/task_info.h"

/* only: the queues to be listed; NULL: all. A server does not look at the others then, and one that
 * does not exist may be reported as empty. */
typedef quern_status qn_queues_fn(struct qn_broker *broker, const struct qn_names *only,
                                  bool (*on_queue)(const quern_queue_info *queue, void *user),
                                  void *user, quern_error *err);
QUERN_NODISCARD qn_queues_fn qn_broker_queues;

typedef quern_status qn_tasks_fn(struct qn_broker *broker, const quern_task_filter *filter,
                                 bool (*on_task)(const quern_task_info *info, void *user),
                                 void *user, quern_error *err);
QUERN_NODISCARD qn_tasks_fn qn_broker_tasks;

#endif
