/* SPDX-License-Identifier: MIT */
/* memory.c - ends the program when memory is out.
 *
 * Writes to the descriptor itself: stdio might allocate. */
#include "cli/memory.h"

#include <unistd.h>

#include "cli/cli.h"

void qn_memory_exhausted(void)
{
    static const char text[] = "quern: out of memory\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(QN_EXIT_TEMPORARY);
}

void *qn_memory_must(void *block)
{
    if (block == NULL) {
        qn_memory_exhausted();
    }
    return block;
}
