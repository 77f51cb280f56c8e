/* SPDX-License-Identifier: MIT */
/* memory.h - allocations that the program cannot continue without. */
#ifndef QN_CLI_MEMORY_H
#define QN_CLI_MEMORY_H

/* `block`, unless it is NULL: then the program reports that memory is out and ends. Nothing is
 * half done by that, because every change of stored data is one transaction. */
void *qn_memory_must(void *block);
_Noreturn void qn_memory_exhausted(void);

#endif
