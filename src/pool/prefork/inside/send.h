/* SPDX-License-Identifier: MIT */
/* send.h - what waits to be written to a child. The caller locks. */
#ifndef QN_POOL_PREFORK_INSIDE_SEND_H
#define QN_POOL_PREFORK_INSIDE_SEND_H

#include <stdbool.h>

#include "base/text/buf.h"
#include "pool/prefork/frame.h"

struct qn_send {
    struct qn_buf before; /* owned bytes; the first `sent` of them are written */
    size_t sent;
    struct qn_bytes more; /* borrowed: the rest of an item's body */
    struct qn_buf after;  /* owned bytes behind it */
};

void qn_send_init(struct qn_send *send);
void qn_send_finish(struct qn_send *send);
/* Appends a frame. False: out of memory, or too large for a frame; nothing was appended. */
bool qn_send_frame(struct qn_send *send, const struct qn_frame_header *header,
                   struct qn_bytes body);
/* A frame with a body in three parts; large bytes in `more` are borrowed until they are written. */
struct qn_send_item {
    struct qn_frame_header header; /* its size is filled in */
    struct qn_frame_settings settings;
    struct qn_bytes body;
    struct qn_bytes more;
};
bool qn_send_item(struct qn_send *send, const struct qn_send_item *item);
/* Whether `more` of this size is borrowed. */
bool qn_send_borrows(size_t more_size);
/* Whether borrowed bytes wait. */
bool qn_send_has_borrowed(const struct qn_send *send);
/* Writes what the socket takes. True: all is written; false: it is full, or broken, as its reader
 * will find out. */
bool qn_send_flush(struct qn_send *send, int socket_fd);

#endif
