/* SPDX-License-Identifier: MIT */
/* message.c - messages of the program to the user: errors, questions, suggestions.
 *
 * Everything here goes to stderr, as one line that begins with "quern: <verb>: ". Texts may contain
 * foreign data (a task's type, a broker's error), so control characters are escaped. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/output/text.h"
#include "cli/variable.h"

QUERN_PRINTF(3, 0)
static void write_message(const struct qn_cli *cli, quern_log_level level, const char *format,
                          va_list list)
{
    char line[1024];
    (void)vsnprintf(line, sizeof line, format, list);
    if (cli->on_message != NULL) {
        cli->on_message(level, line, cli->message_user);
        return;
    }
    char *safe = qn_text_safe(line, strlen(line));
    (void)fflush(stdout);
    if (cli->where[0] == '\0') {
        (void)fprintf(stderr, "quern: %s\n", safe);
    } else {
        (void)fprintf(stderr, "quern: %s: %s\n", cli->where, safe);
    }
    qn_free(safe);
}

void qn_cli_message(const struct qn_cli *cli, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    write_message(cli, QUERN_LOG_INFO, format, list);
    va_end(list);
}

void qn_cli_warn(const struct qn_cli *cli, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    write_message(cli, QUERN_LOG_WARN, format, list);
    va_end(list);
}

/* At the level of errors that end the program. */
QUERN_PRINTF(2, 3) static void report_fault(const struct qn_cli *cli, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    write_message(cli, QUERN_LOG_ERROR, format, list);
    va_end(list);
}

/* The line of the file from which the value that the message quotes comes: of several in it the
 * longest. */
static size_t line_of(const struct qn_cli *cli, size_t option, const char *message)
{
    const struct qn_args *args = &cli->args;
    size_t line = args->values[option].line;
    size_t longest = 0;
    for (size_t i = 0; i < args->repeat_count; i++) {
        const struct qn_repeat *repeat = &args->repeats[i];
        size_t size = strlen(repeat->text);
        if (repeat->option == option && size > longest && strstr(message, repeat->text) != NULL) {
            longest = size;
            line = repeat->line;
        }
    }
    return line;
}

/* Where the value of the option that the message begins with comes from, with ": "; "": from the
 * command line, or it begins with none. */
static void find_place(const struct qn_cli *cli, const char *message, char *out, size_t size)
{
    const struct qn_args *args = &cli->args;
    char variable[QN_VARIABLE_SIZE];
    out[0] = '\0';
    for (size_t i = 0; args->options != NULL && i < args->option_count; i++) {
        const char *name = args->options[i].name;
        size_t length = strlen(name);
        if (strncmp(message, "--", 2) != 0 || strncmp(message + 2, name, length) != 0 ||
            strchr(": ,", message[2 + length]) == NULL) {
            continue;
        }
        if (args->values[i].source == QN_SOURCE_FILE) {
            (void)snprintf(out, size, "%s:%zu: ", cli->config_path, line_of(cli, i, message));
        } else if (args->values[i].source == QN_SOURCE_ENVIRONMENT) {
            qn_variable_name(cli->where, &args->options[i], variable);
            (void)snprintf(out, size, "%s: ", variable);
        }
    }
}

