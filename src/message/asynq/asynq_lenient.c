/* SPDX-License-Identifier: MIT */
/* asynq_lenient.c - rewrites a message that protobuf-c refuses into one that it accepts.
 *
 * Go's decoder skips unexpected fields: a group, or a known field with another type on the wire.
 * protobuf-c fails on both, so a task that every Go worker runs would be lost for us. Only messages
 * that protobuf-c refused are passed to this file. The fields that are kept are copied as they are;
 * a message within the message becomes shorter when one of its fields is left out. Messages that Go
 * refuses, too, stay refused: a number or a length that does not end, field 0, a group without its
 * end. */
#include "message/asynq/asynq_lenient.h"

#include <string.h>

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, GROUP_START = 3, GROUP_END = 4, FIXED32 = 5 };
enum { VARINT_SIZE_MAX = 10, GROUPS_MAX = 100 };
#define FIELD_MAX UINT64_C(0x1fffffff)

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_bad;
};

static uint64_t read_varint(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < VARINT_SIZE_MAX && reader->at < reader->end; i++) {
        uint8_t byte = *reader->at++;
        if (i == VARINT_SIZE_MAX - 1 && byte > 1) {
            break; /* more than 64 bits */
        }
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            return value;
        }
    }
    reader->is_bad = true;
    return 0;
}

static void skip(struct reader *reader, uint64_t size)
{
    if (size > (uint64_t)(reader->end - reader->at)) {
        reader->is_bad = true;
    } else {
        reader->at += size;
    }
}

/* The head of a field: its number; its type on the wire in *ret_wire. */
static uint32_t read_head(struct reader *reader, enum wire *ret_wire)
{
    uint64_t head = read_varint(reader);
    *ret_wire = (enum wire)(head & 7);
    reader->is_bad = reader->is_bad || head >> 3 == 0 || head >> 3 > FIELD_MAX;
    return reader->is_bad ? 0 : (uint32_t)(head >> 3);
}

/* The value of a field that is no group. */
static void skip_value(struct reader *reader, enum wire wire)
{
    switch (wire) {
    case VARINT:
        (void)read_varint(reader);
        return;
    case FIXED64:
        skip(reader, 8);
        return;
    case FIXED32:
        skip(reader, 4);
        return;
    case BYTES: {
        uint64_t size = read_varint(reader);
        skip(reader, reader->is_bad ? 0 : size);
        return;
    }
    case GROUP_START:
    case GROUP_END:
        break;
    }
    reader->is_bad = true; /* also the two types that there are not */
}

/* To behind the end of the group `number`, whose start was read. */
static void skip_group(struct reader *reader, uint32_t number)
{
    uint32_t open[GROUPS_MAX];
    size_t count = 0;
    open[count++] = number;
    while (count > 0 && !reader->is_bad) {
        enum wire wire;
        uint32_t inner = read_head(reader, &wire);
        if (reader->is_bad) {
            return;
        }
        if (wire == GROUP_START) {
            reader->is_bad = count == GROUPS_MAX;
            open[count < GROUPS_MAX ? count : 0] = inner;
            count++;
        } else if (wire == GROUP_END) {
            reader->is_bad = open[--count] != inner;
        } else {
            skip_value(reader, wire);
        }
    }
}

static enum wire wire_of(const ProtobufCFieldDescriptor *field)
{
    bool is_long = field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_MESSAGE;
    return is_long ? BYTES : VARINT; /* there are no other types in our messages */
}

static size_t write_varint(uint8_t *out, uint64_t value)
{
    size_t size = 0;
    while (value >= 0x80) {
        out[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[size++] = (uint8_t)value;
    return size;
}

/* A message inside, whose head is the `head_size` bytes at `out` already. It is copied behind the
 * room that its old length needs, and moved to where its new one, which is no longer, ends. */
static size_t copy_inner(struct reader *reader, const ProtobufCMessageDescriptor *descriptor,
                         uint8_t *out)
{
    const uint8_t *start = reader->at;
    uint64_t size = read_varint(reader);
    const uint8_t *inner = reader->at;
    skip(reader, reader->is_bad ? 0 : size);
    size_t copied = 0;
    uint8_t *place = out + (inner - start);
    if (reader->is_bad || !qn_lenient_copy(descriptor, inner, (size_t)size, place, &copied)) {
        reader->is_bad = true;
        return 0;
    }
    size_t length_size = write_varint(out, copied);
    memmove(out + length_size, place, copied);
    return length_size + copied;
}

bool qn_lenient_copy(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t size,
                     uint8_t *out, size_t *ret_size)
{
    struct reader reader = {.at = data, .end = data + size};
    size_t used = 0;
    while (reader.at < reader.end && !reader.is_bad) {
        const uint8_t *start = reader.at;
        enum wire wire;
        uint32_t number = read_head(&reader, &wire);
        if (!reader.is_bad && wire == GROUP_START) {
            skip_group(&reader, number);
            continue;
        }
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(descriptor, number);
        bool keeps = field == NULL || wire_of(field) == wire;
        size_t head_size = (size_t)(reader.at - start);
        if (!reader.is_bad && keeps && field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE) {
            memcpy(out + used, start, head_size);
            used += head_size + copy_inner(&reader, field->descriptor, out + used + head_size);
            continue;
        }
        if (!reader.is_bad) {
            skip_value(&reader, wire);
        }
        if (!reader.is_bad && keeps) {
            memcpy(out + used, start, (size_t)(reader.at - start));
            used += (size_t)(reader.at - start);
        }
    }
    *ret_size = used;
    return !reader.is_bad;
}
