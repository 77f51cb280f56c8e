/* SPDX-License-Identifier: MIT */
/* lib_journal.c - writes records.
 *
 * The handler writes START before it does anything and END as the last thing; a kill leaves out
 * later records. A record is one write of 56 bytes to a file opened with O_APPEND, so records of
 * several threads and processes never mix. */
#include "lib_journal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

int fault_journal_open(const char *path)
{
    int journal = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    TEST_REQUIRE(journal >= 0);
    return journal;
}

static pid_t written_pid; /* 0: the process itself */

void fault_write_for(pid_t pid)
{
    written_pid = pid;
}

void fault_write(int journal, enum fault_kind kind, const quern_run *run, uint64_t task)
{
    int64_t now_ns = qn_clock_mono_ns();
    struct fault_record record = {.task = task,
                                  .fence = quern_run_fence(run),
                                  .kind = (int32_t)kind,
                                  .cause = (int32_t)quern_run_cause(run),
                                  .pid = (int32_t)(written_pid != 0 ? written_pid : getpid()),
                                  .crash_count = (int32_t)quern_run_crash_count(run),
                                  .at_ms = now_ns / QN_NS_PER_MS,
                                  .at_ns = now_ns};
    TEST_REQUIRE(write(journal, &record, sizeof record) == (ssize_t)sizeof record);
}

uint64_t fault_number(const quern_task *task)
{
    char text[24] = {0};
    TEST_REQUIRE(task->payload_size < sizeof text);
    memcpy(text, task->payload, task->payload_size);
    return strtoull(text, NULL, 10);
}
