/* SPDX-License-Identifier: MIT */
/* handlers.h - C handlers of a shared object: `quern work --pool prefork --handlers FILE`. */
#ifndef QN_CLI_WORK_HANDLERS_H
#define QN_CLI_WORK_HANDLERS_H

#include "cli/work/work.h"

enum qn_work_children {
    QN_WORK_CHILDREN_POOL,
    QN_WORK_CHILDREN_RUNS,
    QN_WORK_CHILDREN_RSS,
    QN_WORK_CHILDREN_COUNT
};

/* Rows of the table of the verb, from `first` on. */
/* clang-format off */
#define QN_WORK_CHILDREN_OPTIONS(first) \
    [(first) + QN_WORK_CHILDREN_POOL] = \
        {"pool", "prefork|threads", "where handlers run", QN_OPTION_TEXT, .unlisted = true}, \
    [(first) + QN_WORK_CHILDREN_RUNS] = \
        {"child-runs", "N", "replace a child of --handlers after N runs", QN_OPTION_COUNT, \
         .min = 1, .max = UINT32_MAX, .unlisted = true}, \
    [(first) + QN_WORK_CHILDREN_RSS] = \
        {"child-rss", "SIZE", "or when it has more resident memory: 512M, 2G", QN_OPTION_SIZE, \
         .unlisted = true}
/* clang-format on */

/* Where the options stand in the table of the verb. */
struct qn_work_handlers_options {
    size_t handlers;
    size_t children; /* the rows below */
    size_t unknown;
    size_t no_new_privs;
    size_t policies;
};

/* Starts work->zygote if the command line names a shared object; returns the exit code. */
QUERN_NODISCARD int qn_work_handlers_open(struct qn_work *work,
                                          struct qn_work_handlers_options options);
/* How the worker uses it. */
void qn_work_handlers_set(const struct qn_work *work, size_t children,
                          quern_worker_options *options);
/* For qn_work_signal_service; user is a struct qn_work: reads the certificates of the broker again,
 * and loads the object again. Without both it logs that there is nothing to reload. True: its
 * patterns are others, which takes a restart. */
bool qn_work_handlers_reload(quern_worker *worker, void *user);
/* After the worker was freed. */
void qn_work_handlers_finish(struct qn_work *work);

#endif
