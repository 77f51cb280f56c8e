/* SPDX-License-Identifier: MIT */
/* frame.c - takes frames out of a stream of bytes.
 *
 * One block of memory: bytes are read behind `end`, frames are returned from `begin`. What is left
 * of an incomplete frame moves to the front; when the block is full it doubles, so that a peer that
 * announces much and sends little costs little. A block that a large frame made is given back. */
#include "pool/prefork/frame.h"

#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/memory/alloc.h"

enum { FIRST_CAPACITY = 16384, KEPT_CAPACITY = 262144, ROOM_MIN = 4096 };

void qn_frame_reader_init(struct qn_frame_reader *reader, uint64_t size_max)
{
    *reader = (struct qn_frame_reader){.size_max = size_max};
}

void qn_frame_reader_finish(struct qn_frame_reader *reader)
{
    qn_free(reader->data);
    *reader = (struct qn_frame_reader){.size_max = reader->size_max};
}

static void compact(struct qn_frame_reader *reader)
{
    size_t left = reader->end - reader->begin;
    if (left == 0 && reader->capacity > KEPT_CAPACITY) {
        qn_frame_reader_finish(reader);
    } else if (reader->begin > 0) {
        memmove(reader->data, reader->data + reader->begin, left);
        reader->begin = 0;
        reader->end = left;
    }
}

struct qn_room qn_frame_reader_room(struct qn_frame_reader *reader)
{
    if (reader->begin == reader->end || reader->capacity - reader->end <= ROOM_MIN) {
        compact(reader);
    }
    if (reader->capacity - reader->end <= ROOM_MIN) {
        size_t capacity = reader->capacity == 0 ? FIRST_CAPACITY : 2 * reader->capacity;
        char *data = qn_realloc(reader->data, capacity);
        if (data == NULL) {
            return (struct qn_room){NULL, 0};
        }
        reader->data = data;
        reader->capacity = capacity;
    }
    /* The byte behind the last body belongs to us, too. */
    return (struct qn_room){reader->data + reader->end, reader->capacity - reader->end - 1};
}

void qn_frame_reader_add(struct qn_frame_reader *reader, size_t size)
{
    QN_ASSERT(size < reader->capacity - reader->end);
    reader->end += size;
}

enum qn_frame_found qn_frame_reader_next(struct qn_frame_reader *reader,
                                         struct qn_frame_header *ret_header,
                                         struct qn_room *ret_body)
{
    struct qn_frame_header header;
    size_t left = reader->end - reader->begin;
    if (left < sizeof header) {
        return QN_FRAME_NONE;
    }
    memcpy(&header, reader->data + reader->begin, sizeof header);
    if (header.size > reader->size_max && !QN_BUG(FRAME_SIZE_BELIEVED)) {
        return QN_FRAME_TOO_LARGE;
    }
    if (left - sizeof header < header.size) {
        return QN_FRAME_NONE;
    }
    *ret_body = (struct qn_room){reader->data + reader->begin + sizeof header, header.size};
    *ret_header = header;
    reader->begin += sizeof header + header.size;
    return QN_FRAME_FOUND;
}
