/* SPDX-License-Identifier: MIT */
/* orders.h - lines by which a command decides about its task, beside its exit code. */
#ifndef QN_WORKER_EXEC_ORDERS_H
#define QN_WORKER_EXEC_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/run.h"
#include "worker/policy/handler_options.h"

enum { QN_ORDERS_CLASS_SIZE = QN_ERROR_CLASS_SIZE_MAX + 1, QN_ORDERS_WRONG_SIZE = 100 };

enum qn_order {
    QN_ORDER_NONE = 0,
    QN_ORDER_RETRY_IN, /* "retry-in=30s": if it fails, it is run again then */
    QN_ORDER_SNOOZE,   /* "snooze=5m": it is run again then, and no attempt is used up */
    QN_ORDER_NO_RETRY  /* "no-retry=CLASS": if it fails, it is archived */
};

/* Zeroed at first. */
struct qn_orders {
    enum qn_order order; /* the last one */
    int64_t delay_ms;
    char class_name
        [QN_ORDERS_CLASS_SIZE];       /* of the failure, also by "error-class=CLASS"; "": none */
    char wrong[QN_ORDERS_WRONG_SIZE]; /* the first line that is no order, but looks like one;
                                            * "": none; valid UTF-8, cut where it is long */
};

/* Takes one line, without white space around it. False: it is none of ours. */
QUERN_NODISCARD bool qn_orders_take(struct qn_orders *orders, const char *line, size_t size);
/* The outcome of a command that ended with this exit code. */
quern_outcome qn_orders_decide(const struct qn_orders *orders, int exit_code);

#endif
