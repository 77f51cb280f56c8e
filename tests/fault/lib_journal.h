/* SPDX-License-Identifier: MIT */
/* lib_journal.h - the journal in which a handler records its actions.
 *
 * A file of fixed-size records, written with O_APPEND by the handler itself, so it survives every
 * kill and does not depend on the tested code. Tasks are numbered from 0; the payload begins with
 * the number. */
#ifndef TESTS_FAULT_LIB_JOURNAL_H
#define TESTS_FAULT_LIB_JOURNAL_H

#include "lib_test.h"

#include "quern/quern.h"

enum fault_kind { FAULT_START = 1, FAULT_END = 2 };

struct fault_record {
    uint64_t task;
    uint64_t fence;
    int32_t kind; /* an enum fault_kind */
    int32_t cause;
    int32_t pid;
    int32_t crash_count;
    int64_t at_ms; /* monotonic */
    int64_t at_ns; /* the same moment */
};

int fault_journal_open(const char *path);
void fault_write(int journal, enum fault_kind kind, const quern_run *run, uint64_t task);
/* From now on this process and its forks write this as the process of a record: they are children
 * of a worker. */
void fault_write_for(pid_t pid);
uint64_t fault_number(const quern_task *task);

#endif
