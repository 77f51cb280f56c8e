/* SPDX-License-Identifier: MIT */
/* output.h - tables, fields and JSON on stdout, in a form that no stored text can break. */
#ifndef QN_CLI_OUTPUT_OUTPUT_H
#define QN_CLI_OUTPUT_OUTPUT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cli.h"

/* --- Texts (text.c); results are the caller's, freed with qn_free ----------------------- */

/* The text with control characters, bytes that are not UTF-8 and direction marks as escapes. */
QUERN_NODISCARD char *qn_text_safe(const char *data, size_t size);
/* As qn_text_safe for texts, else "5 bytes: 00 01 02 ..."; for payloads and results. */
QUERN_NODISCARD char *qn_text_bytes(const void *data, size_t size);
/* The text, or with is_bytes as qn_text_bytes, cut with an ellipsis to fit into width_max columns.
 */
QUERN_NODISCARD char *qn_text_cell(const void *data, size_t size, bool is_bytes, size_t width_max);
/* Columns on a terminal. */
size_t qn_text_width(const char *text);
/* How many bytes of the text fit into `width` columns. */
size_t qn_text_fit(const char *text, size_t width);

/* --- Tables ------------------------------------------------------------------------------ */

struct qn_column {
    const char *title;
    bool right;    /* numbers */
    bool flexible; /* cut first when the terminal is too narrow */
    bool whole;    /* the last one: never cut or left out, the terminal may wrap it */
};

struct qn_table {
    const struct qn_column *columns;
    size_t column_count;
    char **cells; /* row by row, owned */
    size_t cell_count;
    size_t cell_max;
};

void qn_table_init(struct qn_table *table, const struct qn_column *columns, size_t column_count);
void qn_table_finish(struct qn_table *table);
/* Adds the next cell, from left to right, row by row. NULL and "" show as "-". */
void qn_table_text(struct qn_table *table, const char *text);
void qn_table_bytes(struct qn_table *table, const void *data, size_t size);
void qn_table_number(struct qn_table *table, uint64_t number);
void qn_table_duration(struct qn_table *table, int64_t ms);  /* 0 shows as "-" */
void qn_table_moment(struct qn_table *table, int64_t at_ms); /* to the second; 0 shows as "-" */
void qn_table_print(const struct qn_table *table);

/* --- Fields: "name:   text" -------------------------------------------------------------- */

void qn_field_text(const char *name, const char *text);
void qn_field_bytes(const char *name, const void *data, size_t size);
void qn_field_number(const char *name, int64_t number);
void qn_field_duration(const char *name, int64_t ms);  /* 0 is left out */
void qn_field_moment(const char *name, int64_t at_ms); /* 0 is left out */

/* --- JSON ---------------------------------------------------------------------------------- */

/* Prints the document on one line and gives it up; returns the exit code. NULL: out of memory. */
int qn_json_print(json_t *take_document);
/* New values. Moments: ms since the epoch, null for 0. */
json_t *qn_json_moment(int64_t at_ms);
/* Sets `name` to the bytes as a string, or, when they are not UTF-8, `name`_base64. */
void qn_json_set_bytes(json_t *object, const char *name, const void *data, size_t size);
json_t *qn_json_task(const quern_task_info *info);

/* --- The terminal -------------------------------------------------------------------------- */

bool qn_terminal_colors(FILE *stream);  /* a terminal that is not dumb, and NO_COLOR is not set */
size_t qn_terminal_width(FILE *stream); /* 0: not a terminal */
/* Writes out what stdio holds. The exit code, or another one when stdout could not be written. */
int qn_output_finish(const struct qn_cli *cli, int exit_code);

#endif
