/* SPDX-License-Identifier: MIT */
/* args.c - reads the command line by tables.
 *
 * Happy path: qn_args_next_word gives the noun and the verb, stepping over global options; then
 * qn_args_parse reads the rest with the verb's table. "--name value" and "--name=value" are the
 * same; a value that itself starts with "--" needs the second form, so that a forgotten value does
 * not swallow the next option.
 * Failure paths: the first word that is not understood ends the reading; args->problem then holds
 * one line, with the nearest known option when there is one. Nothing is printed here. */
#include "cli/args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "base/text/duration.h"
#include "base/text/moment.h"
#include "base/text/size.h"
#include "cli/cli.h"
#include "cli/memory.h"

const struct qn_option qn_args_globals[QN_GLOBAL_COUNT] = {
    [QN_GLOBAL_BROKER] = {"broker", "URL", "where the tasks live (QUERN_BROKER)", QN_OPTION_TEXT},
    [QN_GLOBAL_CONFIG] = {"config", "FILE", "read options from it (QUERN_CONFIG)", QN_OPTION_TEXT},
    [QN_GLOBAL_CONTEXT] = {"context", "NAME", "a broker that the configuration names",
                           QN_OPTION_TEXT},
    [QN_GLOBAL_JSON] = {"json", NULL, "print one JSON document", QN_OPTION_FLAG},
    [QN_GLOBAL_NO_RETRY] = {"no-retry", NULL, "end at the first failure to reach the broker",
                            QN_OPTION_FLAG},
    [QN_GLOBAL_HELP] = {"help", NULL, "show help for the verb", QN_OPTION_FLAG, .letter = 'h'},
    [QN_GLOBAL_VERSION] = {"version", NULL, "print the version", QN_OPTION_FLAG},
};

QUERN_PRINTF(2, 3) static bool set_problem(struct qn_args *args, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(args->problem, sizeof args->problem, format, list);
    va_end(list);
    return false;
}

void qn_args_init(struct qn_args *args, int argc, char **argv)
{
    *args = (struct qn_args){.argc = argc, .argv = argv, .position = 1};
    args->operands = qn_memory_must(qn_alloc_zero((size_t)argc + 1, sizeof *args->operands));
}

void qn_args_finish(struct qn_args *args)
{
    qn_free(args->repeats);
    qn_free(args->operands);
}

static bool is_name(const char *name, const char *text, size_t size)
{
    return name != NULL && strlen(name) == size && memcmp(name, text, size) == 0;
}

/* The option of a word such as "--name", "--name=value" or "-v". */
static const struct qn_option *find_option(const struct qn_option *options, size_t count,
                                           const char *word)
{
    bool is_long = strncmp(word, "--", 2) == 0;
    const char *name = word + strspn(word, "-");
    size_t size = strcspn(name, "=");
    for (size_t i = 0; i < count; i++) {
        const struct qn_option *option = &options[i];
        bool is_letter = size == 1 && name[1] == '\0' && option->letter == name[0];
        if (is_long ? is_name(option->name, name, size) || is_name(option->alias, name, size)
                    : is_letter) {
            return option;
        }
    }
    return NULL;
}

static bool refuse_unknown(struct qn_args *args, const char *word)
{
    const char *candidates[QN_OPTION_MAX + QN_GLOBAL_COUNT];
    size_t count = 0;
    for (size_t i = 0; args->options != NULL && i < args->option_count; i++) {
        candidates[count++] = args->options[i].name;
    }
    for (size_t i = 0; i < QN_GLOBAL_COUNT; i++) {
        candidates[count++] = qn_args_globals[i].name;
    }
    char name[64];
    size_t dashes = strspn(word, "-");
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word + dashes, "="), word + dashes);
    const char *nearest = qn_cli_nearest(name, candidates, count);
    if (nearest == NULL) {
        return set_problem(args, "unknown option '%s'", word);
    }
    return set_problem(args, "unknown option '%s'; did you mean '--%s'?", word, nearest);
}

static bool parse_count(struct qn_args *args, const struct qn_option *option, const char *text,
                        int64_t *ret_number)
{
    char *end = NULL;
    QN_ASSERT(text != NULL);
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        return set_problem(args, "--%s: '%s' is not a whole number", option->name, text);
    }
    if (number < option->min || (option->max > 0 && number > option->max)) {
        if (option->max > 0) {
            return set_problem(args, "--%s: %lld is not between %lld and %lld", option->name,
                               number, (long long)option->min, (long long)option->max);
        }
        return set_problem(args, "--%s: %lld is less than %lld", option->name, number,
                           (long long)option->min);
    }
    *ret_number = number;
    return true;
}

