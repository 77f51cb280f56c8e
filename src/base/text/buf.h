/* SPDX-License-Identifier: MIT */
/* buf.h - bytes that grow up to a limit. Always NUL-terminated behind its size, so that the data
 * can be used as a string. One thread at a time. */
#ifndef QN_BASE_TEXT_BUF_H
#define QN_BASE_TEXT_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "quern/status.h"

struct qn_buf {
    char *data; /* NULL while empty and never grown */
    size_t size;
    size_t capacity;
    size_t size_max;
};

void qn_buf_init(struct qn_buf *buf, size_t size_max);
void qn_buf_finish(struct qn_buf *buf);
void qn_buf_reset(struct qn_buf *buf); /* size 0, memory kept */
/* QUERN_E_NOMEM or, past size_max, QUERN_E_FULL; the buffer is unchanged then. */
QUERN_NODISCARD quern_status qn_buf_append(struct qn_buf *buf, const void *data, size_t size);
QUERN_NODISCARD quern_status qn_buf_append_text(struct qn_buf *buf, const char *text);
QUERN_NODISCARD quern_status qn_buf_printf(struct qn_buf *buf, const char *format, ...)
    QUERN_PRINTF(2, 3);
const char *qn_buf_text(const struct qn_buf *buf); /* "" when empty */

#endif
