/* SPDX-License-Identifier: MIT */
/* server_info.h - the facts that a broker reports about itself: version, path, durability, ... */
#ifndef QN_CLI_VERBS_SERVER_INFO_H
#define QN_CLI_VERBS_SERVER_INFO_H

#include <jansson.h>

#include "cli/cli.h"

/* Reads it as an object of strings; reports its errors itself, returns the exit code. */
QUERN_NODISCARD int qn_server_info_read(const struct qn_cli *cli, quern_inspector *inspector,
                                        json_t **ret_info);
/* only_warnings: of what endangers tasks. */
void qn_server_info_print(json_t *server_info, bool only_warnings);
/* How many lines of the terminal these take. */
size_t qn_server_info_warning_lines(json_t *server_info);

#endif
