/* SPDX-License-Identifier: MIT */
/* by_id.c - does something to each task whose id, whole or short, is an operand.
 *
 * One that cannot be changed (it does not exist, its state forbids it) does not stop the others, a
 * broker that fails does. */
#include "cli/verbs/task/by_id.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/short_id.h"
#include "cli/output/text.h"

/* A short id that names the millisecond alone is refused. */
static quern_status act_on(quern_inspector *inspector, const struct qn_by_id *by_id, const char *id,
                           quern_error *err)
{
    quern_task_info *info = NULL;
    quern_status status = quern_inspector_task_short(inspector, by_id->queue, id, &info, err);
    if (status != QUERN_OK) {
        return status;
    }
    const char *whole = quern_task_info_id(info);
    if (strcmp(whole, id) != 0 && !qn_short_id_is_enough(whole, strlen(id))) {
        status = qn_error_set(err, QUERN_E_STATE,
                              "%s is too short to change a task: give %d characters or more of %s",
                              id, QN_SHORT_ID_TIMED_SIZE, whole);
    } else {
        status = by_id->act(inspector, info, by_id->user, err);
    }
    quern_task_info_free(info);
    return status;
}

static bool goes_on(quern_status status)
{
    return status == QUERN_OK || status == QUERN_E_NOT_FOUND || status == QUERN_E_STATE ||
           status == QUERN_E_CONFLICT || status == QUERN_E_DUPLICATE || status == QUERN_E_CORRUPT;
}

static void note(json_t *tasks, const char *id, const quern_error *failure)
{
    json_t *task = qn_memory_must(json_pack("{s:o}", "ok", json_boolean(failure == NULL ? 1 : 0)));
    qn_json_set_text(task, "id", id);
    if (failure != NULL) {
        qn_json_set_text(task, "error", failure->text);
    }
    (void)json_array_append_new(tasks, task);
}

/* A line for each of several. */
static void print_id(const struct qn_cli *cli, const char *id, const char *done)
{
    if (!cli->json && cli->args.operand_count > 1) {
        char *safe = qn_text_safe(id, strlen(id));
        printf("%s %s\n", safe, done);
        qn_free(safe);
    }
}

int qn_by_id_run(const struct qn_cli *cli, quern_inspector *inspector, const struct qn_by_id *by_id)
{
    uint64_t count = 0;
    int worst = QN_EXIT_OK;
    quern_status status = QUERN_OK;
    json_t *tasks = qn_memory_must(json_array());
    size_t operand_count = cli->args.operand_count;
    for (size_t i = 0; i < operand_count && goes_on(status); i++) {
        quern_error err;
        const char *id = qn_args_operand(&cli->args, i);
        status = act_on(inspector, by_id, id, &err);
        note(tasks, id, status == QUERN_OK ? NULL : &err);
        count += status == QUERN_OK;
        if (status == QUERN_OK) {
            print_id(cli, id, by_id->done);
        } else {
            int exit_code = err.code == QUERN_E_INVALID ? qn_cli_usage(cli, "%s", err.text)
                                                        : qn_cli_fail(cli, &err);
            worst = exit_code > worst ? exit_code : worst;
        }
        if (!goes_on(status) && i + 1 < operand_count) {
            qn_cli_message(cli, "%zu more not tried", operand_count - i - 1);
        }
    }
    if (cli->json) {
        (void)qn_json_print(json_pack("{s:s,s:I,s:o}", "done", by_id->done, "count",
                                      (json_int_t)count, "tasks", tasks));
        return worst;
    }
    json_decref(tasks);
    if (operand_count == 1 && count == 1) {
        printf("1 task %s\n", by_id->done);
    }
    return worst;
}
