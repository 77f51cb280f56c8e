/* SPDX-License-Identifier: MIT */
/* policies.c - the options of single handlers and commands.
 *
 * Each is [PATTERN=]VALUE: for this pattern, else for all. One with the pattern comes before those
 * for all, and of several the last counts. All of them come before what a shared object says of its
 * own handlers; what no option names stays as it says. A pattern that is not served is a mistake.
 */
#include "cli/handlers/policies.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/number.h"
#include "base/text/size.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/task_options.h"
#include "worker/policy/handler_options.h"
#include "worker/run/mux.h"

/* The pattern whose options are read. */
struct reading {
    const struct qn_cli *cli;
    const char *pattern;
    size_t pattern_size;
    quern_handler_options options;
    char *lists[2]; /* the words of no_retry and only_retry, owned */
    const char *classes[2][QN_ERROR_CLASSES_MAX + 1];
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
    if (strcmp(value, "never") == 0 || strcmp(value, "-1") == 0) {
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
    if (strcmp(value, "never") == 0 || strcmp(value, "-1") == 0) {
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
        if (!qn_handler_options_is_class(word)) {
            return qn_cli_usage(reading->cli,
                                "--%s: class '%s' is not 1 to %d bytes of UTF-8 without spaces",
                                name, word, QN_ERROR_CLASS_SIZE_MAX);
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

static int read_cpu(struct reading *reading, const char *name, const char *value)
{
    return read_duration(reading, name, value, &reading->options.cpu_ms);
}

static int read_memory(struct reading *reading, const char *name, const char *value)
{
    quern_error err;
    if (qn_size_parse(value, &reading->options.memory_max, &err) != QUERN_OK) {
        return qn_cli_usage(reading->cli, "--%s: %s", name, err.text);
    }
    return reading->options.memory_max > 0 ? QN_EXIT_OK
                                           : refuse(reading, name, value, "a size above 0");
}

static int read_ack(struct reading *reading, const char *name, const char *value)
{
    bool is_early = strcmp(value, "early") == 0;
    reading->options.ack = is_early ? QUERN_ACK_EARLY : QUERN_ACK_LATE;
    return is_early || strcmp(value, "late") == 0 ? QN_EXIT_OK
                                                  : refuse(reading, name, value, "early or late");
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

static int (*const readers[QN_POLICY_COUNT])(struct reading *reading, const char *name,
                                             const char *value) = {
    [QN_POLICY_TIMEOUT] = read_timeout,         [QN_POLICY_KILL_AFTER] = read_kill_after,
    [QN_POLICY_RETRY_MAX] = read_retry_max,     [QN_POLICY_BACKOFF] = read_backoff,
    [QN_POLICY_NO_RETRY] = read_no_retry,       [QN_POLICY_ONLY_RETRY] = read_only_retry,
    [QN_POLICY_ACK_ON] = read_ack_on,           [QN_POLICY_ON_CRASH] = read_on_crash,
    [QN_POLICY_CONCURRENCY] = read_concurrency, [QN_POLICY_CPU] = read_cpu,
    [QN_POLICY_MEMORY] = read_memory,           [QN_POLICY_ACK] = read_ack,
};

static void finish_reading(struct reading *reading)
{
    qn_free(reading->lists[0]);
    qn_free(reading->lists[1]);
}

/* Whether two texts of options are for one pattern. */
static bool have_same_pattern(const char *left, const char *right)
{
    size_t left_size = pattern_size(left);
    size_t right_size = pattern_size(right);
    return left_size == 0 || right_size == 0 ||
           (left_size == right_size && memcmp(left, right, left_size) == 0);
}

static int check_lists(const struct qn_cli *cli, size_t first)
{
    const char *no;
    const char *only;
    for (size_t i = 0; (no = qn_args_repeat(&cli->args, first + QN_POLICY_NO_RETRY, i)) != NULL;
         i++) {
        for (size_t k = 0;
             (only = qn_args_repeat(&cli->args, first + QN_POLICY_ONLY_RETRY, k)) != NULL; k++) {
            if (have_same_pattern(no, only)) {
                return qn_cli_usage(cli, "--no-retry-on and --only-retry exclude each other");
            }
        }
    }
    return QN_EXIT_OK;
}

int qn_policies_check(const struct qn_cli *cli, size_t first)
{
    struct reading reading = {.cli = cli};
    int exit_code = check_lists(cli, first);
    for (size_t i = 0; i < QN_POLICY_COUNT; i++) {
        const char *text;
        for (size_t k = 0;
             exit_code == QN_EXIT_OK && (text = qn_args_repeat(&cli->args, first + i, k)) != NULL;
             k++) {
            size_t size = pattern_size(text);
            exit_code = readers[i](&reading, cli->args.options[first + i].name,
                                   size > 0 ? text + size + 1 : text);
        }
    }
    finish_reading(&reading);
    return exit_code;
}

static bool has_pattern(const quern_mux *mux, const char *pattern, size_t size)
{
    for (size_t i = 0; i < qn_mux_count(mux); i++) {
        const struct qn_mux_entry *entry = qn_mux_at(mux, i);
        if (entry->pattern_size == size && memcmp(entry->pattern, pattern, size) == 0) {
            return true;
        }
    }
    return false;
}

int qn_policies_check_patterns(const struct qn_cli *cli, size_t first, const quern_mux *mux)
{
    for (size_t i = 0; i < QN_POLICY_COUNT; i++) {
        const char *text;
        for (size_t k = 0; (text = qn_args_repeat(&cli->args, first + i, k)) != NULL; k++) {
            size_t size = pattern_size(text);
            if (size > 0 ? !has_pattern(mux, text, size) : qn_mux_count(mux) == 0) {
                return qn_cli_usage(cli, "--%s: '%s' fits no --exec, --exec-loop or --handlers",
                                    cli->args.options[first + i].name, text);
            }
        }
    }
    return QN_EXIT_OK;
}

static const quern_handler_options *options_of(const quern_mux *mux, const char *pattern)
{
    size_t i = 0;
    while (strcmp(qn_mux_at(mux, i)->pattern, pattern) != 0) {
        i++;
    }
    return &qn_mux_at(mux, i)->options;
}

int qn_policies_apply(const struct qn_cli *cli, size_t first, const char *pattern, quern_mux *mux)
{
    struct reading reading = {.cli = cli,
                              .pattern = pattern,
                              .pattern_size = strlen(pattern),
                              .options = *options_of(mux, pattern)};
    if (value_for(&reading, first + QN_POLICY_NO_RETRY) != NULL ||
        value_for(&reading, first + QN_POLICY_ONLY_RETRY) != NULL) {
        reading.options.no_retry = NULL; /* the two exclude each other */
        reading.options.only_retry = NULL;
    }
    int exit_code = QN_EXIT_OK;
    for (size_t i = 0; exit_code == QN_EXIT_OK && i < QN_POLICY_COUNT; i++) {
        const char *value = value_for(&reading, first + i);
        if (value != NULL) {
            exit_code = readers[i](&reading, cli->args.options[first + i].name, value);
        }
    }
    quern_error err;
    if (exit_code == QN_EXIT_OK &&
        quern_mux_configure(mux, pattern, &reading.options, &err) != QUERN_OK) {
        exit_code = qn_cli_usage(cli, "%s", err.text);
    }
    finish_reading(&reading);
    return exit_code;
}
