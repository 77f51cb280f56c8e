/* SPDX-License-Identifier: MIT */
/* main.c - finds the verb of the command line and runs it.
 *
 * Happy path: noun, verb, options, run, flush. Failure paths: a word that is not known is a usage
 * error (exit code 2) with the nearest known word; everything after that is the verb's business.
 * SIGPIPE keeps its default: a reader of stdout that goes away ends the program, as in every pipe;
 * only `quern work` ignores it, because tasks matter more than their log. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/secret.h"
#include "cli/cli.h"
#include "cli/config/config.h"
#include "cli/hint.h"
#include "cli/output/terminal.h"

static const struct qn_noun *const nouns[] = {
    &qn_noun_enqueue, &qn_noun_work,  &qn_noun_schedule,   &qn_noun_task,    &qn_noun_trash,
    &qn_noun_queue,   &qn_noun_limit, &qn_noun_worker,     &qn_noun_health,  &qn_noun_stats,
    &qn_noun_watch,   &qn_noun_error, &qn_noun_db,         &qn_noun_metrics, &qn_noun_doctor,
    &qn_noun_config,  &qn_noun_bench, &qn_noun_completion, &qn_noun_help,    &qn_noun_version,
};

/* `names` are the words that are allowed in place of `word`, after `noun`. */
static int refuse_verb(const struct qn_cli *cli, const char *noun, const char *word,
                       const char *const *names, size_t count)
{
    const char *instead = qn_hint_find(noun, word);
    if (instead != NULL) {
        return qn_cli_usage(cli, "unknown verb '%s'; did you mean 'quern %s'?", word, instead);
    }
    const char *nearest = qn_cli_nearest(word, names, count);
    if (nearest == NULL) {
        return qn_cli_usage(cli, "unknown verb '%s'", word);
    }
    return qn_cli_usage(cli, "unknown verb '%s'; did you mean '%s'?", word, nearest);
}

static int refuse_first_word(const struct qn_cli *cli, const char *word)
{
    const char *names[QN_COUNT_OF(nouns)];
    for (size_t i = 0; i < QN_COUNT_OF(nouns); i++) {
        names[i] = nouns[i]->name;
    }
    return refuse_verb(cli, "", word, names, QN_COUNT_OF(nouns));
}

static int refuse_second_word(const struct qn_cli *cli, const char *word)
{
    const char *names[16];
    size_t count = 0;
    for (size_t i = 0; i < cli->noun->verb_count && count < QN_COUNT_OF(names); i++) {
        names[count++] = cli->noun->verbs[i].name;
    }
    return refuse_verb(cli, cli->noun->name, word, names, count);
}

/* Finds noun and verb. True: cli->noun is set, and cli->verb unless only help was wanted; false:
 * *ret_exit is the end of the program. */
static bool find_verb(struct qn_cli *cli, int *ret_exit)
{
    struct qn_args *args = &cli->args;
    const char *word = qn_args_next_word(args);
    if (word == NULL) {
        return false;
    }
    cli->noun =
        strcmp(word, qn_noun_internal.name) == 0 ? &qn_noun_internal : qn_cli_find_noun(cli, word);
    if (cli->noun == NULL) {
        *ret_exit = refuse_first_word(cli, word);
        return false;
    }
    (void)snprintf(cli->where, sizeof cli->where, "%s", cli->noun->name);
    if (cli->noun->verb_count == 1 && cli->noun->verbs[0].name[0] == '\0') {
        cli->verb = &cli->noun->verbs[0];
        return true;
    }
    word = qn_args_next_word(args);
    if (word == NULL) {
        return args->problem[0] == '\0' && args->globals[QN_GLOBAL_HELP].text != NULL;
    }
    cli->verb = qn_cli_find_verb(cli->noun, word);
    if (cli->verb == NULL) {
        *ret_exit = refuse_second_word(cli, word);
        return false;
    }
    (void)snprintf(cli->where, sizeof cli->where, "%s %s", cli->noun->name, cli->verb->name);
    return true;
}

static int run_verb(struct qn_cli *cli)
{
    struct qn_args *args = &cli->args;
    const struct qn_verb *verb = cli->verb;
    bool understood = qn_args_parse(args, verb->options, verb->option_count);
    if (args->globals[QN_GLOBAL_HELP].text != NULL) {
        qn_help_verb(cli->noun, verb, stdout);
        return QN_EXIT_OK;
    }
    if (!understood) {
        return qn_cli_usage(cli, "%s", args->problem);
    }
    if (args->operand_count < verb->operand_min) {
        return qn_cli_usage(cli, "missing argument: %s", verb->operands);
    }
    if (args->operand_count > verb->operand_max) {
        return qn_cli_usage(cli, "unexpected argument '%s'",
                            qn_args_operand(args, verb->operand_max));
    }
    cli->json = args->globals[QN_GLOBAL_JSON].text != NULL;
    int exit_code = qn_cli_take_broker_option(cli);
    if (exit_code == QN_EXIT_OK && !verb->unconfigured) {
        exit_code = qn_config_use(cli);
        cli->json = args->globals[QN_GLOBAL_JSON].text != NULL;
    }
    return exit_code == QN_EXIT_OK ? verb->run(cli) : exit_code;
}

/* The line names no verb: help, the version, or a mistake. */
static int without_verb(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    if (args->problem[0] != '\0') {
        return qn_cli_usage(cli, "%s", args->problem);
    }
    if (args->globals[QN_GLOBAL_HELP].text != NULL) {
        qn_help_main(cli, stdout);
        return QN_EXIT_OK;
    }
    if (cli->noun != NULL) {
        qn_help_noun(cli->noun, stderr);
        return QN_EXIT_USAGE;
    }
    if (args->globals[QN_GLOBAL_VERSION].text != NULL) {
        return qn_noun_version.verbs[0].run(cli);
    }
    qn_help_main(cli, stderr);
    return QN_EXIT_USAGE;
}

static int run_line(struct qn_cli *cli)
{
    int exit_code = -1;
    if (!find_verb(cli, &exit_code)) {
        return exit_code >= 0 ? exit_code : without_verb(cli);
    }
    if (cli->args.globals[QN_GLOBAL_VERSION].text != NULL) {
        return qn_noun_version.verbs[0].run(cli);
    }
    if (cli->verb == NULL) {
        qn_help_noun(cli->noun, stdout);
        return QN_EXIT_OK;
    }
    return run_verb(cli);
}

/* Fills in standard streams that were closed at the start, or the connection to a server would take
 * the place of stderr, and get the lines of the log. Using them fails as it did. */
static void occupy_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) { /* the lowest that is free: open takes it */
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

int main(int argc, char **argv)
{
    occupy_streams();
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    /* Else SQLite counts each allocation under a lock of all threads, and the counts are not
     * used. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    struct qn_cli cli = {.nouns = nouns, .noun_count = QN_COUNT_OF(nouns)};
    qn_args_init(&cli.args, argc, argv);
    int exit_code = qn_terminal_finish(&cli, run_line(&cli));
    qn_args_finish(&cli.args);
    qn_config_free(cli.config);
    qn_secret_free(cli.given_text);
    qn_secret_free(cli.given_url);
    qn_secret_free(cli.broker_url);
    return exit_code;
}
