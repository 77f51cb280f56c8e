/* SPDX-License-Identifier: MIT */
/* heard.h - for how long the records of workers that nobody here can see have stayed as they are,
 * by our own clock since boot: what they say of the moment, another host's clock has said, and ours
 * may be wrong for a moment, too. */
#ifndef QN_BROKER_SQLITE_UPKEEP_HEARD_H
#define QN_BROKER_SQLITE_UPKEEP_HEARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qn_heard_record {
    int64_t worker_no;
    int64_t heartbeat_at_ms; /* as the worker wrote it */
    int64_t since_boot_ms;   /* when it was first seen so */
    bool changed;            /* that was a heartbeat; else our first look at it */
};

struct qn_heard_list {
    struct qn_heard_record *records;
    size_t count;
    size_t capacity;
};

struct qn_heard {
    struct qn_heard_list before; /* of the look before */
    size_t at;                   /* in that */
    struct qn_heard_list now;
};

/* A look at all records begins: those that the look before did not find are forgotten. */
void qn_heard_begin(struct qn_heard *heard);
/* What is known of the record now, valid until the next call; NULL: memory is out. In a look, the
 * numbers grow. */
const struct qn_heard_record *qn_heard_note(struct qn_heard *heard, int64_t worker_no,
                                            int64_t heartbeat_at_ms, int64_t now_boot_ms);
void qn_heard_finish(struct qn_heard *heard);

#endif
