/* SPDX-License-Identifier: MIT */
/* db.c - `quern db init` and `quern db info`.
 *
 * Files are made by the first enqueue or work by themselves; init is for a file that holds other
 * tables already, where adding ours must be somebody's wish. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/output/json.h"
#include "cli/verbs/server_info.h"

/* FILE, when given, else the broker of the options. Prints what the opened broker reports about
 * itself. */
static int open_and_print(struct qn_cli *cli, const quern_inspector_options *options)
{
    const char *url = qn_args_operand(&cli->args, 0);
    int exit_code = QN_EXIT_OK;
    if (url == NULL) {
        exit_code = qn_cli_broker_url(cli, options->create != 0, &url);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_inspector *inspector = NULL;
    if (quern_inspector_open(url, options, &inspector, &err) != QUERN_OK) {
        return qn_cli_open_failed(cli, &err);
    }
    json_t *server_info = NULL;
    exit_code = qn_server_info_read(cli, inspector, &server_info);
    if (exit_code == QN_EXIT_OK && cli->json) {
        exit_code = qn_json_print(json_incref(server_info));
    } else if (exit_code == QN_EXIT_OK) {
        qn_server_info_print(server_info);
    }
    json_decref(server_info);
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_init(struct qn_cli *cli)
{
    return open_and_print(cli, &(quern_inspector_options){.create = 1, .init = 1});
}

static int run_info(struct qn_cli *cli)
{
    return open_and_print(cli, &(quern_inspector_options){.create = 0});
}

static const struct qn_verb verbs[] = {
    {.name = "init",
     .operands = "[FILE]",
     .summary = "make a database, or add quern's tables to one of yours",
     .about = "Adds tables named quern_* and changes nothing else; twice is fine.",
     .example = "  quern db init app.db",
     .operand_max = 1,
     .run = run_init},
    {.name = "info",
     .operands = "[FILE]",
     .summary = "show what a database is: version, path, durability, size",
     .example = "  quern db info app.db",
     .operand_max = 1,
     .run = run_info},
};
const struct qn_noun qn_noun_db = {"db", "make a database or look at it", verbs,
                                   QN_COUNT_OF(verbs)};
