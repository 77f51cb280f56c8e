/* SPDX-License-Identifier: MIT */
/* completion.c - `quern completion bash|zsh|fish`: a script made from the tables of verbs.
 *
 * A script knows, for each verb, the words and options that may come, and the values of options
 * that have few. For the names of queues, entries and contexts and the ids of tasks it calls `quern
 * completion queues`, `entries`, `contexts`, `ids` and `active`, with the --broker, --context and
 * --config of the line. Such names are
 * foreign: a script compares and quotes them, and never evaluates them. Texts are those of the
 * help, in single quotes. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/verbs/completion_values.h"

/* The values of an option, with blanks between them; "": they are not known. */
static const char *values_of(const struct qn_option *option)
{
    static const struct {
        const char *name;
        const char *values;
    } known[] = {
        {"state", "pending active scheduled retry archived completed aggregating"},
        {"sort", "at enqueued changed type"},
        {"then", "retry archive"},
        {"unknown", "leave retry archive"},
        {"log-format", "text logfmt json"},
        {"pool", "prefork threads"},
        {"under", "gdb valgrind rr"},
        {"on-hup", "drain reload"},
        {"unique-until", "done started removed ended expired"},
        {"on-duplicate", "fail ignore replace debounce"},
        {"misfire", "once skip"},
        {"format", "text openmetrics"},
        {"level", "debug info warn error"},
    };
    for (size_t i = 0; i < QN_COUNT_OF(known); i++) {
        if (strcmp(known[i].name, option->name) == 0) {
            return known[i].values;
        }
    }
    return "";
}

/* What `quern completion` is called for to get the operands of a verb; NULL: nothing. */
static const char *operands_of(const struct qn_verb *verb)
{
    if (strncmp(verb->operands, "QUEUE", 5) == 0 || strncmp(verb->operands, "[QUEUE]", 7) == 0) {
        return "queues";
    }
    if (strncmp(verb->operands, "NAME", 4) == 0 || strcmp(verb->operands, "[NAME]") == 0) {
        return "entries";
    }
    bool takes_ids =
        strncmp(verb->operands, "ID", 2) == 0 || strncmp(verb->operands, "[ID", 3) == 0;
    return !takes_ids ? NULL : strcmp(verb->name, "cancel") == 0 ? "active" : "ids";
}

static bool is_single(const struct qn_noun *noun)
{
    return noun->verb_count == 1 && noun->verbs[0].name[0] == '\0';
}

/* A case for each option with values, each between `before` and `after`. */
static void print_value_cases(const struct qn_cli *cli, const char *before, const char *after)
{
    for (size_t i = 0; i < cli->noun_count; i++) {
        for (size_t j = 0; j < cli->nouns[i]->verb_count; j++) {
            const struct qn_verb *verb = &cli->nouns[i]->verbs[j];
            for (size_t k = 0; k < verb->option_count; k++) {
                const char *values = values_of(&verb->options[k]);
                if (values[0] != '\0') {
                    printf("    --%s) %s%s%s ;;\n", verb->options[k].name, before, values, after);
                }
            }
        }
    }
}

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
    bool single = is_single(noun);
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
        printf("'");
        if (operands_of(verb) != NULL) {
            printf("\n        kind=%s", operands_of(verb));
        }
        printf(" ;;\n");
    }
}

/* COMP_WORDS is split at ":" and "=", which URLs and names have, so the line is split at blanks;
 * bash replaces only the part behind the last of those characters. */
