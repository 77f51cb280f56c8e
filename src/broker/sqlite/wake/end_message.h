/* SPDX-License-Identifier: MIT */
/* end_message.h - the message to clients that wait for the end of tasks. */
#ifndef QN_BROKER_SQLITE_WAKE_END_MESSAGE_H
#define QN_BROKER_SQLITE_WAKE_END_MESSAGE_H

#include "base/memory/view.h"
#include "broker/notices.h"

#define QN_END_MESSAGE_SIZE_MAX (1 + 8 * QN_NOTICES_MAX)

/* Returns its size. */
size_t qn_end_message_encode(const struct qn_notices *ends,
                             unsigned char message[QN_END_MESSAGE_SIZE_MAX]);
/* Adds what the message names. Any message that is not of ours, or of another version, means all.
 */
void qn_end_message_decode(struct qn_bytes message, struct qn_notices *notices);

#endif
