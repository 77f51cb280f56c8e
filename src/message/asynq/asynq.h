/* SPDX-License-Identifier: MIT */
/* asynq.h - the five messages that asynq keeps in a broker, as plain structs.
 *
 * All output lives in the arena; decoding copies its input. NULL texts are written as ""; texts
 * that are read are never NULL and end with a NUL. Texts must be valid UTF-8, because Go refuses a
 * message with one that is not: QUERN_E_INVALID when writing; only the text of an error is cleaned
 * instead. Bytes that are not such a message: QUERN_E_CORRUPT.
 *
 * If you add a field: asynq.proto, the struct here, both directions in asynq*.c, a golden test,
 * docs/protocol/asynq.md. */
#ifndef QN_MESSAGE_ASYNQ_ASYNQ_H
#define QN_MESSAGE_ASYNQ_ASYNQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/arena.h"
#include "base/memory/view.h"
#include "quern/header.h"
#include "quern/status.h"

/* The bytes before fields of a task as protobuf writes it: 8 times the number in asynq.proto, plus
 * 2 for texts. Of the fields that our scripts read or write. */
enum qn_asynq_tag {
    QN_ASYNQ_TAG_TYPE = 10,
    QN_ASYNQ_TAG_PAYLOAD = 18,
    QN_ASYNQ_TAG_QUEUE = 34,
    QN_ASYNQ_TAG_RETRY = 40,
    QN_ASYNQ_TAG_RETRIED = 48,
    QN_ASYNQ_TAG_ERROR = 58,
    QN_ASYNQ_TAG_UNIQUE_KEY = 82,
    QN_ASYNQ_TAG_FAILED_AT = 88,
    QN_ASYNQ_TAG_COMPLETED_AT = 104,
    QN_ASYNQ_TAG_HEADER = 122
};

/* A moment with asynq's precision of nanoseconds. */
struct qn_asynq_time {
    int64_t seconds;
    int32_t nanos;
};
/* 0 is "never", which Go writes as its zero time, and back. */
struct qn_asynq_time qn_asynq_time_of_ms(int64_t at_ms);
int64_t qn_asynq_time_ms(struct qn_asynq_time time);

/* Fields that we do not know, kept for the way back. */
struct ProtobufCMessageUnknownField;

/* Durations and moments are whole seconds in the message: timeout_ms, deadline_at_ms and
 * retention_ms are rounded up, moments of the past down. */
struct qn_asynq_task {
    const char *type;
    const void *payload; /* NULL when payload_size is 0 */
    size_t payload_size;
    const char *id;
    const char *queue;
    int64_t retry_max;
    int64_t retry_count;
    const char *error;
    int64_t timeout_ms;     /* 0: none */
    int64_t deadline_at_ms; /* 0: none */
    const char *unique_key; /* "": none */
    int64_t failed_at_ms;   /* 0: never */
    int64_t retention_ms;
    int64_t completed_at_ms; /* 0: not yet */
    const char *group;       /* "": none */
    const quern_header *headers;
    size_t header_count;
    const struct ProtobufCMessageUnknownField *unknown_fields; /* as they were read */
    size_t unknown_count;
};
QUERN_NODISCARD quern_status qn_asynq_task_encode(struct qn_arena *arena,
                                                  const struct qn_asynq_task *task,
                                                  struct qn_bytes *ret_bytes, quern_error *err);
QUERN_NODISCARD quern_status qn_asynq_task_decode(struct qn_arena *arena, const void *data,
                                                  size_t size, struct qn_asynq_task *ret_task,
                                                  quern_error *err);

/* The same for looking only: NUL bytes in texts are replaced. */
QUERN_NODISCARD quern_status qn_asynq_task_show(struct qn_arena *arena, const void *data,
                                                size_t size, struct qn_asynq_task *ret_task,
                                                quern_error *err);