static bool parse_duration(struct qn_args *args, const struct qn_option *option, const char *text,
                           int64_t *ret_number)
{
    quern_error err;
    int64_t ms = 0;
    if (qn_duration_parse(text, &ms, &err) != QUERN_OK) {
        return set_problem(args, "--%s: %s", option->name, err.text);
    }
    char limit[32];
    if (ms < option->min) {
        qn_duration_format(option->min, limit, sizeof limit);
        return set_problem(args, "--%s: '%s' is less than %s", option->name, text, limit);
    }
    if (option->max > 0 && ms > option->max) {
        qn_duration_format(option->max, limit, sizeof limit);
        return set_problem(args, "--%s: '%s' is more than %s", option->name, text, limit);
    }
    *ret_number = ms;
    return true;
}

/* 0 would be the default in C and no limit elsewhere: here it is neither. */
static bool refuse_0(struct qn_args *args, const struct qn_option *option)
{
    return set_problem(args, "--%s: 0 is refused: use never, or leave it out for the default",
                       option->name);
}

static bool parse_number(struct qn_args *args, const struct qn_option *option, const char *text,
                         int64_t *ret_number)
{
    if (option->never && (strcmp(text, "never") == 0 || strcmp(text, "-1") == 0)) {
        *ret_number = -1;
        return true;
    }
    if (option->never && text[0] == '-') {
        return set_problem(args, "--%s: '%s' is negative: use never for no limit", option->name,
                           text);
    }
    bool ok = option->kind == QN_OPTION_COUNT ? parse_count(args, option, text, ret_number)
                                              : parse_duration(args, option, text, ret_number);
    return ok && option->never && *ret_number == 0 ? refuse_0(args, option) : ok;
}

static bool is_never(const struct qn_option *option, const char *text)
{
    return option->never && strcmp(text, "never") == 0;
}

static bool parse_value(struct qn_args *args, const struct qn_option *option, const char *text,
                        int64_t *ret_number)
{
    quern_error err;
    switch (option->kind) {
    case QN_OPTION_FLAG:
    case QN_OPTION_TEXT:
        return true;
    case QN_OPTION_COUNT:
    case QN_OPTION_DURATION:
        return parse_number(args, option, text, ret_number);
    case QN_OPTION_SIZE:
        if (is_never(option, text)) {
            *ret_number = -1;
            return true;
        }
        if (qn_size_parse(text, ret_number, &err) != QUERN_OK) {
            return set_problem(args, "--%s: %s", option->name, err.text);
        }
        return true;
    case QN_OPTION_MOMENT:
        if (is_never(option, text)) {
            *ret_number = -1;
            return true;
        }
        if (qn_moment_parse(text, ret_number, &err) != QUERN_OK) {
            return set_problem(args, "--%s: %s", option->name, err.text);
        }
        return true;
    }
    return true;
}

/* Finds the text that belongs to the option: behind '=', or the next word. */
static bool take_text(struct qn_args *args, const struct qn_option *option, const char *equals,
                      const char **ret_text)
{
    if (option->kind == QN_OPTION_FLAG) {
        if (equals != NULL) {
            return set_problem(args, "--%s takes no value", option->name);
        }
        *ret_text = option->name;
        return true;
    }
    if (equals != NULL) {
        *ret_text = equals + 1;
        return true;
    }
    const char *next = args->position < args->argc ? args->argv[args->position] : NULL;
    if (next == NULL || strncmp(next, "--", 2) == 0) {
        return set_problem(args, "--%s needs a value: --%s %s", option->name, option->name,
                           option->argument);
    }
    args->position++;
    *ret_text = next;
    return true;
}

/* index: of the option in its table. */
static bool store_value(struct qn_args *args, const struct qn_option *option, size_t index,
                        struct qn_option_value *value, const char *text)
{
    QN_ASSERT(text != NULL);
    if (option->repeats) {
        args->repeats = qn_memory_must(qn_vec_grow(args->repeats, args->repeat_count,
                                                   &args->repeat_capacity, sizeof *args->repeats));
        args->repeats[args->repeat_count++] =
            (struct qn_repeat){.option = index, .text = text, .line = value->line};
    } else if (value->text != NULL && option->kind != QN_OPTION_FLAG) {
        return set_problem(args, "--%s is given twice", option->name);
    }
    value->text = text;
    return parse_value(args, option, text, &value->number);
}

