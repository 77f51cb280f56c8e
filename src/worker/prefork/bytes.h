/* SPDX-License-Identifier: MIT */
/* bytes.h - numbers and strings in a row of bytes, written and read in the same order.
 *
 * Numbers are as this machine has them: both ends run on it. A reader never reads beyond the end:
 * what is missing there is 0 or NULL, and `ok` is false from then on. */
#ifndef QN_WORKER_PREFORK_BYTES_H
#define QN_WORKER_PREFORK_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/view.h"
#include "base/text/buf.h"

struct qn_reader {
    const char *at;
    size_t left;
    bool ok;
};

struct qn_writer {
    struct qn_buf *out;
    bool ok; /* false: out of memory, or the buffer is full */
};

void qn_bytes_put(struct qn_writer *writer, const void *data, size_t size);
void qn_bytes_put_number(struct qn_writer *writer, int64_t number);
/* With its NUL; NULL stays NULL. */
void qn_bytes_put_text(struct qn_writer *writer, const char *text);

int64_t qn_bytes_number(struct qn_reader *reader);
/* False in `ok`, too, if it is not in this range. */
int64_t qn_bytes_number_in(struct qn_reader *reader, int64_t min, int64_t max);
/* Borrowed from the bytes; NULL where NULL was written. It has no NUL inside. */
const char *qn_bytes_text(struct qn_reader *reader, size_t size_max);
/* The next `size` bytes; NULL: there are not so many. */
const void *qn_bytes_take(struct qn_reader *reader, size_t size);

#endif
