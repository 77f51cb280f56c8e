/* SPDX-License-Identifier: MIT */
/* db.c - `quern db`: init, info, path, backup.
 *
 * The first enqueue or work creates a file without init; init is for a file with other tables, to
 * which ours are added only on request. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/field.h"
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
        qn_server_info_print(server_info, false);
    }
    json_decref(server_info);
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_path(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    json_t *server_info = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    exit_code = qn_server_info_read(cli, inspector, &server_info);
    const char *path = json_string_value(json_object_get(server_info, "path"));
    if (exit_code == QN_EXIT_OK && path == NULL) {
        qn_cli_message(cli, "the broker is a server, not a file");
        exit_code = QN_EXIT_FAILURE;
    } else if (exit_code == QN_EXIT_OK && cli->json) {
        exit_code = qn_json_print(json_pack("{s:s}", "path", path));
    } else if (exit_code == QN_EXIT_OK) {
        printf("%s\n", path); /* as it is: for other programs */
    }
    json_decref(server_info);
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_backup(struct qn_cli *cli)
{
    quern_error err;
    quern_inspector *inspector = NULL;
    const char *path = qn_args_operand(&cli->args, 0);
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_inspector_backup(inspector, path, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        json_t *object = qn_memory_must(json_object());
        qn_json_set_text(object, "backup", path);
        exit_code = qn_json_print(object);
    } else {
        qn_field_text("backup", path);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_init(struct qn_cli *cli)
{
    return open_and_print(cli, &(quern_inspector_options){.create = true, .init = true});
}

static int run_info(struct qn_cli *cli)
{
    return open_and_print(cli, &(quern_inspector_options){.create = false});
}

static const struct qn_verb verbs[] = {
    {.name = "init",
     .operands = "[FILE]",
     .summary = "create a database, or add quern's tables to one of yours",
     .about = "Adds tables named quern_* and changes nothing else; safe to repeat.",
     .example = "  quern db init app.db",
     .operand_max = 1,
     .run = run_init},
    {.name = "info",
     .operands = "[FILE]",
     .summary = "show what a database is: version, path, durability, size",
     .example = "  quern db info app.db",
     .operand_max = 1,
     .run = run_info},
    {.name = "path",
     .operands = "",
     .summary = "print the path of the database file",
     .example = "  ls -l \"$(quern db path)\"",
     .run = run_path},
    {.name = "backup",
     .operands = "FILE",
     .summary = "copy the database as a consistent snapshot while it is in use",
     .about = "FILE must be new. A Redis server has backups of its own.",
     .example = "  quern db backup /backup/quern-monday.db",
     .operand_min = 1,
     .operand_max = 1,
     .run = run_backup},
};
const struct qn_noun qn_noun_db = {"db", "create, show or back up a database", verbs,
                                   QN_COUNT_OF(verbs)};
