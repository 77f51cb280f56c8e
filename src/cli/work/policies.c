/* SPDX-License-Identifier: MIT */
/* policies.c - the options of single commands.
 *
 * Each is [PATTERN=]VALUE: for the command of this pattern, else for all. One with the pattern
 * comes before those for all, and of several the last counts. A pattern that no --exec has is a
 * mistake. */
#include "cli/work/policies.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/number.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/task_options.h"
#include "worker/policy/handler_options.h"

/* The command that is being read. */
struct reading {
    const struct qn_cli *cli;
    const char *pattern;
    size_t pattern_size;
    quern_handler_options options;
    char *lists[2]; /* the words of no_retry and only_retry, owned */
    const char *classes[2][QN_ERROR_CLASSES_MAX + 1];
};

struct option {
    size_t place;
    const char *name;
    int (*read)(struct reading *reading, const char *name, const char *value);
};

static int refuse(const struct reading *reading, const char *name, const char *value,
                  const char *wanted)
{
    return qn_cli_usage(reading->cli, "--%s: '%s' is not %s", name, value, wanted);
}

static int read_duration(const struct reading *reading, const char *name, const char *value,
                         int64_t *ret_ms)
{
    quern_error err;
    if (qn_duration_parse(value, ret_ms, &err) != QUERN_OK) {
        return qn_cli_usage(reading->cli, "--%s: %s", name, err.text);
    }
    if (*ret_ms == 0) { /* the default in C */
        return qn_cli_usage(reading->cli, "--%s: 0 is refused: leave it out for the default", name);
    }
    return QN_EXIT_OK;
}

static int read_timeout(struct reading *reading, const char *name, const char *value)
{
    if (strcmp(value, "never") == 0) {
        reading->options.timeout_ms = QUERN_TIMEOUT_NEVER;
        return QN_EXIT_OK;
    }
    return read_duration(reading, name, value, &reading->options.timeout_ms);
}

static int read_kill_after(struct reading *reading, const char *name, const char *value)
{
    return read_duration(reading, name, value, &reading->options.kill_after_ms);
}

/* A whole number from 1 to max. */
static bool read_number(const char *value, uint64_t max, uint64_t *ret_number)
{
    struct qn_cursor cursor = {value, value + strlen(value)};
    return qn_number_take(&cursor, ret_number) && cursor.at == cursor.end && *ret_number > 0 &&
           *ret_number <= max;
}

static int read_retry_max(struct reading *reading, const char *name, const char *value)
{
    uint64_t number = 0;
    if (strcmp(value, "never") == 0) {
        reading->options.retry_max = QUERN_RETRY_NEVER;
        return QN_EXIT_OK;
    }
    if (!read_number(value, 25, &number)) {
        return refuse(reading, name, value, "1 to 25 or never");
    }
    reading->options.retry_max = (int64_t)number;
    return QN_EXIT_OK;
}

static int read_concurrency(struct reading *reading, const char *name, const char *value)
{
    uint64_t number = 0;
    if (!read_number(value, QN_CONCURRENCY_MAX, &number)) {
        return refuse(reading, name, value, "a number from 1 to 4096");
    }
    reading->options.concurrency = (uint32_t)number;
    return QN_EXIT_OK;
}

static int read_backoff(struct reading *reading, const char *name, const char *value)
{
    (void)name;
    return qn_task_options_backoff(reading->cli, value, &reading->options.retry);
}

