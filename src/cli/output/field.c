/* SPDX-License-Identifier: MIT */
/* field.c - one thing as lines of "name:   text". */
#include "cli/output/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/moment.h"
#include "cli/output/pretty.h"
#include "cli/output/terminal.h"
#include "cli/output/text.h"

static void print_field(const char *name, char *take_text)
{
    int width = (int)qn_text_width(name) + 1;
    printf("%s:%*s%s\n", name, width < QN_FIELD_NAME_WIDTH ? QN_FIELD_NAME_WIDTH - width : 1, "",
           take_text);
    qn_free(take_text);
}

void qn_field_text(const char *name, const char *text)
{
    print_field(name, qn_text_safe(text, strlen(text)));
}

void qn_field_bytes(const char *name, const void *data, size_t size)
{
    print_field(name, qn_text_bytes(data, size));
}

void qn_field_lines(const char *name, const char *text)
{
    size_t size = strcspn(text, "\n");
    print_field(name, qn_text_safe(text, size));
    for (const char *line = text + size; *line != '\0'; line += size) {
        size = strcspn(++line, "\n");
        char *safe = qn_text_safe(line, size);
        printf("%*s%s\n", QN_FIELD_NAME_WIDTH, "", safe);
        qn_free(safe);
    }
}

void qn_field_document(const char *name, const void *data, size_t size)
{
    char *pretty = qn_terminal_width(stdout) > 0 ? qn_pretty_json(data, size) : NULL;
    if (pretty == NULL) {
        qn_field_bytes(name, data, size);
        return;
    }
    qn_field_lines(name, pretty);
    qn_free(pretty);
}

void qn_field_size(const char *name, uint64_t bytes)
{
    char text[QN_TEXT_SIZE_SIZE];
    qn_text_of_size(bytes, text);
    qn_field_text(name, text);
}

void qn_field_number(const char *name, int64_t number)
{
    printf("%s:%*s%" PRId64 "\n", name, QN_FIELD_NAME_WIDTH - (int)strlen(name) - 1, "", number);
}

void qn_field_duration(const char *name, int64_t ms)
{
    if (ms != 0) {
        char text[32];
        qn_duration_format(ms, text, sizeof text);
        qn_field_text(name, text);
    }
}

void qn_field_limit(const char *name, int64_t ms)
{
    if (ms < 0) {
        qn_field_text(name, "never");
    } else {
        qn_field_duration(name, ms);
    }
}

void qn_field_moment(const char *name, int64_t at_ms)
{
    if (at_ms != 0) {
        char text[64];
        qn_moment_format(at_ms, text, sizeof text);
        qn_field_text(name, text);
    }
}

void qn_field_run_limits(int64_t kill_after_ms, int64_t cpu_ms, int64_t memory_max)
{
    qn_field_duration("kill after", kill_after_ms);
    qn_field_duration("cpu", cpu_ms);
    if (memory_max > 0) {
        qn_field_size("memory", (uint64_t)memory_max);
    }
}
