/* SPDX-License-Identifier: MIT */
/* settings.c - see settings.h. */
#include "cli/work/config/settings.h"

#include <string.h>
#include <unistd.h>

#include "cli/work/options.h"

static int read_hup(const struct qn_cli *cli, bool *ret_reloads)
{
    const char *on_hup = qn_args_text(&cli->args, OPTION_ON_HUP);
    if (on_hup == NULL) {
        *ret_reloads = qn_args_given(&cli->args, OPTION_HANDLERS) || cli->config_path != NULL;
        return QN_EXIT_OK;
    }
    *ret_reloads = strcmp(on_hup, "reload") == 0;
    return *ret_reloads || strcmp(on_hup, "drain") == 0
               ? QN_EXIT_OK
               : qn_cli_usage(cli, "--on-hup: '%s' is not drain or reload", on_hup);
}

int qn_work_settings_read(const struct qn_cli *cli, struct qn_work_settings *ret_settings)
{
    const struct qn_args *args = &cli->args;
    struct qn_work_settings settings = {.format = QN_LOG_FORMAT_TEXT};
    const char *format = qn_args_text(args, OPTION_LOG_FORMAT);
    if (qn_args_given(args, OPTION_QUIET) && qn_args_given(args, OPTION_VERBOSE)) {
        return qn_cli_usage(cli, "--quiet and --verbose exclude each other");
    }
    if (qn_args_given(args, OPTION_DRAIN) && qn_args_given(args, OPTION_UNTIL_IDLE)) {
        return qn_cli_usage(cli, "--drain and --until-idle exclude each other");
    }
    if (format != NULL && !qn_work_log_find_format(format, &settings.format)) {
        return qn_cli_usage(cli, "--log-format: '%s' is not text, logfmt or json", format);
    }
    settings.verbose = qn_args_given(args, OPTION_VERBOSE);
    settings.level_min = settings.verbose                    ? QUERN_LOG_DEBUG
                         : qn_args_given(args, OPTION_QUIET) ? QUERN_LOG_WARN
                                                             : QUERN_LOG_INFO;
    int exit_code = read_hup(cli, &settings.reloads);
    *ret_settings = settings;
    return exit_code;
}

uint32_t qn_work_settings_concurrency(const struct qn_cli *cli)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return (uint32_t)qn_args_number(&cli->args, OPTION_CONCURRENCY, cpus > 0 ? cpus : 1);
}

bool qn_work_settings_apply(const struct qn_work_settings *settings, struct qn_work_log *log)
{
    bool has_changed = log->level_min != settings->level_min || log->format != settings->format;
    log->level_min = settings->level_min;
    log->verbose = settings->verbose;
    log->format = settings->format;
    return has_changed;
}