/* A word in the wrong place may be a URL, and have a password in it. */
int qn_cli_usage(const struct qn_cli *cli, const char *format, ...)
{
    char line[1024];
    char shown[sizeof line];
    char place[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    find_place(cli, line, place, sizeof place);
    qn_cli_hide_passwords(cli, line, shown, sizeof shown);
    if (place[0] != '\0') { /* help on the command line is no help there */
        report_fault(cli, "%s%s", place, shown);
        return QN_EXIT_CONFIG;
    }
    if (cli->on_message != NULL) { /* one line of a log, in any format */
        report_fault(cli, "%s; see: quern %s --help", shown, cli->where);
        return QN_EXIT_USAGE;
    }
    report_fault(cli, "%s", shown);
    (void)fprintf(stderr, "see: quern%s%s --help\n", cli->where[0] == '\0' ? "" : " ", cli->where);
    return QN_EXIT_USAGE;
}

/* The permissions that a user of a Redis server needs: as in docs/protocol/redis.md, which is not
 * installed (tests/docs/test_acl.sh compares the two). */
static const char acl_advice[] =
    "ACL SETUSER worker on >secret -@all ~asynq:* resetchannels &asynq:cancel &asynq:quern"
    " &__redis__:invalidate +@read +@write +eval +evalsha +script|load +publish +subscribe +ping "
    "+hello +time +wait"
    " +select -@dangerous +info +role +client|setname +client|id +client|tracking"
    " +client|trackinginfo";

void qn_cli_report_error(const struct qn_cli *cli, const quern_error *err)
{
    report_fault(cli, "%s", err->text);
    if (err->code == QUERN_E_BROKER && strstr(err->text, "NOPERM") != NULL) {
        if (cli->on_message != NULL) {
            report_fault(cli, "permissions that are enough: %s", acl_advice);
        } else {
            (void)fprintf(stderr, "permissions that are enough: %s\n", acl_advice);
        }
    }
}

int qn_cli_fail(const struct qn_cli *cli, const quern_error *err)
{
    qn_cli_report_error(cli, err);
    return qn_cli_exit_code(err->code);
}

/* Documented in man/quern.1, EXIT STATUS. */
static const enum qn_exit exit_codes[] = {
    [QUERN_OK] = QN_EXIT_OK,
    [QUERN_E_INVALID] = QN_EXIT_DATA,
    [QUERN_E_NOMEM] = QN_EXIT_TEMPORARY,
    [QUERN_E_CONNECT] = QN_EXIT_BROKER,
    [QUERN_E_TIMEOUT] = QN_EXIT_TEMPORARY,
    [QUERN_E_BROKER] = QN_EXIT_BROKER,
    [QUERN_E_DUPLICATE] = QN_EXIT_FAILURE,
    [QUERN_E_CONFLICT] = QN_EXIT_FAILURE,
    [QUERN_E_NOT_FOUND] = QN_EXIT_FAILURE,
    [QUERN_E_STATE] = QN_EXIT_FAILURE,
    [QUERN_E_CORRUPT] = QN_EXIT_DATA,
    [QUERN_E_CLOSED] = QN_EXIT_FAILURE,
    [QUERN_E_BUSY] = QN_EXIT_TEMPORARY,
    [QUERN_E_FULL] = QN_EXIT_TEMPORARY,
    [QUERN_E_UNKNOWN] = QN_EXIT_FAILURE,
    [QUERN_E_NOT_REPLICATED] = QN_EXIT_FAILURE,
    [QUERN_E_STALE] = QN_EXIT_FAILURE,
    [QUERN_E_UNSUPPORTED] = QN_EXIT_FAILURE,
    [QUERN_E_DENIED] = QN_EXIT_DENIED,
    [QUERN_E_THREADS] = QN_EXIT_FAILURE,
};

int qn_cli_exit_code(quern_status status)
{
    size_t index = (size_t)status;
    return index < QN_COUNT_OF(exit_codes) ? (int)exit_codes[index] : QN_EXIT_FAILURE;
}

bool qn_cli_confirm(const struct qn_cli *cli, int *ret_exit, const char *format, ...)
{
    char question[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(question, sizeof question, format, list);
    va_end(list);
    if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) {
        *ret_exit = qn_cli_usage(cli, "%s (not a terminal: use --yes)", question);
        return false;
    }
    char *safe = qn_text_safe(question, strlen(question));
    (void)fprintf(stderr, "%s [y/N] ", safe);
    (void)fflush(stderr);
    qn_free(safe);
    char answer[16] = "";
    if (fgets(answer, (int)sizeof answer, stdin) == NULL ||
        (strcmp(answer, "y\n") != 0 && strcmp(answer, "yes\n") != 0)) {
        qn_cli_message(cli, "nothing was changed");
        *ret_exit = QN_EXIT_FAILURE;
        return false;
    }
    return true;
}

const char *qn_cli_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    size_t nearest_distance = strlen(word) < 5 ? 2 : 3; /* from here on it is another word */
    for (size_t i = 0; i < count; i++) {
        size_t distance = qn_str_distance(word, candidates[i]);
        if (distance < nearest_distance ||
            (nearest == NULL && strlen(word) >= 3 && qn_str_starts_with(candidates[i], word))) {
            nearest = candidates[i];
            nearest_distance = distance < nearest_distance ? distance : nearest_distance;
        }
    }
    return nearest;
}
