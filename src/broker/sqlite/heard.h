/* SPDX-License-Identifier: MIT */
/* heard.h - for how long the records of workers that nobody here can judge have stayed as they are,
 * by our own clock since boot: what they say of the moment, another host's clock has said, and ours
 * may be wrong for a moment, too. */
#ifndef QN_BROKER_SQLITE_HEARD_H
#define QN_BROKER_SQLITE_HEARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qn_heard_record {
    int64_t worker_no;
    int64_t heartbeat_at_ms; /* as the worker wrote it */
    int64_t since_boot_ms;   /* when it was first seen so */
    uint64_t pass;
};

struct qn_heard {
    struct qn_heard_record *records;
    size_t count;
    size_t capacity;
    uint64_t pass;
};

/* A look at all records begins: those that the look before did not find are forgotten. */
void qn_heard_begin(struct qn_heard *heard);
/* *ret_age_ms: for how long it has not changed. False: memory is out. */
bool qn_heard_note(struct qn_heard *heard, int64_t worker_no, int64_t heartbeat_at_ms,
                   int64_t now_boot_ms, int64_t *ret_age_ms);
void qn_heard_finish(struct qn_heard *heard);

#endif
