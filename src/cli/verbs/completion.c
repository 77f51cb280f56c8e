/* SPDX-License-Identifier: MIT */
/* completion.c - `quern completion bash|zsh|fish`: a script made from the tables of verbs.
 *
 * A script needs nothing but its shell: it knows, for each verb, the words and options that may
 * come, and the states for --state. Its texts are those of the help, in single quotes. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define STATES "pending active scheduled retry archived completed aggregating"

/* --- bash -------------------------------------------------------------------------------- */

static void print_options(const struct qn_verb *verb)
{
    for (size_t i = 0; i < verb->option_count; i++) {
        printf(" --%s", verb->options[i].name);
    }
    for (size_t i = 0; i < QN_GLOBAL_COUNT; i++) {
        printf(" --%s", qn_args_globals[i].name);
    }
}

/* One case per verb: the words that may follow it. */
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

static void print_bash(const struct qn_cli *cli)
{
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
           "    if [[ $COMP_CWORD -gt 0 && ${COMP_WORDS[COMP_CWORD - 1]} == --state ]]; then\n"
           "        COMPREPLY=($(compgen -W '" STATES "' -- \"$current\"))\n"
           "        return\n"
           "    fi\n"
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
}

/* --- zsh and fish ------------------------------------------------------------------------ */

static bool is_single(const struct qn_noun *noun)
{
    return noun->verb_count == 1 && noun->verbs[0].name[0] == '\0';
}

/* Between single quotes, as zsh has them, or with `fish` as fish has them. */
static void print_quoted(const char *text, bool fish)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\'') {
            printf("%s", fish ? "\\'" : "'\\''");
        } else if (*at == '\\' && fish) {
            printf("\\\\");
        } else {
            printf("%c", *at);
        }
    }
}

static void print_zsh_item(const char *dashes, const char *name, const char *text)
{
    printf(" '%s%s:", dashes, name);
    print_quoted(text, false);
    printf("'");
}

static void print_zsh_options(const struct qn_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print_zsh_item("--", options[i].name, options[i].help);
    }
}

static void print_zsh_noun(const struct qn_noun *noun)
{
    if (!is_single(noun)) {
        printf("    '%s ')\n        list=(", noun->name);
        for (size_t i = 0; i < noun->verb_count; i++) {
            print_zsh_item("", noun->verbs[i].name, noun->verbs[i].summary);
        }
        printf(" ) ;;\n");
    }
    for (size_t i = 0; i < noun->verb_count; i++) {
        const struct qn_verb *verb = &noun->verbs[i];
        printf("    '%s %s'%s)\n        list=(", noun->name, verb->name,
               is_single(noun) ? "*" : "");
        print_zsh_options(verb->options, verb->option_count);
        print_zsh_options(qn_args_globals, QN_GLOBAL_COUNT);
        printf(" ) ;;\n");
    }
}

static void print_zsh(const struct qn_cli *cli)
{
    printf("#compdef quern\n"
           "# zsh completion of quern; made by: quern completion zsh\n"
           "_quern()\n{\n"
           "    local word noun= verb= skip=\n"
           "    local -a list\n"
           "    for word in ${words[2,CURRENT-1]}; do\n"
           "        if [[ -n $skip ]]; then skip=; continue; fi\n"
           "        case $word in\n"
           "        --broker) skip=1 ;;\n"
           "        -*) ;;\n"
           "        *) if [[ -z $noun ]]; then noun=$word; elif [[ -z $verb ]]; then verb=$word; fi"
           " ;;\n"
           "        esac\n"
           "    done\n"
           "    if [[ ${words[CURRENT-1]} == --state ]]; then\n"
           "        list=(" STATES ")\n"
           "        _describe state list\n"
           "        return\n"
           "    fi\n"
           "    case \"$noun $verb\" in\n"
           "    ' ')\n        list=(");
    for (size_t i = 0; i < cli->noun_count; i++) {
        print_zsh_item("", cli->nouns[i]->name, cli->nouns[i]->summary);
    }
    print_zsh_options(qn_args_globals, QN_GLOBAL_COUNT);
    printf(" ) ;;\n");
    for (size_t i = 0; i < cli->noun_count; i++) {
        print_zsh_noun(cli->nouns[i]);
    }
    printf(
        "    esac\n"
        "    _describe -o word list || _files\n"
        "}\n"
        "if [[ ${funcstack[1]-} == _quern ]]; then _quern \"$@\"; else compdef _quern quern; fi\n");
}

/* One line: `words` holds the options of `complete` with its condition. */
static void print_fish_options(const char *words, const struct qn_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("complete -c quern%s -l %s", words, options[i].name);
        if (strcmp(options[i].name, "state") == 0) {
            printf(" -xa '" STATES "'");
        } else if (options[i].kind != QN_OPTION_FLAG) {
            printf(" -r");
        }
        printf(" -d '");
        print_quoted(options[i].help, true);
        printf("'\n");
    }
}

static void print_fish_word(const char *words, const char *name, const char *text)
{
    printf("complete -c quern%s -a %s -d '", words, name);
    print_quoted(text, true);
    printf("'\n");
}

static void print_fish(const struct qn_cli *cli)
{
    char words[160];
    printf("# fish completion of quern; made by: quern completion fish\n");
    print_fish_options("", qn_args_globals, QN_GLOBAL_COUNT);
    for (size_t i = 0; i < cli->noun_count; i++) {
        const struct qn_noun *noun = cli->nouns[i];
        print_fish_word(" -f -n __fish_use_subcommand", noun->name, noun->summary);
        for (size_t j = 0; j < noun->verb_count; j++) {
            const struct qn_verb *verb = &noun->verbs[j];
            (void)snprintf(words, sizeof words, " -n '__fish_seen_subcommand_from %s%s%s'",
                           noun->name, is_single(noun) ? "" : "; and __fish_seen_subcommand_from ",
                           verb->name);
            print_fish_options(words, verb->options, verb->option_count);
            if (!is_single(noun)) {
                (void)snprintf(words, sizeof words, " -f -n '__fish_seen_subcommand_from %s'",
                               noun->name);
                print_fish_word(words, verb->name, verb->summary);
            }
        }
    }
}

static int run_completion(struct qn_cli *cli)
{
    static const struct {
        const char *name;
        void (*print)(const struct qn_cli *cli);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    const char *name = qn_args_operand(&cli->args, 0);
    for (size_t i = 0; i < QN_COUNT_OF(shells); i++) {
        if (strcmp(shells[i].name, name) == 0) {
            shells[i].print(cli);
            return QN_EXIT_OK;
        }
    }
    return qn_cli_usage(cli, "no completion for '%s', only for bash, zsh and fish", name);
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "bash|zsh|fish",
    .summary = "print a completion script for the shell",
    .example = "  quern completion bash > ~/.local/share/bash-completion/completions/quern",
    .operand_min = 1,
    .operand_max = 1,
    .run = run_completion,
}};
const struct qn_noun qn_noun_completion = {
    "completion", "print a completion script for bash, zsh or fish", verbs, 1};
