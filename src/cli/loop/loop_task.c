/* SPDX-License-Identifier: MIT */
/* loop_task.c - a task as a line of JSON, for a loop process. Names are those of `task inspect`. */
#include "cli/loop/loop_task.h"

#include <stdlib.h>
#include <string.h>

#include "cli/memory.h"
#include "cli/output/json.h"

static void set(json_t *object, const char *name, json_t *take_value)
{
    if (json_object_set_new(object, name, take_value) != 0) {
        qn_memory_exhausted();
    }
}

static json_t *headers_of(const quern_task *task)
{
    json_t *headers = qn_memory_must(json_object());
    for (size_t i = 0; i < task->header_count; i++) {
        qn_json_set_text(headers, task->headers[i].name, task->headers[i].value);
    }
    return headers;
}

char *qn_loop_task_line(const quern_run *run, const quern_task *task, size_t *ret_size)
{
    json_t *line = qn_memory_must(json_object());
    quern_cause cause = quern_run_cause(run);
    const char *cause_name = cause == QUERN_CAUSE_NONE ? NULL : quern_cause_name(cause);
    qn_json_set_text(line, "id", task->id);
    qn_json_set_text(line, "type", task->type);
    qn_json_set_text(line, "queue", task->queue);
    qn_json_set_bytes(line, "payload", task->payload, task->payload_size);
    set(line, "headers", headers_of(task));
    set(line, "retry_count", json_integer(quern_run_retry_count(run)));
    set(line, "retry_max", json_integer(task->retry_max));
    set(line, "crash_count", json_integer(quern_run_crash_count(run)));
    set(line, "cause", cause_name != NULL ? json_string(cause_name) : json_null());
    set(line, "deadline_at_ms", qn_json_moment(quern_run_deadline_at_ms(run)));
    set(line, "fence", json_integer((json_int_t)quern_run_fence(run)));
    char *text = qn_memory_must(json_dumps(line, JSON_COMPACT));
    json_decref(line);
    size_t size = strlen(text);
    text[size] = '\n'; /* in place of its NUL */
    *ret_size = size + 1;
    return text;
}
