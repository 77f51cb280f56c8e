/* SPDX-License-Identifier: MIT */
/* help.c - prints the help from the tables of verbs and options.
 *
 * Every page fits a terminal of 24 lines and 80 columns and has an example; tests/cli checks it. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define NAME_WIDTH 26 /* of an option with its argument */
#define WIDTH 80
#define UNLISTED "  manual: "

const struct qn_noun *qn_cli_find_noun(const struct qn_cli *cli, const char *name)
{
    for (size_t i = 0; i < cli->noun_count; i++) {
        if (strcmp(cli->nouns[i]->name, name) == 0) {
            return cli->nouns[i];
        }
    }
    return NULL;
}

const struct qn_verb *qn_cli_find_verb(const struct qn_noun *noun, const char *name)
{
    for (size_t i = 0; i < noun->verb_count; i++) {
        if (strcmp(noun->verbs[i].name, name) == 0) {
            return &noun->verbs[i];
        }
    }
    return NULL;
}

void qn_help_main(const struct qn_cli *cli, FILE *out)
{
    (void)fprintf(out, "usage: quern [--broker URL] [--json] VERB ...    (also: bench)\n\n");
    for (size_t i = 0; i < cli->noun_count; i++) {
        const char *name = cli->nouns[i]->name;
        if (strcmp(name, "version") == 0 || strcmp(name, "help") == 0 ||
            strcmp(name, "completion") == 0 || strcmp(name, "bench") == 0) {
            continue; /* they are above and below */
        }
        (void)fprintf(out, "  %-11s %s\n", cli->nouns[i]->name, cli->nouns[i]->summary);
    }
    (void)fprintf(out,
                  "  --broker URL  a file or redis[s]://host:port; else QUERN_BROKER, REDIS_URL\n"
                  "  --context NAME, --config FILE, --json, --no-retry, -h, --version; "
                  "completion\n"
                  "exit: 0 ok, 1 failure, 2 usage, 3 tasks failed, 65 bad data, 69 no broker,\n"
                  "      75 temporary (try again), 77 login refused, 78 bad configuration\n"
                  "Example:\n"
                  "  quern enqueue mail:hi ann; quern work --exec 'mail:=xargs echo hi' --drain\n");
}

void qn_help_noun(const struct qn_noun *noun, FILE *out)
{
    (void)fprintf(out, "usage: quern %s VERB ...\n\n%s\n\n", noun->name, noun->summary);
    for (size_t i = 0; i < noun->verb_count; i++) {
        (void)fprintf(out, "  %-10s %s\n", noun->verbs[i].name, noun->verbs[i].summary);
    }
    (void)fprintf(out, "\nExample:\n%s\nMore: quern %s VERB --help\n", noun->verbs[0].example,
                  noun->name);
}

static void print_option(const struct qn_option *option, FILE *out)
{
    char name[64];
    char letter[8] = "";
    if (option->letter != '\0') {
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    (void)snprintf(name, sizeof name, "%s--%s%s%s", letter, option->name,
                   option->argument != NULL ? " " : "",
                   option->argument != NULL ? option->argument : "");
    (void)fprintf(out, "  %-*s %s\n", NAME_WIDTH, name, option->help);
}

/* A page fits a screen of 24 lines: these options share lines, the first in place of a blank one.
 */
static void print_unlisted(const struct qn_verb *verb, FILE *out)
{
    size_t column = 0;
    for (size_t i = 0; i < verb->option_count; i++) {
        const char *name = verb->options[i].name;
        if (!verb->options[i].unlisted) {
            continue;
        }
        bool fits = column > 0 && column + strlen(", ") + strlen(name) <= WIDTH;
        const char *between = fits ? ", " : column > 0 ? "\n" UNLISTED : UNLISTED;
        column = (fits ? column + strlen(between) : strlen(UNLISTED)) + strlen(name);
        (void)fprintf(out, "%s%s", between, name);
    }
    (void)fprintf(out, "\n");
}

void qn_help_verb(const struct qn_noun *noun, const struct qn_verb *verb, FILE *out)
{
    (void)fprintf(out, "usage: quern %s%s%s%s%s [options]\n\n%s\n", noun->name,
                  verb->name[0] != '\0' ? " " : "", verb->name,
                  verb->operands[0] != '\0' ? " " : "", verb->operands, verb->summary);
    if (verb->about != NULL) {
        (void)fprintf(out, "%s\n", verb->about);
    }
    (void)fprintf(out, "\n");
    for (size_t i = verb->shared_count; i < verb->option_count; i++) {
        if (!verb->options[i].unlisted) {
            print_option(&verb->options[i], out);
        }
    }
    (void)fprintf(out, "  %-*s %s\n", NAME_WIDTH, "--broker URL, --json", "as for every verb");
    print_unlisted(verb, out);
    (void)fprintf(out, "Example:\n%s\n", verb->example);
}
