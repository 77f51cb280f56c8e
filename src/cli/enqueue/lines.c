/* SPDX-License-Identifier: MIT */
/* lines.c - a line reader on a descriptor.
 *
 * Reads blocks and copies up to each line end, so that memory is bounded by one block and one line
 * however long the file is. The last line needs no line end. A UTF-8 byte order mark at the start,
 * which editors and spreadsheets of Windows write, is not part of the first line. A failure leaves
 * the reader where it was; it is not meant to be used further. */
#include "cli/enqueue/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void qn_lines_init(struct qn_lines *lines, int fd, size_t line_size_max)
{
    lines->fd = fd;
    lines->stop = NULL;
    lines->ended = false;
    lines->line_number = 0;
    lines->byte_count = 0;
    lines->block_at = 0;
    lines->block_size = 0;
    qn_buf_init(&lines->line, line_size_max);
}

void qn_lines_finish(struct qn_lines *lines)
{
    qn_buf_finish(&lines->line);
}

static quern_status fill(struct qn_lines *lines)
{
    ssize_t size = 0;
    do {
        if (lines->stop != NULL && *lines->stop != 0) {
            return QUERN_E_CLOSED;
        }
        size = read(lines->fd, lines->block, sizeof lines->block);
    } while (size < 0 && errno == EINTR);
    if (size < 0) {
        return QUERN_E_BROKER;
    }
    lines->ended = size == 0;
    lines->block_at = 0;
    lines->block_size = (size_t)size;
    lines->byte_count += (uint64_t)size;
    return QUERN_OK;
}

static quern_status read_line(struct qn_lines *lines, bool *ret_more)
{
    bool any = false;
    qn_buf_reset(&lines->line);
    for (;;) {
        if (lines->block_at == lines->block_size) {
            quern_status status = lines->ended ? QUERN_OK : fill(lines);
            if (status != QUERN_OK) {
                return status;
            }
        }
        if (lines->ended) {
            lines->line_number += any ? 1 : 0;
            *ret_more = any;
            return QUERN_OK;
        }
        const char *start = lines->block + lines->block_at;
        size_t left = lines->block_size - lines->block_at;
        const char *end = memchr(start, '\n', left);
        size_t size = end != NULL ? (size_t)(end - start) : left;
        quern_status status = qn_buf_append(&lines->line, start, size);
        if (status != QUERN_OK) {
            lines->line_number++;
            return status;
        }
        any = true;
        lines->block_at += end != NULL ? size + 1 : size;
        if (end != NULL) {
            lines->line_number++;
            *ret_more = true;
            return QUERN_OK;
        }
    }
}

static void skip_mark(struct qn_buf *line)
{
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    if (line->size >= sizeof mark && memcmp(line->data, mark, sizeof mark) == 0) {
        line->size -= sizeof mark;
        memmove(line->data, line->data + sizeof mark, line->size);
        line->data[line->size] = '\0';
    }
}

quern_status qn_lines_next(struct qn_lines *lines, bool *ret_more)
{
    quern_status status = read_line(lines, ret_more);
    if (status == QUERN_OK && *ret_more && lines->line_number == 1) {
        skip_mark(&lines->line);
    }
    return status;
}
