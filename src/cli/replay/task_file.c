/* SPDX-License-Identifier: MIT */
/* task_file.c - writes a stored task as a line of JSON, and reads such a line.
 *
 * A number of seconds is whole where the stored milliseconds are, so that people can read it. The
 * reader takes any line that an import takes; without "saved" the task has never run. */
#include "cli/replay/task_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "cli/enqueue/lines.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "task/limits.h"

/* A payload at its limit, each byte written as \u00xx, and the rest of the line. */
#define LINE_SIZE_MAX (QN_PAYLOAD_SIZE_LIMIT * 6 + ((size_t)1 << 20))
#define MS_PER_S 1000

/* --- Writing ---------------------------------------------------------------------------- */

static void set(json_t *object, const char *name, json_t *take_value)
{
    if (json_object_set_new(object, name, qn_memory_must(take_value)) != 0) {
        qn_memory_exhausted();
    }
}

/* Seconds; 0 is left out. */
static void set_seconds(json_t *object, const char *name, int64_t ms)
{
    if (ms != 0) {
        set(object, name,
            ms % MS_PER_S == 0 ? json_integer(ms / MS_PER_S) : json_real((double)ms / MS_PER_S));
    }
}

static void set_given(json_t *object, const char *name, const char *text)
{
    if (text[0] != '\0') {
        qn_json_set_text(object, name, text);
    }
}

static json_t *saved_json(const quern_task_info *info)
{
    json_t *object = qn_memory_must(json_object());
    const char *state = quern_task_state_name(quern_task_info_state(info));
    qn_json_set_text(object, "state", state != NULL ? state : "unknown");
    set(object, "retry_count", json_integer(quern_task_info_retry_count(info)));
    set(object, "crash_count", json_integer(quern_task_info_crash_count(info)));
    const char *cause = quern_cause_name(quern_task_info_cause(info));
    if (quern_task_info_cause(info) != QUERN_CAUSE_NONE && cause != NULL) {
        qn_json_set_text(object, "cause", cause);
    }
    set_given(object, "error", quern_task_info_error(info));
    const quern_retry_policy retry = quern_task_info_retry(info);
    if (retry.kind != 0) {
        set(object, "retry",
            json_pack("{s:i,s:I,s:I}", "kind", (int)retry.kind, "base_ms",
                      (json_int_t)retry.base_ms, "cap_ms", (json_int_t)retry.cap_ms));
    }
    set(object, "enqueued_at_ms", qn_json_moment(quern_task_info_enqueued_at_ms(info)));
    set(object, "failed_at_ms", qn_json_moment(quern_task_info_failed_at_ms(info)));
    return object;
}

static json_t *headers_json(const quern_task_info *info)
{
    json_t *headers = qn_memory_must(json_object());
    const quern_header *all = quern_task_info_headers(info);
    for (size_t i = 0; i < quern_task_info_header_count(info); i++) {
        qn_json_set_text(headers, all[i].name, all[i].value);
    }
    return headers;
}

json_t *qn_task_file_json(const quern_task_info *info)
{
    json_t *object = qn_memory_must(json_object());
    size_t size = 0;
    qn_json_set_text(object, "type", quern_task_info_type(info));
    const void *payload = quern_task_info_payload(info, &size);
    qn_json_set_bytes(object, "payload", payload, size);
    qn_json_set_text(object, "queue", quern_task_info_queue(info));
    qn_json_set_text(object, "id", quern_task_info_id(info));
    set(object, "retry_max", json_integer(quern_task_info_retry_max(info)));
    int64_t timeout_ms = quern_task_info_timeout_ms(info);
    if (timeout_ms < 0) {
        set(object, "timeout", json_integer(-1));
    } else {
        set_seconds(object, "timeout", timeout_ms);
    }
    set_seconds(object, "deadline", quern_task_info_deadline_at_ms(info));
    if (quern_task_info_state(info) == QUERN_TASK_SCHEDULED) {
        set_seconds(object, "process_at", quern_task_info_due_at_ms(info));
    }
    set_seconds(object, "retention", quern_task_info_retention_ms(info));
    if (quern_task_info_priority(info) != 0) {
        set(object, "priority", json_integer(quern_task_info_priority(info)));
    }
    set_given(object, "group", quern_task_info_group(info));
    set_given(object, "limit_key", quern_task_info_limit_key(info));
    if (quern_task_info_header_count(info) > 0) {
        set(object, "headers", headers_json(info));
    }
    set(object, "saved", saved_json(info));
    return object;
}

