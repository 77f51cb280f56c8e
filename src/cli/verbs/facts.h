/* SPDX-License-Identifier: MIT */
/* facts.h - what a broker says about itself: version, path, durability, ... */
#ifndef QN_CLI_VERBS_FACTS_H
#define QN_CLI_VERBS_FACTS_H

#include <jansson.h>

#include "cli/cli.h"

/* Reads the facts as an object of strings; says what went wrong itself, returns the exit code. */
QUERN_NODISCARD int qn_facts_read(const struct qn_cli *cli, quern_inspector *inspector,
                                  json_t **ret_facts);
void qn_facts_print(json_t *facts);

#endif
