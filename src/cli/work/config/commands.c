/* SPDX-License-Identifier: MIT */
/* commands.c - the mux of `quern work`: its commands, their policies, and what aggregates. */
#include "cli/work/config/commands.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "cli/handlers/policies.h"
#include "cli/handlers/zygote.h"
#include "cli/loop/loop.h"
#include "cli/memory.h"
#include "cli/work/aggregate.h"
#include "cli/work/options.h"
#include "worker/run/mux.h"

static quern_status add_exec(const struct qn_cli *cli, quern_mux *mux, const char *pattern,
                             const char *command, quern_error *err)
{
    const quern_exec_options exec_options = {
        .log_stderr = qn_args_given(&cli->args, OPTION_LOG_STDERR),
        .no_new_privs = qn_args_given(&cli->args, OPTION_NO_NEW_PRIVS),
    };
    return quern_mux_exec(mux, pattern, command, &exec_options, err);
}

static quern_status add_loop(const struct qn_cli *cli, quern_mux *mux, const char *pattern,
                             const char *command, quern_error *err)
{
    const struct qn_loop_options loop_options = {
        .runs_max = (uint64_t)qn_args_number(&cli->args, OPTION_LOOP_RUNS, 0),
        .start_ms = qn_args_number(&cli->args, OPTION_LOOP_START, 0),
        .log_stderr = qn_args_given(&cli->args, OPTION_LOG_STDERR),
        .no_new_privs = qn_args_given(&cli->args, OPTION_NO_NEW_PRIVS),
    };
    return qn_loop_add(mux, pattern, command, &loop_options, err);
}

static int add_command(const struct qn_cli *cli, quern_mux *mux, enum qn_work_option option,
                       const char *text)
{
    const char *name = qn_work_options[option].name;
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || qn_str_blank(equals + 1)) {
        return qn_cli_usage(cli, "--%s: '%s' is not PATTERN=COMMAND", name, text);
    }
    char *pattern = qn_memory_must(qn_str_dup(text));
    pattern[equals - text] = '\0';
    quern_error err;
    int exit_code = QN_EXIT_OK;
    size_t size = strlen(pattern);
    quern_status status = option == OPTION_EXEC ? add_exec(cli, mux, pattern, equals + 1, &err)
                                                : add_loop(cli, mux, pattern, equals + 1, &err);
    if (status != QUERN_OK) {
        exit_code = qn_cli_usage(cli, "--%s: %s", name, err.text);
    } else if (size > 1 && pattern[size - 1] == '*') {
        qn_cli_message(cli,
                       "--%s: '%s' matches types with that star; for all types with this prefix "
                       "write '%.*s'",
                       name, pattern, (int)size - 1, pattern);
    }
    qn_free(pattern);
    return exit_code;
}

static int add_commands(const struct qn_cli *cli, quern_mux *mux, enum qn_work_option option)
{
    const char *text;
    int exit_code = QN_EXIT_OK;
    for (size_t i = 0; (text = qn_args_repeat(&cli->args, option, i)) != NULL; i++) {
        exit_code = exit_code == QN_EXIT_OK ? add_command(cli, mux, option, text) : exit_code;
    }
    return exit_code;
}

/* The fate of tasks that no pattern serves. A zygote has it, too. */
static int set_unknown(const struct qn_cli *cli, quern_mux *mux)
{
    bool known = false;
    quern_outcome outcome = QUERN_RETRY;
    const char *text = qn_args_text(&cli->args, OPTION_UNKNOWN);
    bool counts = qn_handlers_zygote_unknown(text, &known, &outcome);
    if (!known) {
        return qn_cli_usage(cli, "--unknown: '%s' is not leave, retry or archive", text);
    }
    quern_error err;
    bool is_set = !counts || quern_mux_not_found(mux, outcome, &err) == QUERN_OK;
    return is_set ? QN_EXIT_OK : qn_cli_fail(cli, &err);
}

/* Those of a shared object have got their options in the zygote. */
static int read_policies(const struct qn_cli *cli, quern_mux *mux)
{
    int exit_code = qn_policies_check_patterns(cli, OPTION_POLICIES, mux);
    for (size_t i = 0; exit_code == QN_EXIT_OK && i < qn_mux_count(mux); i++) {
        const struct qn_mux_entry *entry = qn_mux_at(mux, i);
        if (entry->has_process) {
            exit_code = qn_policies_apply(cli, OPTION_POLICIES, entry->pattern, mux);
        }
    }
    return exit_code;
}

/* policies: whether its patterns are known by then. */
static int fill(const struct qn_cli *cli, quern_mux *mux, bool policies)
{
    int exit_code = set_unknown(cli, mux);
    exit_code = exit_code == QN_EXIT_OK ? add_commands(cli, mux, OPTION_EXEC) : exit_code;
    exit_code = exit_code == QN_EXIT_OK ? add_commands(cli, mux, OPTION_EXEC_LOOP) : exit_code;
    if (exit_code == QN_EXIT_OK && policies) {
        exit_code = read_policies(cli, mux);
    }
    if (exit_code == QN_EXIT_OK) {
        const struct qn_work_aggregate_options places = {
            .aggregate = OPTION_AGGREGATE,
            .type = OPTION_AGGREGATE_TYPE,
            .grace = OPTION_GROUP_GRACE,
            .max_delay = OPTION_GROUP_MAX_DELAY,
            .max_size = OPTION_GROUP_MAX_SIZE,
        };
        exit_code = qn_work_aggregate_read(cli, places, mux);
    }
    return exit_code;
}

int qn_work_commands_fill(const struct qn_cli *cli, quern_mux *mux)
{
    return fill(cli, mux, true);
}

/* The patterns of a shared object are not known here, and those of a file may be completed by the
 * command line. */
int qn_work_commands_check(const struct qn_cli *cli)
{
    quern_error err;
    quern_mux *mux = NULL;
    int exit_code = qn_policies_check(cli, OPTION_POLICIES);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_mux_new(&mux, &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    exit_code = fill(cli, mux, false);
    quern_mux_free(mux);
    return exit_code;
}
