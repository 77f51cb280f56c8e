/* SPDX-License-Identifier: MIT */
/* config.h - options of a command from elsewhere than its words.
 *
 * An option has its value from the command line; else from its variable of the environment, such as
 * QUERN_WORK_QUEUE; else from the file, quern.conf: from the section of the verb, such as [work] or
 * [schedule run], or, as the options of all verbs, from above the first one. Values of a repeated
 * option all come from one of these. [context NAME] names a broker (broker.h). */
#ifndef QN_CLI_CONFIG_CONFIG_H
#define QN_CLI_CONFIG_CONFIG_H

#include "cli/config/section.h"

/* Reads the file, if there is one, into cli->config. False: cli->config->why has the reason. */
QUERN_NODISCARD bool qn_config_read(struct qn_cli *cli);
/* The same with this file; NULL: with none. */
QUERN_NODISCARD bool qn_config_read_file(struct qn_cli *cli, const char *path);
/* After qn_args_parse and qn_config_read: fills in what the command line leaves open, and names the
 * broker. False: the same. Only faults that matter to the verb count. */
QUERN_NODISCARD bool qn_config_apply(struct qn_cli *cli);
/* The same without a look at the lines that are none, and at the heads of sections. */
QUERN_NODISCARD bool qn_config_fill(struct qn_cli *cli);
/* Whether the section is that of a verb, of a context, or of all. False: the same. */
QUERN_NODISCARD bool qn_config_check_head(const struct qn_cli *cli, const struct qn_ini_line *line);
/* qn_config_read and qn_config_apply, with a message. Returns the exit code. */
QUERN_NODISCARD int qn_config_use(struct qn_cli *cli);
void qn_config_free(struct qn_config *config);

/* Whether a file may set this option: not what confirms, or what is for one command alone. */
bool qn_config_may_set(const struct qn_option *option);
#endif
