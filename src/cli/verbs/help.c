/* SPDX-License-Identifier: MIT */
/* help.c - `quern help` and `quern version`. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/output/json.h"
#include "quern/version.h"

static int run_help(struct qn_cli *cli)
{
    const char *name = qn_args_operand(&cli->args, 0);
    const char *verb_name = qn_args_operand(&cli->args, 1);
    if (name == NULL) {
        qn_help_main(cli, stdout);
        return QN_EXIT_OK;
    }
    const struct qn_noun *noun = qn_cli_find_noun(cli, name);
    if (noun == NULL) {
        return qn_cli_usage(cli, "unknown verb '%s'", name);
    }
    const struct qn_verb *verb = qn_cli_find_verb(noun, verb_name == NULL ? "" : verb_name);
    if (verb != NULL) {
        qn_help_verb(noun, verb, stdout);
        return QN_EXIT_OK;
    }
    if (verb_name != NULL) {
        return qn_cli_usage(cli, "unknown verb '%s %s'", name, verb_name);
    }
    qn_help_noun(noun, stdout);
    return QN_EXIT_OK;
}

static int run_version(struct qn_cli *cli)
{
    if (cli->json || cli->args.globals[QN_GLOBAL_JSON].text != NULL) {
        return qn_json_print(json_pack("{s:s}", "version", quern_version()));
    }
    printf("quern %s\n", quern_version());
    return QN_EXIT_OK;
}

static const struct qn_verb help_verbs[] = {{
    .name = "",
    .operands = "[VERB [VERB]]",
    .summary = "show what a verb does, its options and an example",
    .example = "  quern help task list",
    .operand_max = 2,
    .run = run_help,
    .unconfigured = true,
}};
const struct qn_noun qn_noun_help = {"help", "show help for a verb", help_verbs, 1};

static const struct qn_verb version_verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "print the version of the program and its library",
    .example = "  quern version",
    .run = run_version,
    .unconfigured = true,
}};
const struct qn_noun qn_noun_version = {"version", "print the version", version_verbs, 1};
