/* SPDX-License-Identifier: MIT */
/* asynq_wire.h - between protobuf-c and the plain structs of asynq.h: fields in, fields out.
 *
 * A qn_wire is one conversion in progress. Its first failure stays in it, and every later call does
 * nothing that could go wrong, so a conversion lists its fields and asks once at the end. */
#ifndef QN_MESSAGE_ASYNQ_ASYNQ_WIRE_H
#define QN_MESSAGE_ASYNQ_ASYNQ_WIRE_H

#include <stdbool.h>

#include "message/asynq/asynq.h"
#include "message/asynq/asynq.pb-c.h"

struct qn_wire {
    struct qn_arena *arena;
    const char *message; /* the kind of message, for errors: "task", "server", ... */
    quern_status status;
    quern_error *err;
    bool cleans; /* texts with NUL bytes are read with a replacement, to be shown */
};

/* Zeroed memory for `count` things of `size`; NULL when count is 0 or the conversion has failed. */
void *qn_wire_alloc(struct qn_wire *wire, size_t count, size_t size);

/* Writing. The bytes are borrowed, a cleaned text is in the arena. */
ProtobufCBinaryData qn_wire_put_bytes(const void *data, size_t size);
ProtobufCBinaryData qn_wire_put_text(struct qn_wire *wire, const char *field, const char *text);
ProtobufCBinaryData qn_wire_put_clean(struct qn_wire *wire, const char *text);
int32_t qn_wire_put_int32(struct qn_wire *wire, const char *field, int64_t number);
Asynq__Timestamp *qn_wire_put_time(struct qn_wire *wire, struct qn_asynq_time time);
quern_status qn_wire_pack(struct qn_wire *wire, const ProtobufCMessage *message,
                          struct qn_bytes *ret_bytes);

/* Reading. NULL when it failed; else the message lives in the arena and is never freed separately.
 * Each of its bytes fields is followed by one byte, which qn_wire_get_text sets to NUL. */
ProtobufCMessage *qn_wire_unpack(struct qn_wire *wire, const ProtobufCMessageDescriptor *descriptor,
                                 const void *data, size_t size);
const char *qn_wire_get_text(struct qn_wire *wire, const char *field, ProtobufCBinaryData bytes);
/* As qn_wire_get_text, but NUL bytes are replaced. */
const char *qn_wire_get_clean(struct qn_wire *wire, const char *field, ProtobufCBinaryData bytes);
struct qn_asynq_time qn_wire_get_time(const Asynq__Timestamp *time); /* NULL: never */

#endif
