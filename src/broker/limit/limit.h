/* SPDX-License-Identifier: MIT */
/* limit.h - the part of a broker's interface that sets limits. Whether a task may run is checked by
 * exchange, by the rules of src/task/limit.h.
 *
 * For implementations:
 * - A limit of tasks that run counts the active tasks themselves, not a counter beside them, so
 *   that what a dead worker held is free when its lease has been recovered.
 * - A start is used when its run is leased. A run that is given back without having started, or
 *   that is put aside, returns it; that of a dead worker does not.
 * - A task that may not run now is left where it is. The tasks behind it, of other types and keys,
 *   are leased all the same, and within a key each type in its order.
 * - A use that lies ahead of the clock, which was turned back then, is written as it is read.
 * - The keys of a queue take turns, whether there are limits or not: each lease begins behind the
 *   key that was served last, and gives every key one task before any key gets a second. Their
 *   order is that of their bytes; tasks without a key have the key "", which at first counts as
 *   the one that was served last. At most QN_LIMIT_LANES_MAX keys and types are looked at in one
 *   lease; where there are more, wait_ms is QN_LIMIT_LOOK_MS.
 * - wait_ms of qn_queue_share says when a limit of starts lets the next task run. When a run of a
 *   queue with a limit of tasks that run ends, however it ends, sleeping workers are woken; so they
 *   are when limits are set or removed.
 * - A semaphore counts over the queues for which it is set; each of them compares with its own
 *   count. Workers that sleep on these queues are woken when a token is free.
 * - A limit of all queues counts over the queues of the broker, also those that are made later, and
 *   binds each task beside the limits of its queue. Workers that sleep on other queues are woken
 *   when a run ends that it counted.
 * - Charged tasks, probes and solo runs keep their rules, and are bound by limits, too. */
#ifndef QN_BROKER_LIMIT_LIMIT_H
#define QN_BROKER_LIMIT_LIMIT_H

#include <string.h>

#include "base/error.h"
#include "broker/broker.h"
#include "quern/inspector.h"

/* Sets or changes the one of this queue (or of all), scope, name and kind (of starts or not); the
 * caller has checked it. `used` is not read. Makes the queue if there is none. QUERN_E_UNSUPPORTED:
 * the broker has none such. */
typedef quern_status qn_set_limit_fn(struct qn_broker *broker, const quern_limit *limit,
                                     quern_error *err);
QUERN_NODISCARD qn_set_limit_fn qn_broker_set_limit;

/* Whose limits: all of this scope and name, of both kinds. */
struct qn_limit_owner {
    const char *queue; /* or QUERN_ALL_QUEUES */
    quern_limit_scope scope;
    const char *name; /* of a queue "" */
};
/* QUERN_E_NOT_FOUND: there is none. */
typedef quern_status qn_remove_limit_fn(struct qn_broker *broker,
                                        const struct qn_limit_owner *owner, quern_error *err);
QUERN_NODISCARD qn_remove_limit_fn qn_broker_remove_limit;

/* Reports the limits of a queue (NULL: of each) with their present use, those of all queues first,
 * then by queue, scope, name, those of running tasks first. Borrowed; false stops it. */
typedef quern_status qn_limits_fn(struct qn_broker *broker, const char *queue,
                                  bool (*on_limit)(const quern_limit *limit, void *user),
                                  void *user, quern_error *err);
QUERN_NODISCARD qn_limits_fn qn_broker_limits;

/* For implementations: the error of removing a limit that is not there. */
static inline quern_status qn_limit_not_found(const struct qn_limit_owner *owner, quern_error *err)
{
    return strcmp(owner->queue, QUERN_ALL_QUEUES) == 0
               ? qn_error_set(err, QUERN_E_NOT_FOUND, "there is no such limit of all queues")
               : qn_error_set(err, QUERN_E_NOT_FOUND, "queue \"%s\" has no such limit",
                              owner->queue);
}

/* Whether it has limits and keeps limit_key. */
bool qn_broker_has_limits(const struct qn_broker *broker);
/* For a task that has a limit_key: QUERN_E_UNSUPPORTED if the broker keeps none. */
QUERN_NODISCARD quern_status qn_limit_check_key(const struct qn_broker *broker, quern_error *err);

#endif
