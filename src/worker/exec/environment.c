/* SPDX-License-Identifier: MIT */
/* environment.c - the variables of a command: its task and its task's headers. */
#include "worker/exec/environment.h"

#include <string.h>

/* Of the variables for headers. Linux takes 128 KiB for one and, mostly, 2 MiB for all. */
enum { HEADER_BYTES_MAX = 65536, HEADER_NAME_SIZE = QN_NAME_SIZE_MAX + 32 };
#define HEADER_PREFIX "QUERN_HEADER_"

/* What qn_arena_printf made; NULL: memory is out. */
static void add_entry(struct qn_environment *environment, const char *text)
{
    if (text == NULL || environment->count == QN_ENVIRONMENT_MAX) {
        environment->out_of_memory = true;
        return;
    }
    environment->entries[environment->count++] = text;
}

/* As in CGI: upper case, and "_" for "-". False: the name has other characters than letters,
 * digits, "-" and "_", or another header got this variable. */
static bool name_variable(const struct qn_environment *environment, const char *name,
                          char variable[HEADER_NAME_SIZE])
{
    size_t size = strlen(HEADER_PREFIX);
    if (name[0] == '\0') {
        return false;
    }
    memcpy(variable, HEADER_PREFIX, size);
    for (const char *at = name; *at != '\0'; at++) {
        char c = *at == '-' ? '_' : *at;
        c = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        if ((c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z')) ||
            size + 2 > HEADER_NAME_SIZE) {
            return false;
        }
        variable[size++] = c;
    }
    variable[size++] = '=';
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->entries[i], variable, size) == 0) {
            return false;
        }
    }
    variable[size - 1] = '\0';
    return true;
}

/* Those that are left out are counted, so that a handler may notice. */
static void add_headers(struct qn_environment *environment, const quern_task *task)
{
    char variable[HEADER_NAME_SIZE];
    size_t bytes = 0;
    size_t added = 0;
    size_t omitted = 0;
    add_entry(environment, HEADER_PREFIX); /* those of a task whose handler started this worker */
    for (size_t i = 0; i < task->header_count; i++) {
        const char *value = task->headers[i].value != NULL ? task->headers[i].value : "";
        size_t size = strlen(task->headers[i].name) + strlen(value);
        if (added == QN_HEADER_COUNT_MAX || bytes + size > HEADER_BYTES_MAX ||
            !name_variable(environment, task->headers[i].name, variable)) {
            omitted++;
            continue;
        }
        bytes += size;
        added++;
        add_entry(environment, qn_arena_printf(environment->arena, "%s=%s", variable, value));
    }
    add_entry(environment,
              qn_arena_printf(environment->arena, "QUERN_HEADERS_OMITTED=%zu", omitted));
}

/* The names of OpenTelemetry. Without a trace the worker's own stay, as in any child. */
static void add_trace(struct qn_environment *environment, const quern_run *run)
{
    const char *parent = quern_run_traceparent(run);
    if (parent[0] != '\0') {
        add_entry(environment, qn_arena_printf(environment->arena, "TRACEPARENT=%s", parent));
        add_entry(environment,
                  qn_arena_printf(environment->arena, "TRACESTATE=%s", quern_run_tracestate(run)));
    }
}

bool qn_environment_make(struct qn_environment *environment, const quern_run *run,
                         const quern_task *task)
{
    struct qn_arena *arena = environment->arena;
    int64_t deadline_at_ms = quern_run_deadline_at_ms(run);
    const char *cause = quern_cause_name(quern_run_cause(run));
    bool has_cause = quern_run_cause(run) != QUERN_CAUSE_NONE && cause != NULL;
    add_entry(environment, qn_arena_printf(arena, "QUERN_TASK_ID=%s", task->id));
    add_entry(environment, qn_arena_printf(arena, "QUERN_TASK_TYPE=%s", task->type));
    add_entry(environment, qn_arena_printf(arena, "QUERN_QUEUE=%s", task->queue));
    add_entry(environment, qn_arena_printf(arena, "QUERN_RETRY_COUNT=%lld",
                                           (long long)quern_run_retry_count(run)));
    add_entry(environment,
              qn_arena_printf(arena, "QUERN_RETRY_MAX=%lld", (long long)task->retry_max));
    add_entry(environment,
              qn_arena_printf(arena, "QUERN_FENCE=%llu", (unsigned long long)quern_run_fence(run)));
    add_entry(environment, qn_arena_printf(arena, "QUERN_CAUSE=%s", has_cause ? cause : ""));
    add_entry(environment, deadline_at_ms != 0 ? qn_arena_printf(arena, "QUERN_DEADLINE=%lld",
                                                                 (long long)deadline_at_ms / 1000)
                                               : qn_arena_printf(arena, "QUERN_DEADLINE="));
    add_trace(environment, run);
    add_headers(environment, task);
    return !environment->out_of_memory;
}