/* Cuts the value at its commas. */
static int read_classes(struct reading *reading, const char *name, const char *value, size_t index)
{
    const char **classes = reading->classes[index];
    size_t count = 0;
    qn_free(reading->lists[index]);
    reading->lists[index] = qn_memory_must(qn_str_dup(value));
    char *rest = NULL;
    for (char *word = strtok_r(reading->lists[index], ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (count == QN_ERROR_CLASSES_MAX) {
            return qn_cli_usage(reading->cli, "--%s: over %d classes", name, QN_ERROR_CLASSES_MAX);
        }
        classes[count++] = word;
    }
    classes[count] = NULL;
    return count == 0 ? refuse(reading, name, value, "CLASS[,CLASS]...") : QN_EXIT_OK;
}

static int read_no_retry(struct reading *reading, const char *name, const char *value)
{
    reading->options.no_retry = reading->classes[0];
    return read_classes(reading, name, value, 0);
}

static int read_only_retry(struct reading *reading, const char *name, const char *value)
{
    reading->options.only_retry = reading->classes[1];
    return read_classes(reading, name, value, 1);
}

static int read_ack_on(struct reading *reading, const char *name, const char *value)
{
    bool both = strcmp(value, "both") == 0;
    reading->options.ack_on_failure = both || strcmp(value, "failure") == 0;
    reading->options.ack_on_timeout = both || strcmp(value, "timeout") == 0;
    return reading->options.ack_on_failure || reading->options.ack_on_timeout
               ? QN_EXIT_OK
               : refuse(reading, name, value, "failure, timeout or both");
}

static int read_on_crash(struct reading *reading, const char *name, const char *value)
{
    static const char *const words[] = {
        [QUERN_ON_CRASH_REQUEUE] = "requeue",
        [QUERN_ON_CRASH_FAIL] = "fail",
        [QUERN_ON_CRASH_ARCHIVE] = "archive",
        [QUERN_ON_CRASH_DROP] = "drop",
    };
    for (int32_t i = 0; i < (int32_t)QN_COUNT_OF(words); i++) {
        if (strcmp(value, words[i]) == 0) {
            reading->options.on_crash = i;
            return QN_EXIT_OK;
        }
    }
    return refuse(reading, name, value, "requeue, fail, archive or drop");
}

/* The size of PATTERN in "PATTERN=..."; 0: there is none. */
static size_t pattern_size(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals == NULL ? 0 : (size_t)(equals - text);
}

/* NULL: the option says nothing about this pattern. */
static const char *value_for(const struct reading *reading, size_t place)
{
    const char *text;
    const char *own = NULL;
    const char *all = NULL;
    for (size_t i = 0; (text = qn_args_repeat(&reading->cli->args, place, i)) != NULL; i++) {
        size_t size = pattern_size(text);
        if (size == 0) {
            all = text;
        } else if (size == reading->pattern_size && memcmp(text, reading->pattern, size) == 0) {
            own = text + size + 1;
        }
    }
    return own != NULL ? own : all;
}

/* Each pattern must be one of --exec. */
static int check_patterns(const struct qn_cli *cli, const struct option *option, size_t exec)
{
    const struct qn_args *args = &cli->args;
    const char *text;
    for (size_t i = 0; (text = qn_args_repeat(args, option->place, i)) != NULL; i++) {
        size_t size = pattern_size(text);
        const char *command;
        bool found = size == 0 && text[0] != '=' && qn_args_repeat(args, exec, 0) != NULL;
        for (size_t k = 0; size > 0 && (command = qn_args_repeat(args, exec, k)) != NULL; k++) {
            found = found || (pattern_size(command) == size && memcmp(text, command, size) == 0);
        }
        if (!found) {
            return qn_cli_usage(cli, "--%s: '%s' fits no --exec PATTERN=COMMAND", option->name,
                                text);
        }
    }
    return QN_EXIT_OK;
}

static int configure(const struct qn_cli *cli, const struct option *options, size_t count,
                     const char *exec, quern_mux *mux)
{
    struct reading reading = {.cli = cli, .pattern = exec, .pattern_size = pattern_size(exec)};
    int exit_code = QN_EXIT_OK;
    for (size_t i = 0; exit_code == QN_EXIT_OK && i < count; i++) {
        const char *value = value_for(&reading, options[i].place);
        exit_code = value != NULL ? options[i].read(&reading, options[i].name, value) : QN_EXIT_OK;
    }
    if (exit_code == QN_EXIT_OK) {
        quern_error err;
        char *pattern = qn_memory_must(qn_str_dup(exec));
        pattern[reading.pattern_size] = '\0';
        if (quern_mux_configure(mux, pattern, &reading.options, &err) != QUERN_OK) {
            exit_code = qn_cli_usage(cli, "%s", err.text);
        }
        qn_free(pattern);
    }
    qn_free(reading.lists[0]);
    qn_free(reading.lists[1]);
    return exit_code;
}

int qn_work_policies_read(const struct qn_cli *cli, struct qn_work_policy_options places,
                          quern_mux *mux)
{
    const struct option options[] = {
        {places.timeout, "timeout", read_timeout},
        {places.kill_after, "kill-after", read_kill_after},
        {places.retry_max, "retry-max", read_retry_max},
        {places.backoff, "backoff", read_backoff},
        {places.no_retry, "no-retry", read_no_retry},
        {places.only_retry, "only-retry", read_only_retry},
        {places.ack_on, "ack-on", read_ack_on},
        {places.on_crash, "on-crash", read_on_crash},
        {places.concurrency, "type-concurrency", read_concurrency},
    };
    int exit_code = QN_EXIT_OK;
    for (size_t i = 0; exit_code == QN_EXIT_OK && i < QN_COUNT_OF(options); i++) {
        exit_code = check_patterns(cli, &options[i], places.exec);
    }
    const char *exec;
    for (size_t i = 0;
         exit_code == QN_EXIT_OK && (exec = qn_args_repeat(&cli->args, places.exec, i)) != NULL;
         i++) {
        exit_code = configure(cli, options, QN_COUNT_OF(options), exec, mux);
    }
    return exit_code;
}