/* Reads the option at args->position. */
static bool read_option(struct qn_args *args)
{
    const char *word = args->argv[args->position++];
    const char *equals = strchr(word, '=');
    struct qn_option_value *values = args->globals;
    const struct qn_option *table = qn_args_globals;
    const struct qn_option *option = find_option(table, QN_GLOBAL_COUNT, word);
    if (option == NULL && args->options != NULL) {
        values = args->values;
        table = args->options;
        option = find_option(table, args->option_count, word);
    }
    if (option == NULL) {
        return refuse_unknown(args, word);
    }
    const char *text = NULL;
    size_t index = (size_t)(option - table);
    struct qn_option given = *option; /* by the name that messages should have */
    const char *name = word + strspn(word, "-");
    given.name = is_name(option->alias, name, strcspn(name, "=")) ? option->alias : option->name;
    values[index].source = QN_SOURCE_LINE;
    return take_text(args, &given, equals, &text) &&
           store_value(args, &given, index, &values[index], text);
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

const char *qn_args_next_word(struct qn_args *args)
{
    while (args->position < args->argc) {
        const char *word = args->argv[args->position];
        if (!is_option(word)) {
            args->position++;
            return word;
        }
        if (!read_option(args)) {
            return NULL;
        }
    }
    return NULL;
}

/* Help is shown whenever it is requested, even after a wrong word. */
static void find_help(struct qn_args *args)
{
    for (int i = args->position; i < args->argc && strcmp(args->argv[i], "--") != 0; i++) {
        if (strcmp(args->argv[i], "--help") == 0 || strcmp(args->argv[i], "-h") == 0) {
            args->globals[QN_GLOBAL_HELP].text = "help";
        }
    }
}

bool qn_args_parse(struct qn_args *args, const struct qn_option *options, size_t option_count)
{
    args->options = options;
    args->option_count = option_count;
    bool only_operands = false;
    while (args->position < args->argc) {
        const char *word = args->argv[args->position];
        if (only_operands || !is_option(word)) {
            args->operands[args->operand_count++] = word;
            args->position++;
        } else if (strcmp(word, "--") == 0) {
            only_operands = true;
            args->position++;
        } else if (!read_option(args)) {
            find_help(args);
            return false;
        }
    }
    return true;
}

/* --- Values from elsewhere ------------------------------------------------------------- */

static bool is_spelled(const char *name, const char *text)
{
    size_t i = 0;
    for (; name != NULL && name[i] != '\0'; i++) {
        if (name[i] != (text[i] == '_' ? '-' : text[i])) {
            return false;
        }
    }
    return name != NULL && text[i] == '\0';
}

const struct qn_option *qn_args_find(const struct qn_option *options, size_t count,
                                     const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (is_spelled(options[i].name, name) || is_spelled(options[i].alias, name)) {
            return &options[i];
        }
    }
    return NULL;
}

/* Where the option stands: among the global ones, or the verb's. */
static struct qn_option_value *place_of(struct qn_args *args, const struct qn_option *option,
                                        size_t *ret_index)
{
    for (size_t i = 0; i < QN_GLOBAL_COUNT; i++) {
        if (option == &qn_args_globals[i]) {
            *ret_index = i;
            return &args->globals[i];
        }
    }
    *ret_index = (size_t)(option - args->options);
    return &args->values[*ret_index];
}

const struct qn_option_value *qn_args_value(const struct qn_args *args,
                                            const struct qn_option *option)
{
    size_t index;
    return place_of((struct qn_args *)(uintptr_t)args, option, &index);
}

static bool read_flag(const char *text, bool *ret_is_on)
{
    static const char *const words[][2] = {
        {"true", "false"}, {"yes", "no"}, {"on", "off"}, {"1", "0"}};
    for (size_t i = 0; i < QN_COUNT_OF(words); i++) {
        if (strcmp(text, words[i][0]) == 0 || strcmp(text, words[i][1]) == 0) {
            *ret_is_on = strcmp(text, words[i][0]) == 0;
            return true;
        }
    }
    return false;
}

bool qn_args_set(struct qn_args *args, const struct qn_option *option, const char *text,
                 enum qn_source source, size_t line)
{
    size_t index;
    bool is_on = true;
    struct qn_option_value *value = place_of(args, option, &index);
    bool is_twice = value->source == source && !option->repeats;
    if (text[0] == '\0') {
        return set_problem(args, "--%s: it has no value", option->name);
    }
    if (option->kind == QN_OPTION_FLAG && !read_flag(text, &is_on)) {
        return set_problem(args, "--%s: '%s' is not true or false", option->name, text);
    }
    if (is_twice) {
        return set_problem(args, "--%s is given twice", option->name);
    }
    value->source = source;
    value->line = line;
    if (option->kind == QN_OPTION_FLAG) {
        value->text = is_on ? option->name : NULL;
        return true;
    }
    return store_value(args, option, index, value, text);
}

/* --- Reading them ---------------------------------------------------------------------- */

bool qn_args_given(const struct qn_args *args, size_t option)
{
    return args->values[option].text != NULL;
}

const char *qn_args_text(const struct qn_args *args, size_t option)
{
    return args->values[option].text;
}

int64_t qn_args_number(const struct qn_args *args, size_t option, int64_t fallback)
{
    return args->values[option].text != NULL ? args->values[option].number : fallback;
}

const char *qn_args_repeat(const struct qn_args *args, size_t option, size_t index)
{
    for (size_t i = 0; i < args->repeat_count; i++) {
        if (args->repeats[i].option == option && index-- == 0) {
            return args->repeats[i].text;
        }
    }
    return NULL;
}

const char *qn_args_operand(const struct qn_args *args, size_t index)
{
    return index < args->operand_count ? args->operands[index] : NULL;
}
