/* SPDX-License-Identifier: MIT */
/* json.h - JSON on stdout. */
#ifndef QN_CLI_OUTPUT_JSON_H
#define QN_CLI_OUTPUT_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/inspector.h"

/* Prints the document on one line and gives it up; returns the exit code. NULL: out of memory. */
int qn_json_print(json_t *take_document);
/* New values. Moments: ms since the epoch, null for 0. */
json_t *qn_json_moment(int64_t at_ms);
/* Sets `name` to the bytes as a string, or, when they are not UTF-8, `name`_base64. A name that is
 * not UTF-8 has escapes. */
void qn_json_set_bytes(json_t *object, const char *name, const void *data, size_t size);
/* The same for a text; NULL is "". */
void qn_json_set_text(json_t *object, const char *name, const char *text);
json_t *qn_json_task(const quern_task_info *info);

#endif
