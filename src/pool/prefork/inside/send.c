/* SPDX-License-Identifier: MIT */
/* send.c - frames are collected and written together, without blocking.
 *
 * Small bytes are copied behind each other, so that a window needs one write. A large body is not
 * copied: it is written from where it lies, and frames that come meanwhile wait behind it. */
#include "pool/prefork/inside/send.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { COPIED_MAX = 16384, KEPT_CAPACITY = 262144 };

void qn_send_init(struct qn_send *send)
{
    *send = (struct qn_send){0};
    qn_buf_init(&send->before, SIZE_MAX);
    qn_buf_init(&send->after, SIZE_MAX);
}

void qn_send_finish(struct qn_send *send)
{
    qn_buf_finish(&send->before);
    qn_buf_finish(&send->after);
    send->more = (struct qn_bytes){0};
    send->sent = 0;
}

static bool append(struct qn_buf *buf, const struct qn_bytes *parts, size_t count)
{
    size_t size = buf->size;
    for (size_t i = 0; i < count; i++) {
        if (qn_buf_append(buf, parts[i].data, parts[i].size) != QUERN_OK) {
            buf->size = size;
            return false;
        }
    }
    return true;
}

static struct qn_buf *last_buf(struct qn_send *send)
{
    return send->more.size > 0 ? &send->after : &send->before;
}

bool qn_send_frame(struct qn_send *send, const struct qn_frame_header *header, struct qn_bytes body)
{
    struct qn_frame_header head = *header;
    head.size = (uint32_t)body.size;
    const struct qn_bytes parts[] = {{&head, sizeof head}, body};
    return body.size <= UINT32_MAX && append(last_buf(send), parts, 2);
}

bool qn_send_borrows(size_t more_size)
{
    return more_size > COPIED_MAX;
}

bool qn_send_has_borrowed(const struct qn_send *send)
{
    return send->more.size > 0;
}

bool qn_send_item(struct qn_send *send, const struct qn_send_item *item)
{
    struct qn_frame_header head = item->header;
    size_t size = sizeof item->settings + item->body.size + item->more.size;
    if (item->body.size > UINT32_MAX / 4 || item->more.size > UINT32_MAX / 2) {
        return false;
    }
    head.size = (uint32_t)size;
    const struct qn_bytes parts[] = {
        {&head, sizeof head}, {&item->settings, sizeof item->settings}, item->body, item->more};
    bool borrows = qn_send_borrows(item->more.size) && send->more.size == 0;
    if (!append(last_buf(send), parts, borrows ? 3 : 4)) {
        return false;
    }
    if (borrows) {
        send->more = item->more;
    }
    return true;
}

static void mark_sent(struct qn_send *send, size_t count)
{
    size_t left = send->before.size - send->sent;
    if (count < left) {
        send->sent += count;
        return;
    }
    count -= left;
    send->sent = 0;
    if (send->before.capacity > KEPT_CAPACITY) {
        qn_buf_finish(&send->before);
    } else {
        qn_buf_reset(&send->before);
    }
    if (count < send->more.size) {
        send->more.data = (const char *)send->more.data + count;
        send->more.size -= count;
        return;
    }
    count -= send->more.size;
    send->more = (struct qn_bytes){0};
    struct qn_buf empty = send->before;
    send->before = send->after;
    send->after = empty;
    send->sent = count;
    if (send->sent == send->before.size) {
        qn_buf_reset(&send->before);
        send->sent = 0;
    }
}

bool qn_send_flush(struct qn_send *send, int socket_fd)
{
    while (send->before.size > send->sent || send->more.size > 0) {
        union {
            const void *given;
            void *taken;
        } more = {.given = send->more.data}; /* sendmsg does not change it */
        struct iovec parts[3] = {{send->before.data == NULL ? NULL : send->before.data + send->sent,
                                  send->before.size - send->sent},
                                 {more.taken, send->more.size},
                                 {send->after.data, send->after.size}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
        ssize_t count = sendmsg(socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        if (count > 0) {
            mark_sent(send, (size_t)count);
        }
    }
    return true;
}
