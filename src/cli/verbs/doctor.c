/* SPDX-License-Identifier: MIT */
/* doctor.c - `quern doctor`: checks the invariants on the live data, and repairs violations.
 *
 * Each finding is printed. Exit code 1 when an invariant is violated and was not repaired, or a
 * worker is stuck; with --strict also for warnings, never for notes. Besides the invariants it
 * checks that workers serve the waiting tasks. A repair never deletes a task. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/verbs/advisory.h"
#include "cli/verbs/server_info.h"
#include "inspect/explain/explain.h"

#define TYPES_LOOKED_AT 100

enum option { OPTION_REPAIR, OPTION_STRICT };
static const struct qn_option options[] = {
    [OPTION_REPAIR] = {"repair", NULL, "repair what can be repaired without losing a task",
                       QN_OPTION_FLAG},
    [OPTION_STRICT] = {"strict", NULL, "exit code 1 for warnings, too", QN_OPTION_FLAG},
};

struct findings {
    json_t *list;
    size_t open;  /* violated and not repaired */
    size_t stuck; /* workers */
    size_t warnings;
    size_t repaired;
};

static const char *severity_name(quern_severity severity)
{
    static const char *const names[] = {"note", "warning", "violated"};
    return (size_t)severity < QN_COUNT_OF(names) ? names[severity] : "unknown";
}

static void add_finding(const quern_finding *finding, void *user)
{
    struct findings *findings = user;
    json_t *object = qn_memory_must(json_object());
    qn_json_set_text(object, "invariant", finding->invariant);
    qn_json_set_text(object, "severity", severity_name(finding->severity));
    qn_json_set_text(object, "queue", finding->queue);
    qn_json_set_text(object, "id", finding->id);
    qn_json_set_text(object, "text", finding->text);
    (void)json_object_set_new(object, "repaired", json_boolean(finding->repaired != 0));
    (void)json_array_append_new(findings->list, object);
    findings->repaired += finding->repaired != 0 ? 1 : 0;
    findings->open +=
        finding->severity == QUERN_SEVERITY_VIOLATED && finding->repaired == 0 ? 1 : 0;
    findings->warnings +=
        finding->severity == QUERN_SEVERITY_WARNING && finding->repaired == 0 ? 1 : 0;
}

static void check_version(json_t *server_info, struct findings *findings)
{
    const char *version = json_string_value(json_object_get(server_info, "redis_version"));
    char text[512];
    if (version != NULL && qn_advisory_of(version, text, sizeof text)) {
        const quern_finding finding = {.invariant = "note",
                                       .queue = "",
                                       .id = "",
                                       .text = text,
                                       .severity = QUERN_SEVERITY_NOTE};
        add_finding(&finding, findings);
    }
}

/* --- Waiting tasks that no worker serves -------------------------------------------------- */

static void warn(struct findings *findings, const char *queue, const char *text)
{
    const quern_finding finding = {.invariant = "service",
                                   .queue = queue,
                                   .id = "",
                                   .text = text,
                                   .severity = QUERN_SEVERITY_WARNING};
    add_finding(&finding, findings);
}

static void check_workers(const struct qn_reading *reading, struct findings *findings)
{
    for (size_t i = 0; i < quern_worker_list_size(reading->workers); i++) {
        const quern_worker_info *worker = quern_worker_list_at(reading->workers, i);
        char text[512];
        bool stuck = worker->status == QUERN_WORKER_STUCK;
        if (worker->hung > 0) {
            (void)snprintf(text, sizeof text,
                           "%" PRIu32 " %s of the worker on %.200s, process %" PRId64 ", %s; %s",
                           worker->hung, qn_plural(worker->hung, "handler", "handlers"),
                           worker->host, worker->pid, qn_plural(worker->hung, "hangs", "hang"),
                           stuck ? "it is stuck, no slot is left: restart it"
                                 : "it continues with fewer slots");
            warn(findings, "", text);
        }
        if (worker->status == QUERN_WORKER_STALLED) {
            (void)snprintf(text, sizeof text,
                           "the worker on %.200s, process %" PRId64
                           ", has stalled: it cannot fetch tasks; restart it",
                           worker->host, worker->pid);
            warn(findings, "", text);
        }
        findings->stuck += stuck ? 1 : 0;
    }
}

