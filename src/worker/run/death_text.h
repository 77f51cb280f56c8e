/* SPDX-License-Identifier: MIT */
/* death_text.h - how a process ended, as the error text of its run: one form for commands and for
 * children of the prefork pool. */
#ifndef QN_WORKER_RUN_DEATH_TEXT_H
#define QN_WORKER_RUN_DEATH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/memory/view.h"
#include "task/past_runs.h"

struct qn_death_facts {
    int status;                  /* as of waitpid */
    bool out_of_memory;          /* the kernel killed it for want of memory */
    bool over_cpu;               /* its limit of CPU seconds was used up */
    const char *note;            /* why we killed it; NULL: nothing to add */
    const struct rusage *usage;  /* CPU time and memory are shown; NULL: they are not */
    struct qn_bytes stderr_text; /* its end; it may be cut in front, at a line */
    bool stderr_cut;             /* there was more of it */
    const char *backtrace;       /* innermost frame first; NULL or "": none */
};

/* "exit status 3: no such file", "exit status 139 (128 + SIGSEGV)", "killed by signal 11 (SIGSEGV),
 * core dumped; CPU 1.25s, memory 45 MiB: last lines of stderr", then a line "backtrace:" and its
 * lines. Bytes that are not UTF-8 stay. A text that does not fit loses the older lines of stderr,
 * then the outer frames. Returns its length. */
size_t qn_death_text(const struct qn_death_facts *facts, char *out, size_t out_size);
/* The same as numbers. status: as of waitpid; usage NULL: not known. */
struct qn_run_facts qn_death_text_facts(int status, const struct rusage *usage);
/* What remains of stderr in at most size_max bytes: its last lines, without the white space at the
 * end. */
struct qn_bytes qn_death_text_last_lines(struct qn_bytes stderr_text, size_t size_max);

#endif
