/* SPDX-License-Identifier: MIT */
/* queues.h - the queues that a worker is asked to serve. */
#ifndef QN_CLI_WORK_QUEUES_H
#define QN_CLI_WORK_QUEUES_H

#include "cli/work/work.h"

/* Reads the texts of this option; without any it is the default queue. These report what is wrong
 * and return the exit code. */
QUERN_NODISCARD int qn_work_queues_read(struct qn_work *work, size_t option);
/* Before the broker is opened. */
QUERN_NODISCARD int qn_work_queues_check(const struct qn_work *work, const char *url);
/* The served queues that there are; *ret_list is for the caller to free. */
QUERN_NODISCARD quern_status qn_work_queues_list(const struct qn_work *work,
                                                 quern_inspector *inspector,
                                                 quern_queue_list **ret_list, quern_error *err);
/* With the list of them. */
QUERN_NODISCARD int qn_work_queues_check_names(const struct qn_work *work,
                                               const quern_queue_list *list);
void qn_work_queues_finish(struct qn_work *work);

#endif
