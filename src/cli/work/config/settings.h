/* SPDX-License-Identifier: MIT */
/* settings.h - how a worker logs, and what SIGHUP does: the log can be changed while it runs. */
#ifndef QN_CLI_WORK_CONFIG_SETTINGS_H
#define QN_CLI_WORK_CONFIG_SETTINGS_H

#include "cli/cli.h"
#include "cli/work/log.h"

struct qn_work_settings {
    quern_log_level level_min;
    enum qn_log_format format;
    bool verbose;
    bool reloads; /* on HUP */
};

/* Reports what is wrong, also of options that exclude each other, and returns the exit code. */
QUERN_NODISCARD int qn_work_settings_read(const struct qn_cli *cli,
                                          struct qn_work_settings *ret_settings);
/* Runs at a time: one for each CPU, if the option is not given. */
uint32_t qn_work_settings_concurrency(const struct qn_cli *cli);
/* Any thread. True: something has changed. */
bool qn_work_settings_apply(const struct qn_work_settings *settings, struct qn_work_log *log);

#endif
