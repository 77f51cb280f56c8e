/* SPDX-License-Identifier: MIT */
/* field.h - one thing on stdout, as lines of "name:   text". */
#ifndef QN_CLI_OUTPUT_FIELD_H
#define QN_CLI_OUTPUT_FIELD_H

#include <stddef.h>
#include <stdint.h>

#define QN_FIELD_NAME_WIDTH 18

void qn_field_text(const char *name, const char *text);
void qn_field_bytes(const char *name, const void *data, size_t size);
/* A text of several lines; all but the first are indented, so none looks like a field. */
void qn_field_lines(const char *name, const char *text);
/* As qn_field_bytes, and on a terminal JSON in lines. */
void qn_field_document(const char *name, const void *data, size_t size);
void qn_field_size(const char *name, uint64_t bytes); /* as "1.2 MiB" */
void qn_field_number(const char *name, int64_t number);
void qn_field_duration(const char *name, int64_t ms); /* 0 is left out */
/* Of one run; each is left out if it is 0. */
void qn_field_run_limits(int64_t kill_after_ms, int64_t cpu_ms, int64_t memory_max);
void qn_field_limit(const char *name, int64_t ms);     /* the same, and "never" if negative */
void qn_field_moment(const char *name, int64_t at_ms); /* 0 is left out */

#endif
