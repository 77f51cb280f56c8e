/* SPDX-License-Identifier: MIT */
/* lines.h - reads a file or a pipe line by line, with a limit for one line. */
#ifndef QN_CLI_ENQUEUE_LINES_H
#define QN_CLI_ENQUEUE_LINES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"

#define QN_LINES_BLOCK_SIZE 65536

struct qn_lines {
    int fd;
    const volatile sig_atomic_t *stop; /* a signal handler sets it: read no further; may be NULL */
    bool ended;
    uint64_t line_number; /* of the line that was read last, from 1 */
    uint64_t byte_count;  /* read so far */
    size_t block_at;
    size_t block_size;
    struct qn_buf line;
    char block[QN_LINES_BLOCK_SIZE];
};

void qn_lines_init(struct qn_lines *lines, int fd, size_t line_size_max);
void qn_lines_finish(struct qn_lines *lines); /* does not close fd */
/* Reads the next line into lines->line, without its end; *ret_more is false at the end of the file.
 * QUERN_E_FULL: the line is longer than the limit; QUERN_E_CLOSED: *stop is set; QUERN_E_BROKER:
 * reading failed, see errno. */
QUERN_NODISCARD quern_status qn_lines_next(struct qn_lines *lines, bool *ret_more);

#endif
