/* SPDX-License-Identifier: MIT */
/* explain.c - `quern task explain`: why a task does not run, or what became of it, with its last
 * runs. */
#include "cli/verbs/task/explain.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/verbs/task/runs.h"
#include "quern/explain.h"

enum { EXPLAIN_QUEUE };
const struct qn_option qn_task_explain_options[QN_TASK_EXPLAIN_OPTION_COUNT] = {
    [EXPLAIN_QUEUE] = {"queue", "NAME", "the queue it is in (default: all)", QN_OPTION_TEXT},
};

static const char *state_of(const quern_task_info *info)
{
    const char *name = quern_task_state_name(quern_task_info_state(info));
    return name != NULL ? name : "unknown";
}

static const char *why_of(const quern_reason *reason)
{
    const char *name = quern_why_name((quern_why)reason->why);
    return name != NULL ? name : "unknown"; /* of a newer library */
}

/* --- Text ------------------------------------------------------------------------------ */

static void print_reason(const quern_reason *reason)
{
    qn_field_text("why", reason->text);
    if (reason->holder[0] != '\0') {
        qn_field_text("held by", reason->holder);
    }
    qn_field_moment(reason->why == QUERN_WHY_IN_LINE ? "starts about" : "until",
                    reason->until_at_ms);
    if (reason->advice[0] != '\0') {
        qn_field_text("what to do", reason->advice);
    }
}

static void print_explanation(const quern_explanation *explanation)
{
    const quern_task_info *info = quern_explanation_task(explanation);
    qn_field_text("task", quern_task_info_id(info));
    qn_field_text("queue", quern_task_info_queue(info));
    qn_field_text("type", quern_task_info_type(info));
    qn_field_text("state", state_of(info));
    for (size_t i = 0; i < quern_explanation_size(explanation); i++) {
        print_reason(quern_explanation_at(explanation, i));
    }
    qn_task_runs_print(info);
}

/* --- JSON ------------------------------------------------------------------------------ */

static json_t *reason_json(const quern_reason *reason)
{
    json_t *object = qn_memory_must(json_object());
    qn_json_set_text(object, "why", why_of(reason));
    (void)json_object_set_new(object, "holds_up", json_boolean(reason->holds_up));
    qn_json_set_text(object, "text", reason->text);
    qn_json_set_text(object, "advice", reason->advice);
    qn_json_set_text(object, "holder", reason->holder);
    (void)json_object_set_new(object, "until_at_ms", qn_json_moment(reason->until_at_ms));
    (void)json_object_set_new(object, "ahead",
                              reason->ahead < 0 ? json_null() : json_integer(reason->ahead));
    return object;
}

static json_t *explanation_json(const quern_explanation *explanation)
{
    const quern_task_info *info = quern_explanation_task(explanation);
    json_t *object = qn_memory_must(json_object());
    json_t *reasons = qn_memory_must(json_array());
    for (size_t i = 0; i < quern_explanation_size(explanation); i++) {
        (void)json_array_append_new(reasons, reason_json(quern_explanation_at(explanation, i)));
    }
    qn_json_set_text(object, "id", quern_task_info_id(info));
    qn_json_set_text(object, "queue", quern_task_info_queue(info));
    qn_json_set_text(object, "type", quern_task_info_type(info));
    qn_json_set_text(object, "state", state_of(info));
    (void)json_object_set_new(object, "reasons", reasons);
    (void)json_object_set_new(object, "runs", qn_task_runs_json(info));
    return object;
}

static void add_missing(json_t *documents, const char *id, const quern_error *err)
{
    json_t *object = qn_memory_must(json_object());
    qn_json_set_text(object, "id", id);
    qn_json_set_text(object, "error", err->text);
    (void)json_array_append_new(documents, object);
}

/* --- The verb -------------------------------------------------------------------------- */

/* documents: with --json; else NULL. */
static int explain(struct qn_cli *cli, quern_inspector *inspector, const char *id,
                   json_t *documents)
{
    const char *queue = qn_args_text(&cli->args, EXPLAIN_QUEUE);
    quern_explanation *explanation = NULL;
    quern_error err;
    if (quern_inspector_explain(inspector, queue, id, &explanation, &err) != QUERN_OK) {
        if (documents != NULL) {
            add_missing(documents, id, &err);
        }
        return qn_cli_fail(cli, &err);
    }
    if (documents != NULL) {
        (void)json_array_append_new(documents, explanation_json(explanation));
    } else {
        print_explanation(explanation);
    }
    quern_explanation_free(explanation);
    return QN_EXIT_OK;
}

/* Of several tasks each is tried, until the broker fails; the exit code is the worst. */
int qn_task_explain(struct qn_cli *cli)
{
    size_t count = cli->args.operand_count;
    quern_inspector *inspector = NULL;
    int worst = qn_cli_open_inspector(cli, false, &inspector);
    if (worst != QN_EXIT_OK) {
        return worst;
    }
    json_t *documents = cli->json ? qn_memory_must(json_array()) : NULL;
    for (size_t i = 0; i < count && (worst < QN_EXIT_USAGE || worst == QN_EXIT_DATA); i++) {
        if (i > 0 && documents == NULL) {
            printf("\n");
        }
        int exit_code = explain(cli, inspector, qn_args_operand(&cli->args, i), documents);
        worst = exit_code > worst ? exit_code : worst;
    }
    if (documents != NULL && count > 1) {
        (void)qn_json_print(documents);
    } else if (documents != NULL) {
        if (worst == QN_EXIT_OK) {
            (void)qn_json_print(json_incref(json_array_get(documents, 0)));
        }
        json_decref(documents);
    }
    quern_inspector_free(inspector);
    return worst;
}
