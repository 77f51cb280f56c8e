/* SPDX-License-Identifier: MIT */
/* table.c - tables for people.
 *
 * A table is built in memory, then printed with columns as wide as their widest cell. On a terminal
 * that is too narrow, spare columns are left out, then the flexible ones are cut with an ellipsis,
 * and at last columns are left out from the right. In a pipe only cells of more than CELL_WIDTH_MAX
 * columns are cut. */
#include "cli/output/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "base/text/duration.h"
#include "base/text/moment.h"
#include "cli/memory.h"
#include "cli/output/terminal.h"
#include "cli/output/text.h"

#define GAP 2 /* between columns */
#define FLEXIBLE_WIDTH_MIN 8
#define FLEXIBLE_WIDTH_WANTED 32 /* for less than that of one column, a spare one goes */
#define SPARE_WIDTH_WANTED 16
#define CELL_WIDTH_MAX 512 /* every row is as wide as the widest cell, also in a pipe */

void qn_table_init(struct qn_table *table, const struct qn_column *columns, size_t column_count)
{
    *table = (struct qn_table){.columns = columns, .column_count = column_count};
}

void qn_table_finish(struct qn_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++) {
        qn_free(table->cells[i]);
    }
    qn_free(table->cells);
    *table = (struct qn_table){0};
}

static void add_cell(struct qn_table *table, char *take_text)
{
    table->cells = qn_memory_must(
        qn_vec_grow(table->cells, table->cell_count, &table->cell_capacity, sizeof *table->cells));
    table->cells[table->cell_count++] = take_text;
}

void qn_table_text(struct qn_table *table, const char *text)
{
    const char *shown = text == NULL || text[0] == '\0' ? "-" : text;
    add_cell(table, qn_text_cell(shown, strlen(shown), false, CELL_WIDTH_MAX));
}

void qn_table_bytes(struct qn_table *table, const void *data, size_t size)
{
    if (size == 0) {
        qn_table_text(table, NULL);
    } else {
        add_cell(table, qn_text_cell(data, size, true, CELL_WIDTH_MAX));
    }
}

void qn_table_number(struct qn_table *table, uint64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    qn_table_text(table, text);
}

void qn_table_duration(struct qn_table *table, int64_t ms)
{
    char text[32] = "";
    if (ms != 0) {
        qn_duration_format(ms, text, sizeof text);
    }
    qn_table_text(table, text);
}

void qn_table_moment(struct qn_table *table, int64_t at_ms)
{
    char text[64] = "";
    if (at_ms != 0) {
        qn_moment_format(at_ms, text, sizeof text);
        char *fraction = strchr(text, '.');
        if (fraction != NULL) {
            (void)snprintf(fraction, sizeof text - (size_t)(fraction - text), "Z");
        }
    }
    qn_table_text(table, text);
}

/* To two units at most, as "2d3h" or "4m10s": distant moments need no seconds. */
static void format_distance(int64_t ms, char *out, size_t out_size)
{
    int64_t s = ms / 1000;
    if (s >= 10 * 86400) {
        s -= s % 86400;
    } else if (s >= 10 * 3600) {
        s -= s % 3600;
    } else if (s >= 3600) {
        s -= s % 60;
    }
    qn_duration_format(s * 1000, out, out_size);
}

void qn_table_relative(struct qn_table *table, int64_t at_ms, int64_t now_ms)
{
    char text[48] = "";
    char distance[32];
    if (at_ms == 0) {
        qn_table_text(table, text);
        return;
    }
    bool is_past = at_ms <= now_ms;
    int64_t ms = is_past ? now_ms - at_ms : at_ms - now_ms;
    format_distance(ms, distance, sizeof distance);
    if (ms < 1000) {
        (void)snprintf(text, sizeof text, "now");
    } else {
        (void)snprintf(text, sizeof text, "%s%s%s", is_past ? "" : "in ", distance,
                       is_past ? " ago" : "");
    }
    qn_table_text(table, text);
}