static const char bash_head[] =
    "# bash completion of quern; made by: quern completion bash\n"
    "_quern_offer()\n{\n"
    "    local value keep=\n"
    "    if [[ $current == *[:=]* ]]; then\n"
    "        keep=${current%\"${current##*[:=]}\"}\n"
    "    fi\n"
    "    while IFS= read -r value; do\n"
    "        if [[ -n $value && $value == \"$current\"* ]]; then\n"
    "            printf -v value %q \"${value#\"$keep\"}\"\n"
    "            COMPREPLY+=(\"$value\")\n"
    "        fi\n"
    "    done\n"
    "}\n"
    "_quern()\n{\n"
    "    local word noun= verb= words= kind= current previous i\n"
    "    local -a line broker\n"
    "    COMPREPLY=()\n"
    "    if [[ -n ${COMP_LINE-} ]]; then\n"
    "        read -a line <<<\"${COMP_LINE:0:COMP_POINT}.\"\n"
    "    else\n"
    "        line=(\"${COMP_WORDS[@]:0:COMP_CWORD}\" \"${COMP_WORDS[COMP_CWORD]-}.\")\n"
    "    fi\n"
    "    current=${line[${#line[@]} - 1]%.}\n"
    "    previous=${line[${#line[@]} - 2]}\n"
    "    for ((i = 1; i < ${#line[@]} - 1; i++)); do\n"
    "        word=${line[i]}\n"
    "        case $word in\n"
    "        --broker | --context | --config) broker+=(\"$word\" \"${line[i + 1]}\"); ((i++)) ;;\n"
    "        --broker=* | --context=* | --config=*) broker+=(\"$word\") ;;\n"
    "        -*) ;;\n"
    "        *) if [[ -z $noun ]]; then noun=$word; elif [[ -z $verb ]]; then verb=$word; fi ;;\n"
    "        esac\n"
    "    done\n"
    "    case $previous in\n";

static void print_bash(const struct qn_cli *cli)
{
    (void)fputs(bash_head, stdout);
    print_value_cases(cli, "words='", "'");
    printf("    --queue) kind=queues; words= ;;\n"
           "    --context) kind=contexts; words= ;;\n"
           "    --config) return ;;\n"
           "    esac\n"
           "    [[ -n $words$kind ]] || case \"$noun $verb\" in\n"
           "    ' ')\n        words='");
    for (size_t i = 0; i < cli->noun_count; i++) {
        printf("%s ", cli->nouns[i]->name);
    }
    printf("--broker --context --config --json --help --version' ;;\n"
           "    'completion ')\n        words='bash zsh fish' ;;\n");
    for (size_t i = 0; i < cli->noun_count; i++) {
        print_noun(cli->nouns[i]);
    }
    printf("    esac\n"
           "    if [[ -n $kind && $current != -* ]]; then\n"
           "        _quern_offer < <(quern completion $kind \"${broker[@]}\" 2>/dev/null)\n"
           "    fi\n"
           "    if [[ -z $kind || $current == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "    fi\n"
           "}\n"
           "complete -o default -F _quern quern\n");
}

/* --- zsh and fish ------------------------------------------------------------------------ */

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
        printf(" )");
        if (operands_of(verb) != NULL) {
            printf("\n        kind=%s", operands_of(verb));
        }
        printf(" ;;\n");
    }
}

static void print_zsh(const struct qn_cli *cli)
{
    printf("#compdef quern\n"
           "# zsh completion of quern; made by: quern completion zsh\n"
           "_quern()\n{\n"
           "    local word noun= verb= kind= i\n"
           "    local -a list broker\n"
           "    for ((i = 2; i < CURRENT; i++)); do\n"
           "        word=${(Q)words[i]}\n"
           "        case $word in\n"
           "        --broker | --context | --config)"
           " broker+=(\"$word\" \"${(Q)words[i + 1]}\"); ((i++)) ;;\n"
           "        --broker=* | --context=* | --config=*) broker+=(\"$word\") ;;\n"
           "        -*) ;;\n"
           "        *) if [[ -z $noun ]]; then noun=$word; elif [[ -z $verb ]]; then verb=$word; fi"
           " ;;\n"
           "        esac\n"
           "    done\n"
           "    case ${words[CURRENT - 1]} in\n");
    print_value_cases(cli, "list=(", ")");
    printf("    --queue) kind=queues ;;\n"
           "    --context) kind=contexts ;;\n"
           "    --config) _files; return ;;\n"
           "    esac\n"
           "    if [[ ${#list} -gt 0 ]]; then\n"
           "        compadd -a list\n"
           "        return\n"
           "    fi\n"
           "    [[ -n $kind ]] || case \"$noun $verb\" in\n"
           "    'completion ')\n        list=(bash zsh fish) ;;\n"
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
        "    if [[ -n $kind && ${words[CURRENT]} != -* ]]; then\n"
        "        list=(${(f)\"$(quern completion $kind $broker 2>/dev/null)\"})\n"
        "        compadd -a list\n"
        "        return\n"
        "    fi\n"
        "    _describe word list || _files\n"
        "}\n"
        "if [[ ${funcstack[1]-} == _quern ]]; then _quern \"$@\"; else compdef _quern quern; fi\n");
}

