/* SPDX-License-Identifier: MIT */
/* frame.h - the frames between a worker and a child: a header, then a body of the size that it
 * announces. Both sides are of one program, so numbers are in the machine's order.
 *
 * A reader never allocates an announced size: its memory grows with the bytes that have arrived. */
#ifndef QN_POOL_PREFORK_FRAME_H
#define QN_POOL_PREFORK_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/view.h"
#include "quern/status.h"

enum qn_frame_kind {
    QN_FRAME_READY = 1,  /* child: it accepts items */
    QN_FRAME_ITEM,       /* worker: a qn_frame_settings, then the body */
    QN_FRAME_RESULT,     /* child: the item has ended */
    QN_FRAME_RESULT_LAST /* child: the same, and it has more memory than it may: replace it */
};

struct qn_frame_header {
    uint32_t size; /* of the body */
    uint16_t kind; /* qn_frame_kind, or a number of the pool's user */
    uint16_t slot;
    uint64_t sequence;
};
_Static_assert(sizeof(struct qn_frame_header) == 16, "it has no padding");

struct qn_frame_settings {
    uint64_t address_space_bytes; /* as in qn_prefork_limits */
    uint64_t cpu_ms;
    uint64_t rss_max; /* 0: any */
};

struct qn_frame_reader {
    char *data;
    size_t begin; /* of what was not returned yet */
    size_t end;
    size_t capacity;
    uint64_t size_max; /* of a body */
};

void qn_frame_reader_init(struct qn_frame_reader *reader, uint64_t size_max);
void qn_frame_reader_finish(struct qn_frame_reader *reader);
/* Where the next bytes may be read to, at least a few KiB; {NULL, 0}: no memory. Ends the life of
 * bodies that were returned. */
struct qn_room qn_frame_reader_room(struct qn_frame_reader *reader);
void qn_frame_reader_add(struct qn_frame_reader *reader, size_t size);

enum qn_frame_found {
    QN_FRAME_NONE, /* more bytes are needed */
    QN_FRAME_FOUND,
    QN_FRAME_TOO_LARGE /* the stream is of no more use */
};
/* The next frame; its body may be changed, also the one byte behind it, which then must be put back
 * before the next call. */
enum qn_frame_found qn_frame_reader_next(struct qn_frame_reader *reader,
                                         struct qn_frame_header *ret_header,
                                         struct qn_room *ret_body);
#endif
