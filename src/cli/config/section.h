/* SPDX-License-Identifier: MIT */
/* section.h - what was read of a configuration: its sections, and the places of its faults. */
#ifndef QN_CLI_CONFIG_SECTION_H
#define QN_CLI_CONFIG_SECTION_H

#include "cli/cli.h"
#include "cli/config/file.h"
#include "cli/config/ini.h"

struct qn_config {
    char *path; /* owned; NULL: there is no file */
    char *text; /* a secret.h text, owned */
    struct qn_ini ini;
    struct qn_arena arena; /* of values of the environment */
    char *url;             /* a secret.h text, owned; cli->configured_url */
    bool only_file;        /* the environment is left out: the file itself is judged */
    char why[QN_CONFIG_WHY_SIZE];
};

/* "PATH:LINE: ...", as the reason; returns false. */
bool qn_section_refuse(struct qn_config *config, size_t line, const char *format, ...)
    QUERN_PRINTF(3, 4);
/* The noun and verb of a section, such as "schedule run". False: it is no verb's. */
bool qn_section_find_verb(const struct qn_cli *cli, const char *section,
                          const struct qn_noun **ret_noun, const struct qn_verb **ret_verb);
/* "" for what stands above the first section, or in [general]. */
const char *qn_section_name(const char *name);

#endif
