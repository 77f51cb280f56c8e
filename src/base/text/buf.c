/* SPDX-License-Identifier: MIT */
/* buf.c - bytes that grow up to a limit.
 *
 * Growth doubles, and the byte after the data is always NUL. An append that would pass size_max, or
 * for which there is no memory, leaves the buffer unchanged. */
#include "base/text/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory/alloc.h"

#define CAPACITY_MIN ((size_t)64)

/* Makes room for `more` bytes and the NUL behind them. */
static quern_status reserve(struct qn_buf *buf, size_t more)
{
    QN_ASSERT(buf->size <= buf->size_max);
    if (more > buf->size_max - buf->size) {
        return QUERN_E_FULL;
    }
    size_t needed = buf->size + more + 1;
    if (needed <= buf->capacity) {
        return QUERN_OK;
    }
    size_t capacity = buf->capacity < CAPACITY_MIN ? CAPACITY_MIN : buf->capacity;
    while (capacity < needed) {
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    }
    char *data = qn_realloc(buf->data, capacity);
    if (data == NULL) {
        return QUERN_E_NOMEM;
    }
    buf->data = data;
    buf->capacity = capacity;
    return QUERN_OK;
}

void qn_buf_init(struct qn_buf *buf, size_t size_max)
{
    /* The NUL needs a byte that a size_t can still count. */
    *buf = (struct qn_buf){.size_max = size_max == SIZE_MAX ? SIZE_MAX - 1 : size_max};
}

void qn_buf_finish(struct qn_buf *buf)
{
    qn_free(buf->data);
    *buf = (struct qn_buf){.size_max = buf->size_max};
}

void qn_buf_reset(struct qn_buf *buf)
{
    buf->size = 0;
    if (buf->data != NULL) {
        buf->data[0] = '\0';
    }
}

quern_status qn_buf_append(struct qn_buf *buf, const void *data, size_t size)
{
    quern_status status = reserve(buf, size);
    if (status != QUERN_OK) {
        return status;
    }
    if (size > 0) {
        memcpy(buf->data + buf->size, data, size);
    }
    buf->size += size;
    buf->data[buf->size] = '\0';
    return QUERN_OK;
}

quern_status qn_buf_append_text(struct qn_buf *buf, const char *text)
{
    return qn_buf_append(buf, text, strlen(text));
}

quern_status qn_buf_printf(struct qn_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    quern_status status = size < 0 ? QUERN_E_INVALID : reserve(buf, (size_t)size);
    if (status == QUERN_OK) {
        (void)vsnprintf(buf->data + buf->size, (size_t)size + 1, format, again);
        buf->size += (size_t)size;
    }
    va_end(again);
    return status;
}

const char *qn_buf_text(const struct qn_buf *buf)
{
    return buf->data == NULL ? "" : buf->data;
}
