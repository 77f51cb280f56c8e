/* SPDX-License-Identifier: MIT */
/* act.c - `quern schedule pause`, `resume`, `trigger` and `remove`, each of several entries.
 *
 * Each entry is tried, and has a line, until the broker fails; the exit code is the worst. */
#include "cli/schedule/act.h"

#include <stdio.h>
#include <string.h>

#include "cli/memory.h"
#include "cli/output/json.h"

#define QUEUE_OPTION                                                                               \
    {                                                                                              \
        "queue", "NAME", "their queue, where several have such an entry", QN_OPTION_TEXT           \
    }

enum act_option { ACT_QUEUE };
const struct qn_option qn_act_options[QN_ACT_OPTION_COUNT] = {
    [ACT_QUEUE] = QUEUE_OPTION,
};
enum resume_option { RESUME_QUEUE = ACT_QUEUE, RESUME_CATCH_UP, RESUME_FROM };
const struct qn_option qn_act_resume_options[QN_ACT_RESUME_OPTION_COUNT] = {
    [RESUME_QUEUE] = QUEUE_OPTION,
    [RESUME_CATCH_UP] = {"catch-up", NULL, "ticks of the pause are missed: --misfire decides",
                         QN_OPTION_FLAG},
    [RESUME_FROM] = {"from", "now", "also sets back a last tick that lies ahead", QN_OPTION_TEXT},
};
enum remove_option { REMOVE_QUEUE = ACT_QUEUE, REMOVE_FORCE };
const struct qn_option qn_act_remove_options[QN_ACT_REMOVE_OPTION_COUNT] = {
    [REMOVE_QUEUE] = QUEUE_OPTION,
    [REMOVE_FORCE] = {"force", NULL, "also entries of a file or a program", QN_OPTION_FLAG},
};

struct acting {
    struct qn_cli *cli;
    quern_inspector *inspector;
    const char *queue; /* NULL: any */
    const char *name;
    const char *done; /* "paused" */
    char id[640];     /* of a task that was enqueued; "": none */
};

/* Sets what was done. */
typedef quern_status act_fn(struct acting *acting, quern_error *err);

static quern_status act_pause(struct acting *acting, quern_error *err)
{
    acting->done = "paused";
    return quern_inspector_pause_entry(acting->inspector, acting->queue, acting->name,
                                       QUERN_ENTRY_PAUSE, err);
}

static quern_status act_resume(struct acting *acting, quern_error *err)
{
    const struct qn_args *args = &acting->cli->args;
    quern_entry_pause how = qn_args_given(args, RESUME_FROM)       ? QUERN_ENTRY_RESET
                            : qn_args_given(args, RESUME_CATCH_UP) ? QUERN_ENTRY_CATCH_UP
                                                                   : QUERN_ENTRY_RESUME;
    acting->done = "resumed";
    return quern_inspector_pause_entry(acting->inspector, acting->queue, acting->name, how, err);
}

static quern_status act_trigger(struct acting *acting, quern_error *err)
{
    quern_task_info *info = NULL;
    acting->done = "triggered";
    quern_status status =
        quern_inspector_trigger_entry(acting->inspector, acting->queue, acting->name, &info, err);
    if (status == QUERN_OK) {
        (void)snprintf(acting->id, sizeof acting->id, "%s", quern_task_info_id(info));
    }
    quern_task_info_free(info);
    return status;
}

static quern_status act_remove(struct acting *acting, quern_error *err)
{
    bool force = qn_args_given(&acting->cli->args, REMOVE_FORCE);
    acting->done = "removed";
    return quern_inspector_remove_entry(acting->inspector, acting->queue, acting->name, force, err);
}

static int act_on_one(struct acting *acting, act_fn *act, json_t *results)
{
    quern_error err;
    int exit_code = QN_EXIT_OK;
    json_t *result = qn_memory_must(json_object());
    acting->id[0] = '\0';
    qn_json_set_text(result, "name", acting->name);
    if (act(acting, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(acting->cli, &err);
        qn_json_set_text(result, "error", err.text);
    } else {
        qn_json_set_text(result, "done", acting->done);
        if (acting->id[0] != '\0') {
            qn_json_set_text(result, "id", acting->id);
        }
        if (!acting->cli->json) {
            bool has_id = acting->id[0] != '\0';
            printf("%s%s%s\n", has_id ? acting->id : acting->name, has_id ? "" : " ",
                   has_id ? "" : acting->done);
        }
    }
    (void)json_array_append_new(results, result);
    return exit_code;
}

static int act_on_all(struct qn_cli *cli, act_fn *act)
{
    struct acting acting = {.cli = cli, .queue = qn_args_text(&cli->args, ACT_QUEUE)};
    int worst = qn_cli_open_inspector(cli, false, &acting.inspector);
    if (worst != QN_EXIT_OK) {
        return worst;
    }
    json_t *results = qn_memory_must(json_array());
    for (size_t i = 0;
         i < cli->args.operand_count && (worst < QN_EXIT_USAGE || worst == QN_EXIT_DATA); i++) {
        acting.name = qn_args_operand(&cli->args, i);
        int exit_code = act_on_one(&acting, act, results);
        worst = exit_code > worst ? exit_code : worst;
    }
    if (cli->json) {
        (void)qn_json_print(results);
    } else {
        json_decref(results);
    }
    quern_inspector_free(acting.inspector);
    return worst;
}

int qn_act_pause(struct qn_cli *cli)
{
    return act_on_all(cli, act_pause);
}

int qn_act_resume(struct qn_cli *cli)
{
    const char *from = qn_args_text(&cli->args, RESUME_FROM);
    if (from != NULL && strcmp(from, "now") != 0) {
        return qn_cli_usage(cli, "--from: only 'now' is possible, not '%s'", from);
    }
    if (from != NULL && qn_args_given(&cli->args, RESUME_CATCH_UP)) {
        return qn_cli_usage(cli, "--from and --catch-up exclude each other");
    }
    return act_on_all(cli, act_resume);
}

int qn_act_trigger(struct qn_cli *cli)
{
    return act_on_all(cli, act_trigger);
}

int qn_act_remove(struct qn_cli *cli)
{
    return act_on_all(cli, act_remove);
}
