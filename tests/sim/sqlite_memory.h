/* SPDX-License-Identifier: MIT */
/* sqlite_memory.h - a plain allocator for SQLite. */
#ifndef TESTS_SIM_SQLITE_MEMORY_H
#define TESTS_SIM_SQLITE_MEMORY_H

/* Before SQLite is used for the first time. */
void sim_sqlite_memory_use(void);

#endif
