/* SPDX-License-Identifier: MIT */
/* table.h - tables on stdout that no stored text can break. */
#ifndef QN_CLI_OUTPUT_TABLE_H
#define QN_CLI_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_SPARE_MAX 4

struct qn_column {
    const char *title;
    bool right;    /* numbers */
    bool flexible; /* cut first when the terminal is too narrow */
    bool whole;    /* the last one: never cut or left out, the terminal may wrap it */
    /* Left out first where a terminal is too narrow for all: the highest, at most QN_SPARE_MAX,
     * then the next. 0: only when nothing else helps, from the right. */
    unsigned spare;
};

struct qn_table {
    const struct qn_column *columns;
    size_t column_count;
    bool wide;    /* all of it, however narrow the terminal is */
    char **cells; /* row by row, owned */
    size_t cell_count;
    size_t cell_capacity;
};

void qn_table_init(struct qn_table *table, const struct qn_column *columns, size_t column_count);
void qn_table_finish(struct qn_table *table);
/* Adds the next cell, from left to right, row by row. NULL and "" show as "-". */
void qn_table_text(struct qn_table *table, const char *text);
void qn_table_bytes(struct qn_table *table, const void *data, size_t size);
void qn_table_number(struct qn_table *table, uint64_t number);
void qn_table_duration(struct qn_table *table, int64_t ms);  /* 0 shows as "-" */
void qn_table_moment(struct qn_table *table, int64_t at_ms); /* to the second; 0 shows as "-" */
/* "5m12s ago", "in 1h30m", "now"; the farther off, the coarser; 0 shows as "-". */
void qn_table_relative(struct qn_table *table, int64_t at_ms, int64_t now_ms);
void qn_table_print(const struct qn_table *table);

#endif