/* --- Reading ---------------------------------------------------------------------------- */

static int32_t cause_of(const char *name)
{
    for (int32_t i = QUERN_CAUSE_NONE + 1; name != NULL; i++) {
        const char *known = quern_cause_name((quern_cause)i);
        if (known == NULL) {
            break;
        }
        if (strcmp(known, name) == 0) {
            return i;
        }
    }
    return QUERN_CAUSE_NONE;
}

static void read_saved(struct qn_task_file *file)
{
    const json_t *saved = json_object_get(file->line.json, "saved");
    json_int_t retry_count = json_integer_value(json_object_get(saved, "retry_count"));
    file->retry_count = retry_count > 0 ? retry_count : 0;
    file->cause = cause_of(json_string_value(json_object_get(saved, "cause")));
    const json_t *retry = json_object_get(saved, "retry");
    file->line.task.retry = (quern_retry_policy){
        .kind = (int32_t)json_integer_value(json_object_get(retry, "kind")),
        .base_ms = json_integer_value(json_object_get(retry, "base_ms")),
        .cap_ms = json_integer_value(json_object_get(retry, "cap_ms")),
    };
}

/* The first line that is not blank; *ret_found is false at the end. */
static quern_status next_line(struct qn_lines *lines, bool *ret_found)
{
    quern_status status = QUERN_OK;
    do {
        status = qn_lines_next(lines, ret_found);
    } while (status == QUERN_OK && *ret_found && qn_str_blank(qn_buf_text(&lines->line)));
    return status;
}

static int refuse(const struct qn_cli *cli, const char *name, const char *why)
{
    qn_cli_message(cli, "%s: %s; a file of `quern task save` is needed", name, why);
    return QN_EXIT_DATA;
}

static int read_lines(const struct qn_cli *cli, const char *name, struct qn_lines *lines,
                      struct qn_task_file *file)
{
    bool found = false;
    quern_error err;
    quern_status status = next_line(lines, &found);
    if (status == QUERN_OK && !found) {
        return refuse(cli, name, "holds no task");
    }
    if (status == QUERN_OK &&
        qn_import_line_parse(qn_buf_text(&lines->line), lines->line.size, &(quern_task){0},
                             &file->line, &err) != QUERN_OK) {
        return refuse(cli, name, err.text);
    }
    if (status == QUERN_OK) {
        status = next_line(lines, &found);
        if (status == QUERN_OK && !found) {
            return QN_EXIT_OK;
        }
        qn_import_line_finish(&file->line);
    }
    if (status == QUERN_E_FULL) {
        return refuse(cli, name, "a line is too long for a task");
    }
    if (status != QUERN_OK) {
        qn_cli_message(cli, "%s: %s", name, strerror(errno));
        return QN_EXIT_FAILURE;
    }
    return refuse(cli, name, "holds more than one task");
}

int qn_task_file_read(const struct qn_cli *cli, const char *path, struct qn_task_file *ret_file)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        qn_cli_message(cli, "%s: %s", path, strerror(errno));
        return QN_EXIT_FAILURE;
    }
    struct qn_lines *lines = qn_memory_must(qn_alloc_zero(1, sizeof *lines));
    *ret_file = (struct qn_task_file){0};
    qn_lines_init(lines, fd, LINE_SIZE_MAX);
    int exit_code = read_lines(cli, is_stdin ? "standard input" : path, lines, ret_file);
    if (exit_code == QN_EXIT_OK) {
        read_saved(ret_file);
    }
    qn_lines_finish(lines);
    qn_free(lines);
    if (!is_stdin) {
        (void)close(fd);
    }
    return exit_code;
}

void qn_task_file_finish(struct qn_task_file *file)
{
    qn_import_line_finish(&file->line);
}
