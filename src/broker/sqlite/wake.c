/* SPDX-License-Identifier: MIT */
/* wake.c - wakes the workers that wait on a file: the roster of their sockets. */
#include "broker/sqlite/sqlite.h"
void qn_sqlite_wake(struct qn_sqlite *self)
{
    (void)self;
}
void qn_sqlite_waiter_close(struct qn_sqlite *self)
{
    (void)self;
}
void qn_sqlite_roster_close(struct qn_sqlite *self)
{
    (void)self;
}
