/* SPDX-License-Identifier: MIT */
/* fuzz_terminal.c - any bytes as stored data, shown on a terminal in each way that the program has:
 * no control character gets through, no mark that changes the direction, no broken UTF-8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/utf8.h"
#include "cli/cli.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "lib_fuzz.h"

/* U+200E, U+200F, U+202A..E, U+2066..9, U+061C, and the controls of U+0080..9F, as UTF-8. */
static bool is_hostile(const unsigned char *at, size_t left)
{
    if (at[0] < 0x20 || at[0] == 0x7f) {
        return at[0] != '\n';
    }
    if (left >= 2 && at[0] == 0xc2 && at[1] < 0xa0) {
        return true;
    }
    if (left >= 2 && at[0] == 0xd8 && at[1] == 0x9c) {
        return true;
    }
    if (left >= 3 && at[0] == 0xe2 && at[1] == 0x80) {
        return at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xa8 && at[2] <= 0xae);
    }
    return left >= 3 && at[0] == 0xe2 && at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9;
}

static void require_safe(const char *text, size_t size)
{
    fuzz_require(qn_utf8_valid(text, size));
    for (size_t i = 0; i < size; i++) {
        fuzz_require(!is_hostile((const unsigned char *)text + i, size - i));
    }
}

static void try_texts(const char *text, size_t size)
{
    char *safe = qn_text_safe(text, size);
    require_safe(safe, strlen(safe));
    for (size_t width = 0; width < 4; width++) {
        size_t fits = qn_text_fit(safe, width);
        fuzz_require(fits <= strlen(safe) && qn_utf8_valid(safe, fits));
    }
    (void)qn_text_width(safe);
    qn_free(safe);
    safe = qn_text_bytes(text, size);
    require_safe(safe, strlen(safe));
    qn_free(safe);
}

static void show_all(const char *text, size_t size)
{
    static const struct qn_column columns[] = {
        {.title = "ID"}, {.title = "PAYLOAD", .flexible = true}, {.title = "SIZE", .right = true}};
    struct qn_table table;
    struct qn_cli cli = {.where = "task list"};
    qn_table_init(&table, columns, 3);
    qn_table_text(&table, text);
    qn_table_bytes(&table, text, size);
    qn_table_number(&table, size);
    qn_table_print(&table);
    qn_table_finish(&table);
    qn_field_text("error", text);
    qn_field_bytes("payload", text, size);
    qn_cli_message(&cli, "%s", text);
    (void)qn_cli_usage(&cli, "'%s' is no word", text);
}

/* The program's output goes to memory meanwhile. */
static void try_output(const char *text, size_t size)
{
    char *data = NULL;
    size_t data_size = 0;
    FILE *out = stdout;
    FILE *err = stderr;
    FILE *memory = open_memstream(&data, &data_size);
    fuzz_require(memory != NULL);
    stdout = memory;
    stderr = memory;
    show_all(text, size);
    stdout = out;
    stderr = err;
    fuzz_require(fclose(memory) == 0);
    require_safe(data, data_size);
    free(data);
}

static void try_json(const char *text, size_t size)
{
    json_t *object = json_object();
    qn_json_set_bytes(object, "payload", text, size);
    char *shown = json_dumps(object, 0);
    fuzz_require(shown != NULL && qn_utf8_valid(shown, strlen(shown)));
    for (const char *at = shown; *at != '\0'; at++) {
        fuzz_require((unsigned char)*at >= 0x20);
    }
    free(shown);
    json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    try_texts(text, size);
    try_output(text, size);
    try_json(text, size);
    free(text);
    return 0;
}