static void measure(const struct qn_table *table, size_t *widths)
{
    QN_ASSERT(table->column_count > 0);
    for (size_t i = 0; i < table->column_count; i++) {
        widths[i] = qn_text_width(table->columns[i].title);
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t width = qn_text_width(table->cells[i]);
        size_t column = i % table->column_count;
        widths[column] = width > widths[column] ? width : widths[column];
    }
}

/* How wide the columns with at most this `spare` would like to be, a long flexible one not in full.
 */
static size_t wanted_width(const struct qn_table *table, const size_t *widths, unsigned spare)
{
    size_t total = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        const struct qn_column *column = &table->columns[i];
        size_t most = column->spare > 0 ? SPARE_WIDTH_WANTED : FLEXIBLE_WIDTH_WANTED;
        bool may_be_less = column->flexible || column->whole;
        if (column->spare <= spare) {
            total += GAP + (may_be_less && widths[i] > most ? most : widths[i]);
        }
    }
    return total - GAP;
}

/* A hidden column has the width 0. Returns the width of the others. */
static size_t hide_spare(const struct qn_table *table, size_t *widths, size_t room)
{
    unsigned spare = QN_SPARE_MAX;
    while (spare > 0 && wanted_width(table, widths, spare) > room) {
        spare--;
    }
    size_t total = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        bool whole = table->columns[i].whole;
        widths[i] = whole ? qn_text_width(table->columns[i].title) : widths[i];
        widths[i] = table->columns[i].spare > spare ? 0 : widths[i];
        total += widths[i] > 0 ? GAP + widths[i] : 0;
    }
    return total - GAP;
}

/* Hides spare columns, then narrows the widest flexible column, step by step, until the row fits;
 * when that does not help, hides columns from the right. */
static void narrow(const struct qn_table *table, size_t *widths, size_t room)
{
    size_t total = hide_spare(table, widths, room);
    while (total > room) {
        size_t widest = table->column_count;
        for (size_t i = 0; i < table->column_count; i++) {
            if (table->columns[i].flexible && widths[i] > FLEXIBLE_WIDTH_MIN &&
                (widest == table->column_count || widths[i] > widths[widest])) {
                widest = i;
            }
        }
        if (widest == table->column_count) {
            break;
        }
        widths[widest]--;
        total--;
    }
    size_t last = table->column_count - 1;
    for (; last > 0 && total > room && !table->columns[last].whole; last--) {
        total -= widths[last] > 0 ? widths[last] + GAP : 0;
        widths[last] = 0;
    }
}

static void print_cell(const char *text, size_t width, const struct qn_column *column)
{
    size_t own = qn_text_width(text);
    if (own > width && !column->whole) {
        size_t bytes = qn_text_fit(text, width - 1);
        printf("%.*s…", (int)bytes, text);
    } else {
        size_t padding = column->right && own < width ? width - own : 0;
        printf("%*s%s", (int)padding, "", text);
    }
}

/* Prints one row; the last visible cell is not padded. */
static void print_row(const struct qn_table *table, const size_t *widths, char *const *cells)
{
    size_t gap = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        if (widths[i] == 0) {
            continue;
        }
        const char *text = cells != NULL ? cells[i] : table->columns[i].title;
        printf("%*s", (int)gap, "");
        print_cell(text, widths[i], &table->columns[i]);
        size_t own = qn_text_width(text);
        bool full = table->columns[i].right || own >= widths[i];
        gap = GAP + (full ? 0 : widths[i] - own);
    }
}

void qn_table_print(const struct qn_table *table)
{
    size_t count = table->column_count;
    size_t *widths = qn_memory_must(qn_alloc_zero(count, sizeof *widths));
    measure(table, widths);
    size_t room = table->wide ? 0 : qn_terminal_width(stdout);
    if (room > 0) {
        narrow(table, widths, room);
    }
    bool colors = qn_terminal_colors(stdout);
    printf("%s", colors ? "\x1b[1m" : "");
    print_row(table, widths, NULL);
    printf("%s\n", colors ? "\x1b[0m" : "");
    for (size_t i = 0; i < table->cell_count; i += count) {
        print_row(table, widths, &table->cells[i]);
        printf("\n");
    }
    qn_free(widths);
}