static bool is_reported(const struct findings *findings, const char *queue, const char *text)
{
    for (size_t i = 0; i < json_array_size(findings->list); i++) {
        const json_t *finding = json_array_get(findings->list, i);
        const char *reported_queue = json_string_value(json_object_get(finding, "queue"));
        const char *reported_text = json_string_value(json_object_get(finding, "text"));
        if (reported_queue != NULL && reported_text != NULL && strcmp(reported_queue, queue) == 0 &&
            strcmp(reported_text, text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_first_of_its_type(const quern_task_list *list, size_t index)
{
    const char *type = quern_task_info_type(quern_task_list_at(list, index));
    for (size_t i = 0; i < index; i++) {
        if (strcmp(quern_task_info_type(quern_task_list_at(list, i)), type) == 0) {
            return false;
        }
    }
    return true;
}

/* Each type of the first page once; more would only repeat it. */
static void check_types(quern_inspector *inspector, const struct qn_reading *reading,
                        const quern_task_filter *filter, struct findings *findings)
{
    const char *queue = filter->queue;
    quern_task_list *list = NULL;
    if (quern_inspector_tasks(inspector, filter, &list, NULL) != QUERN_OK) {
        return;
    }
    for (size_t i = 0; i < quern_task_list_size(list); i++) {
        const char *type = quern_task_info_type(quern_task_list_at(list, i));
        struct qn_reason reason;
        if (is_first_of_its_type(list, i) && qn_explain_queue(reading, queue, type, &reason) &&
            !is_reported(findings, queue, reason.because)) {
            warn(findings, queue, reason.because);
        }
    }
    quern_task_list_free(list);
}

static void check_service(quern_inspector *inspector, struct findings *findings)
{
    struct qn_reading reading;
    quern_error error = {0};
    if (qn_reading_read(inspector, NULL, &reading, &error) != QUERN_OK) {
        char text[sizeof error.text + 64];
        (void)snprintf(text, sizeof text,
                       "cannot check whether workers serve the waiting tasks: %s", error.text);
        warn(findings, "", text);
        return;
    }
    check_workers(&reading, findings);
    for (size_t i = 0; i < quern_queue_list_size(reading.queues); i++) {
        const quern_queue_info *queue = quern_queue_list_at(reading.queues, i);
        uint64_t waiting = queue->counts[QUERN_TASK_PENDING] + queue->counts[QUERN_TASK_SCHEDULED] +
                           queue->counts[QUERN_TASK_RETRY] + queue->counts[QUERN_TASK_ACTIVE];
        struct qn_reason reason;
        if (waiting > 0 && qn_explain_queue(&reading, queue->name, NULL, &reason)) {
            warn(findings, queue->name, reason.because);
            continue;
        }
        /* A worker that cannot run a task puts it aside into retry. */
        static const quern_task_state states[] = {QUERN_TASK_PENDING, QUERN_TASK_RETRY};
        for (size_t j = 0; j < QN_COUNT_OF(states); j++) {
            const quern_task_filter filter = {
                .queue = queue->name, .state = (int32_t)states[j], .limit = TYPES_LOOKED_AT};
            if (queue->counts[states[j]] > 0) {
                check_types(inspector, &reading, &filter, findings);
            }
        }
    }
    qn_reading_finish(&reading);
}

/* Notes are information, not faults (the durability class is one): lines above the table. */
static bool is_note(const json_t *finding)
{
    return strcmp(json_string_value(json_object_get(finding, "severity")), "note") == 0;
}

static void print_notes(const struct findings *findings)
{
    for (size_t i = 0; i < json_array_size(findings->list); i++) {
        const json_t *finding = json_array_get(findings->list, i);
        const char *queue = json_string_value(json_object_get(finding, "queue"));
        const char *text = json_string_value(json_object_get(finding, "text"));
        if (!is_note(finding) || text == NULL) {
            continue;
        }
        char line[1024];
        bool of_queue = queue != NULL && queue[0] != '\0';
        (void)snprintf(line, sizeof line, "%s%s%s", of_queue ? queue : "", of_queue ? ": " : "",
                       text);
        qn_field_text("note", line);
    }
}

static void print_faults(const struct findings *findings)
{
    static const struct qn_column columns[] = {
        {"INVARIANT"},
        {"SEVERITY"},
        {"REPAIRED"},
        {"QUEUE", .flexible = true},
        {"ID", .flexible = true},
        {"FINDING", .whole = true},
    };
    static const char *const keys[] = {"queue", "id", "text"};
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < json_array_size(findings->list); i++) {
        const json_t *finding = json_array_get(findings->list, i);
        if (is_note(finding)) {
            continue;
        }
        bool repaired = json_is_true(json_object_get(finding, "repaired"));
        qn_table_text(&table, json_string_value(json_object_get(finding, "invariant")));
        qn_table_text(&table, json_string_value(json_object_get(finding, "severity")));
        qn_table_text(&table, repaired ? "yes" : "no");
        for (size_t j = 0; j < QN_COUNT_OF(keys); j++) {
            qn_table_text(&table, json_string_value(json_object_get(finding, keys[j])));
        }
    }
    if (table.cell_count > 0) {
        qn_table_print(&table);
    }
    qn_table_finish(&table);
}

static void print_text(const struct findings *findings)
{
    print_notes(findings);
    print_faults(findings);
    if (findings->open == 0 && findings->repaired == 0) {
        printf("no violations");
    } else {
        printf("violations: %zu repaired, %zu not repaired", findings->repaired, findings->open);
    }
    if (findings->warnings > 0) {
        printf(", %zu %s", findings->warnings,
               qn_plural(findings->warnings, "warning", "warnings"));
    }
    printf("\n");
}

static int examine(const struct qn_cli *cli, quern_inspector *inspector, struct findings *findings)
{
    quern_error err;
    json_t *server_info = NULL;
    int exit_code = qn_server_info_read(cli, inspector, &server_info);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_inspector_check(inspector, qn_args_given(&cli->args, OPTION_REPAIR), add_finding,
                              findings, &err) != QUERN_OK) {
        json_decref(server_info);
        return qn_cli_fail(cli, &err);
    }
    check_version(server_info, findings);
    check_service(inspector, findings);
    bool healthy = findings->open == 0 && findings->stuck == 0 &&
                   (findings->warnings == 0 || !qn_args_given(&cli->args, OPTION_STRICT));
    if (cli->json) {
        exit_code = qn_json_print(json_pack(
            "{s:b,s:O,s:I,s:I,s:I,s:O}", "healthy", healthy, "findings", findings->list, "repaired",
            (json_int_t)findings->repaired, "violated", (json_int_t)findings->open, "warnings",
            (json_int_t)findings->warnings, "broker", server_info));
    } else {
        print_text(findings);
    }
    json_decref(server_info);
    return exit_code == QN_EXIT_OK && !healthy ? QN_EXIT_FAILURE : exit_code;
}

static int run_doctor(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    struct findings findings = {.list = qn_memory_must(json_array())};
    exit_code = examine(cli, inspector, &findings);
    json_decref(findings.list);
    quern_inspector_free(inspector);
    return exit_code;
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "check the invariants of the live data",
    .about = "Exit code 1: an invariant is violated and not repaired, or a worker is stuck.",
    .example = "  quern doctor\n  quern doctor --repair",
    .options = options,
    .option_count = QN_COUNT_OF(options),
    .run = run_doctor,
}};
const struct qn_noun qn_noun_doctor = {"doctor", "check and repair the stored data", verbs, 1};
