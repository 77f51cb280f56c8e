/* SPDX-License-Identifier: MIT */
/* wait.h - the sockets of a broker object that waits. */
#ifndef QN_BROKER_SQLITE_WAKE_WAIT_H
#define QN_BROKER_SQLITE_WAKE_WAIT_H

#include "broker/sqlite/sqlite.h"

void qn_wait_init(struct qn_waiter *waiter);
/* Makes the descriptor that interrupts a wait; the first call of arm or wait makes the sockets. */
QUERN_NODISCARD quern_status qn_wait_open(struct qn_sqlite *self, quern_error *err);
/* Removes the sockets. */
void qn_wait_close(struct qn_sqlite *self);
void qn_wait_finish(struct qn_waiter *waiter);

#endif
