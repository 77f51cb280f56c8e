/* SPDX-License-Identifier: MIT */
/* json.c - JSON documents on stdout.
 *
 * On a terminal everything beyond ASCII is escaped, so that stored text cannot steer it. Building a
 * document can only fail for want of memory; jansson's setters take NULL as that failure, and the
 * document is then NULL or incomplete, which the last step notices. */
#include "cli/output/json.h"

#include "cli/output/terminal.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/text/utf8.h"
#include "cli/memory.h"
#include "cli/output/base64.h"
#include "cli/output/field.h"
#include "cli/output/text.h"

int qn_json_print(json_t *take_document)
{
    qn_memory_must(take_document);
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(15);
    flags |= qn_terminal_width(stdout) > 0 ? JSON_ENSURE_ASCII : 0;
    /* A failure of writing shows again when stdout is flushed at the end. */
    (void)json_dumpf(take_document, stdout, flags);
    printf("\n");
    json_decref(take_document);
    return QN_EXIT_OK;
}

json_t *qn_json_moment(int64_t at_ms)
{
    return at_ms == 0 ? json_null() : json_integer(at_ms);
}

static void set(json_t *object, const char *name, json_t *take_value)
{
    if (json_object_set_new(object, name, take_value) != 0) {
        qn_memory_exhausted();
    }
}

static void set_base64(json_t *object, const char *name, const void *data, size_t size)
{
    struct qn_arena arena = {0};
    char *encoded = qn_memory_must(qn_base64_encode(data, size));
    set(object, qn_memory_must(qn_arena_printf(&arena, "%s_base64", name)), json_string(encoded));
    qn_free(encoded);
    qn_arena_finish(&arena);
}

void qn_json_set_bytes(json_t *object, const char *name, const void *data, size_t size)
{
    bool is_key = qn_utf8_valid(name, strlen(name)); /* else a damaged header: with escapes */
    char *safe = is_key ? NULL : qn_memory_must(qn_text_safe(name, strlen(name)));
    const char *key = is_key ? name : safe;
    json_t *text = json_stringn(size > 0 ? data : "", size);
    if (text != NULL) {
        set(object, key, text);
    } else {
        set_base64(object, key, data, size);
    }
    qn_free(safe);
}

void qn_json_set_text(json_t *object, const char *name, const char *text)
{
    qn_json_set_bytes(object, name, text, text == NULL ? 0 : strlen(text));
}

static json_t *headers_of(const quern_task_info *info)
{
    json_t *headers = json_object();
    const quern_header *all = quern_task_info_headers(info);
    for (size_t i = 0; i < quern_task_info_header_count(info); i++) {
        qn_json_set_text(headers, all[i].name, all[i].value);
    }
    return headers;
}

static void set_numbers(json_t *object, const quern_task_info *info)
{
    set(object, "retry_max", json_integer(quern_task_info_retry_max(info)));
    set(object, "priority", json_integer(quern_task_info_priority(info)));
    set(object, "retry_count", json_integer(quern_task_info_retry_count(info)));
    set(object, "crash_count", json_integer(quern_task_info_crash_count(info)));
    set(object, "timeout_ms", json_integer(quern_task_info_timeout_ms(info)));
    set(object, "retention_ms", json_integer(quern_task_info_retention_ms(info)));
    set(object, "due_at_ms", qn_json_moment(quern_task_info_due_at_ms(info)));
    set(object, "archived_at_ms", qn_json_moment(quern_task_info_archived_at_ms(info)));
    set(object, "expires_at_ms", qn_json_moment(quern_task_info_expires_at_ms(info)));
    set(object, "grouped_at_ms", qn_json_moment(quern_task_info_grouped_at_ms(info)));
    if (quern_task_info_deleted_at_ms(info) != 0) {
        set(object, "deleted_at_ms", qn_json_moment(quern_task_info_deleted_at_ms(info)));
    }
    set(object, "enqueued_at_ms", qn_json_moment(quern_task_info_enqueued_at_ms(info)));
    set(object, "started_at_ms", qn_json_moment(quern_task_info_started_at_ms(info)));
    set(object, "failed_at_ms", qn_json_moment(quern_task_info_failed_at_ms(info)));
    set(object, "completed_at_ms", qn_json_moment(quern_task_info_completed_at_ms(info)));
    set(object, "deadline_at_ms", qn_json_moment(quern_task_info_deadline_at_ms(info)));
    set(object, "start_by_at_ms", qn_json_moment(quern_task_info_start_by_at_ms(info)));
    set(object, "kill_after_ms", json_integer(quern_task_info_kill_after_ms(info)));
    set(object, "cpu_ms", json_integer(quern_task_info_cpu_ms(info)));
    set(object, "memory_max", json_integer(quern_task_info_memory_max(info)));
    set(object, "fence", json_integer((json_int_t)quern_task_info_fence(info)));
}

json_t *qn_json_task(const quern_task_info *info)
{
    json_t *object = qn_memory_must(json_object());
    size_t size = 0;
    const char *state = quern_task_state_name(quern_task_info_state(info));
    qn_json_set_text(object, "id", quern_task_info_id(info));
    qn_json_set_text(object, "queue", quern_task_info_queue(info));
    qn_json_set_text(object, "type", quern_task_info_type(info));
    qn_json_set_text(object, "state", state != NULL ? state : "unknown");
    const void *data = quern_task_info_payload(info, &size);
    qn_json_set_bytes(object, "payload", data, size);
    set(object, "headers", headers_of(info));
    set_numbers(object, info);
    qn_json_set_text(object, "error", quern_task_info_error(info));
    qn_json_set_text(object, "group", quern_task_info_group(info));
    qn_json_set_text(object, "limit_key", quern_task_info_limit_key(info));
    qn_json_set_text(object, "worker", quern_task_info_worker(info));
    set(object, "orphaned", json_boolean(quern_task_info_orphaned(info)));
    const char *cause = quern_cause_name(quern_task_info_cause(info));
    bool has_cause = quern_task_info_cause(info) != QUERN_CAUSE_NONE && cause != NULL;
    set(object, "cause", has_cause ? json_string(cause) : json_null());
    int32_t progress = quern_task_info_progress(info);
    set(object, "progress", progress < 0 ? json_null() : json_integer(progress));
    qn_json_set_text(object, "progress_note", quern_task_info_progress_note(info));
    data = quern_task_info_result(info, &size);
    if (data != NULL) {
        qn_json_set_bytes(object, "result", data, size);
    }
    return object;
}
