/* SPDX-License-Identifier: MIT */
/* reply.h - a reply of the server, and looking into it without asking its type first. */
#ifndef QN_REDIS_REPLY_H
#define QN_REDIS_REPLY_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes a reply may have, by the kind of request; a larger one is refused while it
 * arrives. Memory is only allocated for received bytes. A line (a status, an error, a number) has
 * 64 KiB at most, an array nests 8 deep. */
#define QN_REPLY_BRIEF_MAX ((size_t)1 << 20) /* a status, counts, a result a task, notices, INFO */
#define QN_REPLY_ROWS_MAX ((size_t)64 << 20) /* ids, names, records: a page or a set of them */
#define QN_REPLY_TASKS_MAX ((size_t)544 << 20) /* messages: the largest value of Redis and more */

/* A reply in the arena of its pipeline. */
enum qn_reply_type { QN_REPLY_NIL, QN_REPLY_INT, QN_REPLY_TEXT, QN_REPLY_ERROR, QN_REPLY_ARRAY };
struct qn_reply {
    enum qn_reply_type type;
    int64_t integer;
    const char *data; /* text (also a status) or error; a NUL follows, not counted */
    size_t size;
    struct qn_reply **items; /* of an array */
    size_t count;
    size_t room; /* for items, while they come */
};

/* The item, or a nil if there is no such item. */
const struct qn_reply *qn_reply_at(const struct qn_reply *reply, size_t index);
/* An integer, or a text that is one (also "12.0"); `otherwise` for everything else. */
int64_t qn_reply_int(const struct qn_reply *reply, int64_t otherwise);
uint64_t qn_reply_uint(const struct qn_reply *reply); /* 0 for other replies */
/* A moment in milliseconds, within the range of number.h; 0 for other replies. */
int64_t qn_reply_moment_ms(const struct qn_reply *reply);
/* The same in whole seconds, as scores and asynq's moments are; also of a score that is so large
 * that the server writes it with an exponent, or inf. */
int64_t qn_reply_seconds(const struct qn_reply *reply);
/* Microseconds from now, within the range of durations; `otherwise` for other replies than
 * integers. */
int64_t qn_reply_span_us(const struct qn_reply *reply, int64_t otherwise);
const char *qn_reply_text(const struct qn_reply *reply); /* "" for other replies than texts */

#endif
