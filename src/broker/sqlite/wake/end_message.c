/* SPDX-License-Identifier: MIT */
/* end_message.c - "t" and the marks of the ended tasks, 8 bytes each, the lowest first; or "e": too
 * many have ended, or it is not known which. */
#include "broker/sqlite/wake/end_message.h"

#define NAMES 't'
#define ALL 'e'
#define MARK_SIZE 8
#define BYTE_BITS 8

size_t qn_end_message_encode(const struct qn_notices *ends,
                             unsigned char message[QN_END_MESSAGE_SIZE_MAX])
{
    if (ends->all || ends->count == 0) {
        message[0] = ALL;
        return 1;
    }
    message[0] = NAMES;
    unsigned char *at = message + 1;
    for (size_t i = 0; i < ends->count; i++) {
        for (unsigned byte = 0; byte < MARK_SIZE; byte++) {
            *at++ = (unsigned char)(ends->tasks[i] >> (byte * BYTE_BITS));
        }
    }
    return (size_t)(at - message);
}

void qn_end_message_decode(struct qn_bytes message, struct qn_notices *notices)
{
    const unsigned char *at = message.data;
    bool names = message.size > 1 && message.size <= QN_END_MESSAGE_SIZE_MAX && at[0] == NAMES &&
                 (message.size - 1) % MARK_SIZE == 0;
    if (!names) {
        notices->all = true;
        return;
    }
    const unsigned char *end = at + message.size;
    for (at++; at < end; at += MARK_SIZE) {
        uint64_t task = 0;
        for (unsigned byte = 0; byte < MARK_SIZE; byte++) {
            task |= (uint64_t)at[byte] << (byte * BYTE_BITS);
        }
        qn_notices_add(notices, task);
    }
}
