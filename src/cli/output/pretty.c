/* SPDX-License-Identifier: MIT */
/* pretty.c - lays JSON out without reading it into values: so a number of 30 digits, a key that
 * comes twice and the order of keys are shown as they were stored. */
#include "cli/output/pretty.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/memory.h"

#define INDENT 2
#define DEPTH_MAX 32 /* deeper parts stay on one line, or their indent would be most of the text */
#define PRETTY_SIZE_MAX ((size_t)4 << 30)

struct layout {
    struct qn_buf out;
    const char *data;
    size_t size;
    size_t at;
    int depth;
};

static void put(struct layout *layout, const char *data, size_t size)
{
    if (qn_buf_append(&layout->out, data, size) != QUERN_OK) {
        qn_memory_exhausted();
    }
}

static void start_line(struct layout *layout)
{
    if (layout->depth <= DEPTH_MAX &&
        qn_buf_printf(&layout->out, "\n%*s", INDENT * layout->depth, "") != QUERN_OK) {
        qn_memory_exhausted();
    }
}

static void skip_blanks(struct layout *layout)
{
    while (layout->at < layout->size && strchr(" \t\r\n", layout->data[layout->at]) != NULL) {
        layout->at++;
    }
}

static void put_string(struct layout *layout)
{
    size_t start = layout->at++;
    while (layout->at < layout->size && layout->data[layout->at] != '"') {
        layout->at += layout->data[layout->at] == '\\' ? 2 : 1;
    }
    layout->at++;
    put(layout, layout->data + start, layout->at - start);
}

static void open_container(struct layout *layout)
{
    put(layout, &layout->data[layout->at++], 1);
    skip_blanks(layout);
    char next = layout->data[layout->at];
    if (next == '}' || next == ']') {
        put(layout, &layout->data[layout->at++], 1);
        return;
    }
    layout->depth++;
    start_line(layout);
}

static void put_token(struct layout *layout)
{
    const char *token = &layout->data[layout->at];
    switch (*token) {
    case '"':
        put_string(layout);
        return;
    case '{':
    case '[':
        open_container(layout);
        return;
    case '}':
    case ']':
        layout->depth--;
        if (layout->depth < DEPTH_MAX) {
            start_line(layout);
        }
        put(layout, token, 1);
        break;
    case ',':
        put(layout, token, 1);
        start_line(layout);
        break;
    case ':':
        put(layout, ": ", 2);
        break;
    default:
        put(layout, token, 1);
        break;
    }
    layout->at++;
}

/* Known to be JSON: so a string has an end, and a container, too. */
static char *lay_out(const char *data, size_t size)
{
    struct layout layout = {.data = data, .size = size};
    qn_buf_init(&layout.out, PRETTY_SIZE_MAX);
    for (skip_blanks(&layout); layout.at < size; skip_blanks(&layout)) {
        put_token(&layout);
    }
    char *text = qn_memory_must(qn_str_dup(qn_buf_text(&layout.out)));
    qn_buf_finish(&layout.out);
    return text;
}

char *qn_pretty_json(const char *data, size_t size)
{
    json_error_t reason;
    if (size == 0 || (data[0] != '{' && data[0] != '[')) {
        return NULL; /* as almost every payload of another kind: it need not be parsed */
    }
    /* As reals: an integer of more than 64 bits is one that is shown. */
    json_t *document = json_loadb(data, size, JSON_DECODE_INT_AS_REAL, &reason);
    if (document == NULL) {
        return NULL;
    }
    json_decref(document);
    return lay_out(data, size);
}
