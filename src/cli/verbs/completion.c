/* SPDX-License-Identifier: MIT */
/* completion.c - `quern completion bash`: a completion script made from the tables of verbs.
 *
 * The script needs nothing but bash: it knows, for each verb, the words and options that may come.
 * Install: quern completion bash > /usr/share/bash-completion/completions/quern */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void print_options(const struct qn_verb *verb)
{
    for (size_t i = 0; i < verb->option_count; i++) {
        printf(" --%s", verb->options[i].name);
    }
    for (size_t i = 0; i < QN_GLOBAL_COUNT; i++) {
        printf(" --%s", qn_args_globals[i].name);
    }
}

/* One case per verb: what may follow it. */
static void print_noun(const struct qn_noun *noun)
{
    bool single = noun->verb_count == 1 && noun->verbs[0].name[0] == '\0';
    if (!single) {
        printf("    '%s ')\n        words='", noun->name);
        for (size_t i = 0; i < noun->verb_count; i++) {
            printf("%s%s", i > 0 ? " " : "", noun->verbs[i].name);
        }
        printf("' ;;\n");
    }
    for (size_t i = 0; i < noun->verb_count; i++) {
        const struct qn_verb *verb = &noun->verbs[i];
        printf("    '%s %s'%s)\n        words='", noun->name, verb->name, single ? "*" : "");
        print_options(verb);
        printf("' ;;\n");
    }
}

static int run_completion(struct qn_cli *cli)
{
    if (strcmp(qn_args_operand(&cli->args, 0), "bash") != 0) {
        return qn_cli_usage(cli, "no completion for '%s', only for bash",
                            qn_args_operand(&cli->args, 0));
    }
    printf("# bash completion of quern; made by: quern completion bash\n"
           "_quern()\n{\n"
           "    local word noun= verb= words= i\n"
           "    local current=${COMP_WORDS[COMP_CWORD]}\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        word=${COMP_WORDS[i]}\n"
           "        case $word in\n"
           "        --broker) ((i++)) ;;\n"
           "        -*) ;;\n"
           "        *) if [[ -z $noun ]]; then noun=$word; elif [[ -z $verb ]]; then verb=$word; fi"
           " ;;\n"
           "        esac\n"
           "    done\n"
           "    case \"$noun $verb\" in\n"
           "    ' ')\n        words='");
    for (size_t i = 0; i < cli->noun_count; i++) {
        printf("%s ", cli->nouns[i]->name);
    }
    printf("--broker --json --help --version' ;;\n");
    for (size_t i = 0; i < cli->noun_count; i++) {
        print_noun(cli->nouns[i]);
    }
    printf("    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "}\n"
           "complete -o default -F _quern quern\n");
    return QN_EXIT_OK;
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "bash",
    .summary = "print a completion script for the shell",
    .example = "  quern completion bash > ~/.local/share/bash-completion/completions/quern",
    .operand_min = 1,
    .operand_max = 1,
    .run = run_completion,
}};
const struct qn_noun qn_noun_completion = {"completion", "print a completion script for bash",
                                           verbs, 1};
