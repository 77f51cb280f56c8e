/* SPDX-License-Identifier: MIT */
/* server_info.c - collects what the broker reports about itself, in its order; used by stats, db
 * info and doctor. */
#include "cli/verbs/server_info.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/terminal.h"

static void add_item(const char *name, const char *text, void *user)
{
    qn_json_set_bytes(user, name, text, strlen(text));
}

int qn_server_info_read(const struct qn_cli *cli, quern_inspector *inspector, json_t **ret_info)
{
    quern_error err;
    json_t *server_info = qn_memory_must(json_object());
    if (quern_inspector_broker(inspector, add_item, server_info, &err) != QUERN_OK) {
        json_decref(server_info);
        return qn_cli_fail(cli, &err);
    }
    *ret_info = server_info;
    return QN_EXIT_OK;
}

/* Sizes and durations as people read them; --json has the exact numbers. */
static void print_item(const char *name, const char *text)
{
    static const char *const sizes[] = {"size", "wal_size", "memory_used", "memory_peak"};
    char *end = NULL;
    uint64_t number = strtoull(text, &end, 10);
    if (end == text || *end != '\0') {
        qn_field_text(name, text);
        return;
    }
    bool is_size = strcmp(name, "memory_max") == 0 && number > 0; /* 0: no limit */
    for (size_t i = 0; i < QN_COUNT_OF(sizes); i++) {
        is_size = is_size || strcmp(name, sizes[i]) == 0;
    }
    if (is_size) {
        qn_field_size(name, number);
    } else if (strcmp(name, "uptime_s") == 0 && number > 0 && number < UINT32_MAX) {
        qn_field_duration("uptime", (int64_t)number * 1000);
    } else {
        qn_field_text(name, text);
    }
}

static bool is_warning(const char *name)
{
    return strncmp(name, "warning", strlen("warning")) == 0;
}

static const char *text_at(void *iterator)
{
    const char *text = json_string_value(json_object_iter_value(iterator));
    return text == NULL ? "" : text;
}

void qn_server_info_print(json_t *server_info, bool only_warnings)
{
    for (void *iterator = json_object_iter(server_info); iterator != NULL;
         iterator = json_object_iter_next(server_info, iterator)) {
        const char *name = json_object_iter_key(iterator);
        if (!only_warnings || is_warning(name)) {
            print_item(name, text_at(iterator));
        }
    }
}

size_t qn_server_info_warning_lines(json_t *server_info)
{
    size_t lines = 0;
    size_t width = qn_terminal_width(stdout);
    for (void *iterator = json_object_iter(server_info); width > 0 && iterator != NULL;
         iterator = json_object_iter_next(server_info, iterator)) {
        if (is_warning(json_object_iter_key(iterator))) {
            lines += 1 + (QN_FIELD_NAME_WIDTH + strlen(text_at(iterator))) / width;
        }
    }
    return lines;
}
