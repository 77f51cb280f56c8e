/* SPDX-License-Identifier: MIT */
/* stderr_tail.h - the last bytes of a text that may have no end. */
#ifndef QN_POOL_EXEC_STDERR_TAIL_H
#define QN_POOL_EXEC_STDERR_TAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"

struct qn_stderr_tail {
    struct qn_buf text; /* has the last bytes at its end; finish it with qn_buf_finish */
    size_t kept_max;
    bool is_cut; /* there was more */
};

void qn_stderr_tail_init(struct qn_stderr_tail *tail, size_t kept_max);
/* Out of memory the older bytes are kept. */
void qn_stderr_tail_add(struct qn_stderr_tail *tail, const char *data, size_t size);
/* Drops what stands before the last size_max bytes. */
void qn_stderr_tail_trim(struct qn_stderr_tail *tail, size_t size_max);

#endif
