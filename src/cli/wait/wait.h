/* SPDX-License-Identifier: MIT */
/* wait.h - waits for the end of tasks: `quern task wait`, and --wait of `quern enqueue`. */
#ifndef QN_CLI_WAIT_WAIT_H
#define QN_CLI_WAIT_WAIT_H

#include "cli/cli.h"

/* A task without a retention that `enqueue --wait` stores is kept so long, for its result. */
#define QN_WAIT_RETENTION_MS (10 * INT64_C(60000))

#define QN_WAIT_OPTION_COUNT 2
extern const struct qn_option qn_wait_options[QN_WAIT_OPTION_COUNT];

/* Waits until the task has ended, at most until until_mono_ns (INT64_MAX: without limit). Reports
 * what is no success on stderr, and returns the exit code: 0 completed, QN_EXIT_TASKS_FAILED
 * archived. *ret_info: the task, for the caller to free; NULL: it has not ended, or is gone. */
QUERN_NODISCARD int qn_wait_for_end(const struct qn_cli *cli, quern_client *client, const char *id,
                                    int64_t until_mono_ns, quern_task_info **ret_info);
/* The moment for it that is so long from now; negative: without limit. */
int64_t qn_wait_until_mono_ns(int64_t timeout_ms);
/* The result on stdout, byte by byte; nothing if it has none. */
void qn_wait_print_result(const quern_task_info *info);

int qn_wait_run(struct qn_cli *cli);

#endif
