/* SPDX-License-Identifier: MIT */
/* lib_limit_judge.h - counts from records of handlers whether limits were kept and used. Nothing
 * here asks the broker.
 *
 * Tasks belong to kinds; a limit binds some kinds. Moments are monotonic. */
#ifndef TESTS_FAULT_LIMIT_LIB_LIMIT_JUDGE_H
#define TESTS_FAULT_LIMIT_LIB_LIMIT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limit_event {
    int64_t at_ns;
    uint32_t kind;
    int32_t change; /* 1: a run started; -1: it ended, or its process was killed */
    bool done;      /* of an end: the task will not run again */
    bool late;      /* of a start: its process was stopped when it took the task, so it is unknown
                     * when it was counted */
    int64_t counted_ns; /* of a start: when it was counted; 0: that is not known */
};

struct limit_span {
    int64_t from_ns;
    int64_t until_ns;
};

struct limit_rule {
    const char *name;
    uint32_t kinds; /* bits: the kinds that it binds */
    uint32_t alone; /* those of them that nothing else binds */
    int64_t count;
    int64_t period_ns; /* 0: tasks that run; else starts */
    int64_t burst;     /* 0: a sliding window */
};

struct limit_record {
    struct limit_event *events; /* sorted by limit_judge_sort */
    size_t count;
    const uint32_t *puts;        /* how many tasks of each kind were put, before the first event */
    struct limit_span *excluded; /* they do not overlap */
    size_t excluded_count;
    int64_t lag_ns; /* how long after it was counted a start may come to its handler */
};

struct limit_verdict {
    int64_t most;    /* tasks that ran at a time; starts: how many more than allowed */
    bool exceeded;   /* at any moment, or in any window */
    double use;      /* the part of the limit that was used while enough tasks waited */
    double judged_s; /* how long that was, without the excluded spans */
};

void limit_judge_sort(struct limit_event *events, size_t count);
/* While as many tasks wait that only this limit binds as it lets run, or start in a period. */
struct limit_verdict limit_judge(const struct limit_record *record, const struct limit_rule *rule);

#endif
