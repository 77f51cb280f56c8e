/* SPDX-License-Identifier: MIT */
/* tail.h - the stderr of a child: copied to ours, and its last bytes kept. One thread. */
#ifndef QN_POOL_PREFORK_INSIDE_TAIL_H
#define QN_POOL_PREFORK_INSIDE_TAIL_H

#include <stdbool.h>
#include <stddef.h>

struct qn_tail {
    int fd;     /* of the pipe, does not block; -1: at its end */
    char *data; /* twice size_max */
    size_t size;
    size_t size_max;
};

/* False: out of memory. take_fd: closed in qn_tail_finish. */
bool qn_tail_init(struct qn_tail *tail, int take_fd, size_t size_max);
void qn_tail_finish(struct qn_tail *tail);
enum qn_tail_state {
    QN_TAIL_OPEN,
    QN_TAIL_BLOCKED, /* our own stderr takes nothing at present */
    QN_TAIL_ENDED
};
/* Reads what has come. last: the child has ended; what our stderr does not take is not copied. */
enum qn_tail_state qn_tail_read(struct qn_tail *tail, bool last);
/* The end of its text as UTF-8; "" if there is none. Allocated with qn_alloc; NULL: no memory. */
char *qn_tail_text(const struct qn_tail *tail);

#endif
