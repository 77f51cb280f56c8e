/* SPDX-License-Identifier: MIT */
/* command.c - sends a command to workers: a message to the socket on which each of them receives
 * cancellations. Nothing is stored. */
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/wake/waiters.h"

quern_status qn_sqlite_command(struct qn_broker *broker, const char *text, quern_error *err)
{
    (void)err;
    qn_waiters_command(qn_sqlite_of(broker), text);
    return QUERN_OK;
}