/* One line: `words` holds the options of `complete` with its condition. */
static void print_fish_options(const char *words, const struct qn_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("complete -c quern%s -l %s", words, options[i].name);
        const char *values = values_of(&options[i]);
        if (strcmp(options[i].name, "queue") == 0) {
            printf(" -xa '(__quern_values queues)'");
        } else if (strcmp(options[i].name, "context") == 0) {
            printf(" -xa '(__quern_values contexts)'");
        } else if (values[0] != '\0') {
            printf(" -xa '%s'", values);
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
    printf("%s -a %s -d '", words, name);
    print_quoted(text, true);
    printf("'\n");
}

/* The verbs of a noun, until one of them is there, and the operands of each. */
static void print_fish_verbs(const struct qn_noun *noun)
{
    for (size_t i = 0; i < noun->verb_count; i++) {
        const struct qn_verb *verb = &noun->verbs[i];
        printf("complete -c quern -f -n '__fish_seen_subcommand_from %s; and not "
               "__fish_seen_subcommand_from",
               noun->name);
        for (size_t j = 0; j < noun->verb_count; j++) {
            printf(" %s", noun->verbs[j].name);
        }
        print_fish_word("'", verb->name, verb->summary);
        if (operands_of(verb) != NULL) {
            printf("complete -c quern -f -n '__fish_seen_subcommand_from %s; and "
                   "__fish_seen_subcommand_from %s' -a '(__quern_values %s)'\n",
                   noun->name, verb->name, operands_of(verb));
        }
    }
}

static const char fish_head[] =
    "# fish completion of quern; made by: quern completion fish\n"
    "function __quern_values\n"
    "    set -l line (commandline -opc)\n"
    "    set -l broker\n"
    "    for i in (seq (count $line))\n"
    "        switch $line[$i]\n"
    "            case --broker --context --config\n"
    "                set -a broker $line[$i] $line[(math $i + 1)]\n"
    "            case '--broker=*' '--context=*' '--config=*'\n"
    "                set -a broker $line[$i]\n"
    "        end\n"
    "    end\n"
    "    quern completion $argv[1] $broker 2>/dev/null\n"
    "end\n"
    "complete -c quern -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n";

static void print_fish(const struct qn_cli *cli)
{
    char words[160];
    (void)fputs(fish_head, stdout);
    print_fish_options("", qn_args_globals, QN_GLOBAL_COUNT);
    for (size_t i = 0; i < cli->noun_count; i++) {
        const struct qn_noun *noun = cli->nouns[i];
        print_fish_word("complete -c quern -f -n __fish_use_subcommand", noun->name, noun->summary);
        for (size_t j = 0; j < noun->verb_count; j++) {
            const struct qn_verb *verb = &noun->verbs[j];
            (void)snprintf(words, sizeof words, " -n '__fish_seen_subcommand_from %s%s%s'",
                           noun->name, is_single(noun) ? "" : "; and __fish_seen_subcommand_from ",
                           verb->name);
            print_fish_options(words, verb->options, verb->option_count);
        }
        if (!is_single(noun)) {
            print_fish_verbs(noun);
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
    if (qn_completion_values_know(name)) {
        return qn_completion_values_print(cli, name);
    }
    return qn_cli_usage(cli, "no completion for '%s', only for bash, zsh and fish", name);
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "bash|zsh|fish|queues|entries|ids|active",
    .summary = "print a completion script for the shell",
    .about = "The scripts call it for names of queues and entries, ids of (active) tasks, and\n"
             "names of contexts (contexts).",
    .example = "  quern completion bash > ~/.local/share/bash-completion/completions/quern",
    .operand_min = 1,
    .operand_max = 1,
    .run = run_completion,
    .unconfigured = true,
}};
const struct qn_noun qn_noun_completion = {
    "completion", "print a completion script for bash, zsh or fish", verbs, 1};
