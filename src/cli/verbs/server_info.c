/* SPDX-License-Identifier: MIT */
/* server_info.c - collects what the broker reports about itself, in its order; used by stats, db
 * info and doctor. */
#include "cli/verbs/server_info.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/terminal.h"

#define NUMBER_DIGITS_MAX 18 /* more would not fit 64 bits */
#define NUMBER_TEXT_SIZE 48

/* The library reports texts: numbers among them become numbers. NULL: it is none. A version of two
 * parts is no number, though it looks like one. */
static json_t *read_number(const char *name, const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > NUMBER_DIGITS_MAX) {
        return NULL;
    }
    if (text[digits] == '\0') {
        return json_integer(strtoll(text, NULL, 10));
    }
    const char *rest = text + digits + 1;
    bool is_real = text[digits] == '.' && rest[0] != '\0' &&
                   rest[strspn(rest, "0123456789")] == '\0' && strstr(name, "version") == NULL;
    return is_real ? json_real(strtod(text, NULL)) : NULL;
}

static void add_item(const char *name, const char *text, void *user)
{
    json_t *number = read_number(name, text);
    if (number == NULL) {
        qn_json_set_text(user, name, text);
    } else if (json_object_set_new(user, name, number) != 0) {
        qn_memory_exhausted();
    }
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

/* A number is written into `number`. */
static const char *text_at(void *iterator, char number[NUMBER_TEXT_SIZE])
{
    json_t *value = json_object_iter_value(iterator);
    number[0] = '\0';
    if (json_is_integer(value)) {
        (void)snprintf(number, NUMBER_TEXT_SIZE, "%" JSON_INTEGER_FORMAT,
                       json_integer_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(number, NUMBER_TEXT_SIZE, "%.6f", json_real_value(value));
    }
    return json_is_string(value) ? json_string_value(value) : number;
}

void qn_server_info_print(json_t *server_info, bool only_warnings)
{
    for (void *iterator = json_object_iter(server_info); iterator != NULL;
         iterator = json_object_iter_next(server_info, iterator)) {
        const char *name = json_object_iter_key(iterator);
        char text[NUMBER_TEXT_SIZE];
        if (!only_warnings || is_warning(name)) {
            print_item(name, text_at(iterator, text));
        }
    }
}

size_t qn_server_info_warning_lines(json_t *server_info)
{
    size_t lines = 0;
    size_t width = qn_terminal_width(stdout);
    for (void *iterator = json_object_iter(server_info); width > 0 && iterator != NULL;
         iterator = json_object_iter_next(server_info, iterator)) {
        char text[NUMBER_TEXT_SIZE];
        if (is_warning(json_object_iter_key(iterator))) {
            lines += 1 + (QN_FIELD_NAME_WIDTH + strlen(text_at(iterator, text))) / width;
        }
    }
    return lines;
}
