/* SPDX-License-Identifier: MIT */
/* task_file.h - one task as one line of JSON.
 *
 * The keys are those of `quern enqueue --from`, so that the file can be enqueued, too. What only a
 * stored task has is in the object "saved", which an import ignores. */
#ifndef QN_CLI_REPLAY_TASK_FILE_H
#define QN_CLI_REPLAY_TASK_FILE_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/enqueue/import.h"

struct qn_task_file {
    struct qn_import_line line;
    int64_t retry_count;
    int32_t cause; /* a quern_cause */
};

/* A new object. */
json_t *qn_task_file_json(const quern_task_info *info);
/* Reads a file with exactly one task; "-": stdin. Reports its errors, returns the exit code. */
QUERN_NODISCARD int qn_task_file_read(const struct qn_cli *cli, const char *path,
                                      struct qn_task_file *ret_file);
void qn_task_file_finish(struct qn_task_file *file);

#endif
