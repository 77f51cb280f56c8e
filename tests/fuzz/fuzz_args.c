/* SPDX-License-Identifier: MIT */
/* fuzz_args.c - any words as a command line, up to where a verb would begin: understood, or refused
 * with a message that is safe for a terminal. Words end with a NUL or a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/secret.h"
#include "cli/cli.h"
#include "lib_fuzz.h"

#define WORDS_MAX 64

static const struct qn_noun *const nouns[] = {
    &qn_noun_enqueue, &qn_noun_work,       &qn_noun_task, &qn_noun_queue,
    &qn_noun_worker,  &qn_noun_stats,      &qn_noun_db,   &qn_noun_doctor,
    &qn_noun_bench,   &qn_noun_completion, &qn_noun_help, &qn_noun_version,
};

static size_t split(char *text, size_t size, char *argv[WORDS_MAX])
{
    static char program[] = "quern";
    size_t count = 0;
    argv[count++] = program;
    for (size_t at = 0; at < size && count < WORDS_MAX - 1;) {
        size_t length = strcspn(text + at, "\n");
        text[at + length] = '\0';
        argv[count++] = text + at;
        at += length + 1;
    }
    argv[count] = NULL;
    return count;
}

/* As main.c does it. */
static const struct qn_verb *find_verb(struct qn_cli *cli)
{
    const char *word = qn_args_next_word(&cli->args);
    cli->noun = word == NULL ? NULL : qn_cli_find_noun(cli, word);
    if (cli->noun == NULL) {
        return NULL;
    }
    if (cli->noun->verb_count == 1 && cli->noun->verbs[0].name[0] == '\0') {
        return &cli->noun->verbs[0];
    }
    word = qn_args_next_word(&cli->args);
    return word == NULL ? NULL : qn_cli_find_verb(cli->noun, word);
}

static void read_values(const struct qn_cli *cli)
{
    for (size_t i = 0; i < cli->verb->option_count; i++) {
        const struct qn_option *option = &cli->verb->options[i];
        const char *text = NULL;
        for (size_t j = 0; (text = qn_args_repeat(&cli->args, i, j)) != NULL; j++) {
            fuzz_require(strlen(text) < SIZE_MAX / 2);
        }
        if (!qn_args_given(&cli->args, i) || option->kind < QN_OPTION_COUNT) {
            continue;
        }
        int64_t number = qn_args_number(&cli->args, i, 0);
        fuzz_require(option->kind == QN_OPTION_MOMENT || number >= option->min);
        fuzz_require(option->max == 0 || number <= option->max);
    }
    for (size_t i = 0; i < cli->args.operand_count; i++) {
        fuzz_require(qn_args_operand(&cli->args, i) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    char *argv[WORDS_MAX];
    size_t count = split(text, size, argv);
    struct qn_cli cli = {.nouns = nouns, .noun_count = QN_COUNT_OF(nouns)};
    qn_args_init(&cli.args, (int)count, argv);
    cli.verb = find_verb(&cli);
    if (cli.verb != NULL) {
        if (qn_args_parse(&cli.args, cli.verb->options, cli.verb->option_count)) {
            read_values(&cli);
            fuzz_require(qn_cli_take_broker_option(&cli) <= QN_EXIT_CONFIG);
        } else {
            fuzz_require(cli.args.problem[0] != '\0');
        }
    }
    qn_args_finish(&cli.args);
    qn_secret_free(cli.given_url);
    qn_secret_free(cli.given_text);
    free(text);
    return 0;
}
