/* SPDX-License-Identifier: MIT */
/* lib_freeze.h - stops processes by SIGSTOP, as a debugger or a full machine does. */
#ifndef TESTS_FAULT_LIB_FREEZE_H
#define TESTS_FAULT_LIB_FREEZE_H

#include "lib_fault.h"

/* Returns when it does nothing any more; SIGCONT continues it. */
void freeze_process(pid_t pid);
/* The same for a worker. One that is frozen inside a transaction keeps the write lock of an SQLite
 * file, and then no process can write until it continues: it is not frozen in such a moment. */
void freeze_worker(const struct fault_site *site, pid_t pid);

#endif
