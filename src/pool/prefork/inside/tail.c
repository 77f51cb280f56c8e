/* SPDX-License-Identifier: MIT */
/* tail.c - reads the stderr of a child.
 *
 * The pool's thread must not block on our stderr, and may not make it non-blocking, as other
 * programs share it. So it writes at most PIPE_BUF bytes at a time, after poll has said that there
 * is room, and else leaves the rest in the child's pipe: the child then waits, as it would if it
 * wrote to our stderr itself. */
#include "pool/prefork/inside/tail.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/text/utf8.h"

enum { READS_MAX = 32 };

bool qn_tail_init(struct qn_tail *tail, int take_fd, size_t size_max)
{
    *tail = (struct qn_tail){.fd = take_fd, .size_max = size_max};
    tail->data = qn_alloc(2 * size_max + 1);
    return tail->data != NULL;
}

void qn_tail_finish(struct qn_tail *tail)
{
    if (tail->fd >= 0) {
        (void)close(tail->fd);
        tail->fd = -1;
    }
    qn_free(tail->data);
    tail->data = NULL;
}

static void keep(struct qn_tail *tail, const char *data, size_t size)
{
    if (size > tail->size_max) {
        data += size - tail->size_max;
        size = tail->size_max;
    }
    if (tail->size + size > 2 * tail->size_max) {
        size_t kept = tail->size_max - size;
        memmove(tail->data, tail->data + tail->size - kept, kept);
        tail->size = kept;
    }
    memcpy(tail->data + tail->size, data, size);
    tail->size += size;
}

static bool can_copy(void)
{
    struct pollfd ours = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&ours, 1, 0) != 0; /* one that is closed takes everything */
}

enum qn_tail_state qn_tail_read(struct qn_tail *tail, bool last)
{
    char data[PIPE_BUF];
    for (int i = 0; i < READS_MAX && tail->fd >= 0; i++) {
        bool copies = can_copy();
        if (!copies && !last) {
            return QN_TAIL_BLOCKED;
        }
        ssize_t count = read(tail->fd, data, sizeof data);
        if (count > 0) {
            keep(tail, data, (size_t)count);
            if (copies) {
                (void)!write(STDERR_FILENO, data, (size_t)count);
            }
        } else if (count == 0 || errno != EINTR) {
            return count < 0 && errno == EAGAIN ? QN_TAIL_OPEN : QN_TAIL_ENDED;
        }
    }
    return QN_TAIL_OPEN;
}

char *qn_tail_text(const struct qn_tail *tail)
{
    size_t kept = tail->size < tail->size_max ? tail->size : tail->size_max;
    const char *begin = tail->data + tail->size - kept;
    while (kept > 0 && ((unsigned char)*begin & 0xc0) == 0x80) { /* not inside a character */
        begin++;
        kept--;
    }
    char *text = qn_alloc(3 * kept + 1);
    if (text != NULL) {
        (void)qn_utf8_sanitize(begin, kept, text, 3 * kept + 1);
    }
    return text;
}