/* A message of a task that we cannot run. */
struct qn_asynq_unusable {
    const void *data;
    size_t size;
    const char *id; /* of the task; may hold NUL bytes */
    size_t id_size;
    const char *queue;
    const char *why;
};
/* The type of a task whose message even Go cannot read; then the payload is that message. */
/* asynq's value for a message with neither timeout nor deadline; our default is the same. */
#define QN_ASYNQ_TIMEOUT_MS (30 * 60 * INT64_C(1000))
#define QN_UNREADABLE_TYPE "quern:unreadable"
/* Whether Go reads it, and as the message of this task. False, too, when memory is out. */
bool qn_asynq_go_reads(struct qn_arena *arena, const struct qn_asynq_unusable *unusable);
/* A message for the archive, with `why` as its error: the same, if Go reads it, else a new one with
 * the old as its payload. */
QUERN_NODISCARD quern_status qn_asynq_task_excuse(struct qn_arena *arena,
                                                  const struct qn_asynq_unusable *unusable,
                                                  struct qn_bytes *ret_bytes, quern_error *err);

/* A queue of a server and its priority. */
struct qn_asynq_queue {
    const char *name;
    int32_t weight;
};

/* We call it a worker. */
struct qn_asynq_server {
    const char *host;
    int32_t pid;
    const char *id;
    int32_t concurrency;
    const struct qn_asynq_queue *queues;
    size_t queue_count;
    bool strict;
    const char *status; /* "new", "active", "stopped", "closed" */
    struct qn_asynq_time started_at;
    int32_t run_count;
};
QUERN_NODISCARD quern_status qn_asynq_server_encode(struct qn_arena *arena,
                                                    const struct qn_asynq_server *server,
                                                    struct qn_bytes *ret_bytes, quern_error *err);
QUERN_NODISCARD quern_status qn_asynq_server_decode(struct qn_arena *arena, const void *data,
                                                    size_t size, struct qn_asynq_server *ret_server,
                                                    quern_error *err);

/* We call it a run; asynq's name for it is WorkerInfo. */
struct qn_asynq_run {
    const char *host;
    int32_t pid;
    const char *server_id;
    const char *task_id;
    const char *task_type;
    const void *payload;
    size_t payload_size;
    const char *queue;
    struct qn_asynq_time started_at;
    struct qn_asynq_time deadline_at;
};
QUERN_NODISCARD quern_status qn_asynq_run_encode(struct qn_arena *arena,
                                                 const struct qn_asynq_run *run,
                                                 struct qn_bytes *ret_bytes, quern_error *err);
QUERN_NODISCARD quern_status qn_asynq_run_decode(struct qn_arena *arena, const void *data,
                                                 size_t size, struct qn_asynq_run *ret_run,
                                                 quern_error *err);

struct qn_asynq_schedule {
    const char *id;
    const char *spec;
    const char *task_type;
    const void *payload;
    size_t payload_size;
    const char *const *options; /* in asynq's spelling: Queue("low") */
    size_t option_count;
    struct qn_asynq_time next_at;
    struct qn_asynq_time previous_at;
};
QUERN_NODISCARD quern_status qn_asynq_schedule_encode(struct qn_arena *arena,
                                                      const struct qn_asynq_schedule *schedule,
                                                      struct qn_bytes *ret_bytes, quern_error *err);
QUERN_NODISCARD quern_status qn_asynq_schedule_decode(struct qn_arena *arena, const void *data,
                                                      size_t size,
                                                      struct qn_asynq_schedule *ret_schedule,
                                                      quern_error *err);

/* A scheduler enqueued a task. */
struct qn_asynq_event {
    const char *task_id;
    struct qn_asynq_time enqueued_at;
};
QUERN_NODISCARD quern_status qn_asynq_event_encode(struct qn_arena *arena,
                                                   const struct qn_asynq_event *event,
                                                   struct qn_bytes *ret_bytes, quern_error *err);
QUERN_NODISCARD quern_status qn_asynq_event_decode(struct qn_arena *arena, const void *data,
                                                   size_t size, struct qn_asynq_event *ret_event,
                                                   quern_error *err);

#endif
