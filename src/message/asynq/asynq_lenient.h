/* SPDX-License-Identifier: MIT */
/* asynq_lenient.h - messages that Go reads and protobuf-c refuses. */
#ifndef QN_MESSAGE_ASYNQ_ASYNQ_LENIENT_H
#define QN_MESSAGE_ASYNQ_ASYNQ_LENIENT_H

#include "message/asynq/asynq_wire.h"

/* Copies a message without what Go's decoder skips: groups, and known fields with another type on
 * the wire. `out` has `size` bytes. False: Go does not read it, either. */
bool qn_lenient_copy(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t size,
                     uint8_t *out, size_t *ret_size);

#endif
