/* SPDX-License-Identifier: MIT */
/* import.h - tasks from lines of JSON. */
#ifndef QN_CLI_ENQUEUE_IMPORT_H
#define QN_CLI_ENQUEUE_IMPORT_H

#include <jansson.h>

#include "cli/cli.h"

/* Enqueues a task for each line of the file ("-": stdin); `defaults` fills the keys that a line
 * leaves out. Reports its errors itself; returns the exit code. */
QUERN_NODISCARD int qn_import(struct qn_cli *cli, const char *path, const quern_task *defaults,
                              const quern_client_options *how);

/* --- One line (import_line.c) --------------------------------------------------------- */

/* A task and the data its pointers point to. */
struct qn_import_line {
    quern_task task;
    json_t *json;          /* the strings */
    char *payload;         /* owned; NULL when the payload is a string of json */
    quern_header *headers; /* owned */
    uint64_t number;       /* of the line, from 1 */
};

/* QUERN_E_INVALID: the text describes the fault of the line, without its number. */
QUERN_NODISCARD quern_status qn_import_line_parse(const char *text, size_t size,
                                                  const quern_task *defaults,
                                                  struct qn_import_line *ret_line,
                                                  quern_error *err);
void qn_import_line_finish(struct qn_import_line *line);

#endif
