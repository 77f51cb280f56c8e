/* SPDX-License-Identifier: MIT */
/* codec.c - decodes and encodes asynq's messages for the golden tests.
 *
 * Reads lines "KIND HEX" with KIND task, server, run, schedule or event, and answers each with "ok
 * HEX FIELDS": the message as we write it again, and its fields, as NAME=HEX-OF-TEXT separated by
 * spaces; or "error TEXT". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/arena.h"
#include "message/asynq/asynq.h"

static void show_bytes(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        (void)printf("%02x", bytes[i]);
    }
}

static void field(const char *name, const void *data, size_t size)
{
    (void)printf(" %s=", name);
    show_bytes(data, size);
}

static void text(const char *name, const char *value)
{
    field(name, value, strlen(value));
}

static void number(const char *name, int64_t value)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%" PRId64, value);
    text(name, digits);
}

static void moment(const char *name, struct qn_asynq_time value)
{
    char digits[48];
    (void)snprintf(digits, sizeof digits, "%" PRId64 ".%09d", value.seconds, (int)value.nanos);
    text(name, digits);
}

/* A line's message, and the result. */
struct line {
    struct qn_arena *arena;
    struct qn_bytes in;
    struct qn_bytes out;
    quern_error err;
};

static void show(const struct line *line)
{
    (void)fputs("ok ", stdout);
    show_bytes(line->out.data, line->out.size);
}

static quern_status do_task(struct line *line)
{
    struct qn_asynq_task task;
    quern_status status =
        qn_asynq_task_decode(line->arena, line->in.data, line->in.size, &task, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_asynq_task_encode(line->arena, &task, &line->out, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    show(line);
    text("type", task.type);
    field("payload", task.payload, task.payload_size);
    text("id", task.id);
    text("queue", task.queue);
    number("max_retry", task.retry_max);
    number("retried", task.retry_count);
    text("last_err", task.error);
    number("timeout_ms", task.timeout_ms);
    number("deadline_ms", task.deadline_at_ms);
    text("unique_key", task.unique_key);
    number("last_failed_at_ms", task.failed_at_ms);
    number("retention_ms", task.retention_ms);
    number("completed_at_ms", task.completed_at_ms);
    text("group", task.group);
    for (size_t i = 0; i < task.header_count; i++) {
        text("header_name", task.headers[i].name);
        text("header_value", task.headers[i].value);
    }
    return QUERN_OK;
}

static quern_status do_server(struct line *line)
{
    struct qn_asynq_server server;
    quern_status status =
        qn_asynq_server_decode(line->arena, line->in.data, line->in.size, &server, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_asynq_server_encode(line->arena, &server, &line->out, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    show(line);
    text("host", server.host);
    text("id", server.id);
    number("concurrency", server.concurrency);
    for (size_t i = 0; i < server.queue_count; i++) {
        text("queue", server.queues[i].name);
        number("weight", server.queues[i].weight);
    }
    text("status", server.status);
    moment("started_at", server.started_at);
    number("run_count", server.run_count);
    return QUERN_OK;
}

static quern_status do_run(struct line *line)
{
    struct qn_asynq_run run;
    quern_status status =
        qn_asynq_run_decode(line->arena, line->in.data, line->in.size, &run, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_asynq_run_encode(line->arena, &run, &line->out, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    show(line);
    text("host", run.host);
    text("server_id", run.server_id);
    text("task_id", run.task_id);
    text("task_type", run.task_type);
    field("payload", run.payload, run.payload_size);
    text("queue", run.queue);
    moment("started_at", run.started_at);
    moment("deadline_at", run.deadline_at);
    return QUERN_OK;
}

static quern_status do_schedule(struct line *line)
{
    struct qn_asynq_schedule schedule;
    quern_status status =
        qn_asynq_schedule_decode(line->arena, line->in.data, line->in.size, &schedule, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_asynq_schedule_encode(line->arena, &schedule, &line->out, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    show(line);
    text("id", schedule.id);
    text("spec", schedule.spec);
    text("task_type", schedule.task_type);
    field("payload", schedule.payload, schedule.payload_size);
    for (size_t i = 0; i < schedule.option_count; i++) {
        text("option", schedule.options[i]);
    }
    moment("next_at", schedule.next_at);
    moment("previous_at", schedule.previous_at);
    return QUERN_OK;
}

static quern_status do_event(struct line *line)
{
    struct qn_asynq_event event;
    quern_status status =
        qn_asynq_event_decode(line->arena, line->in.data, line->in.size, &event, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_asynq_event_encode(line->arena, &event, &line->out, &line->err);
    if (status != QUERN_OK) {
        return status;
    }
    show(line);
    text("task_id", event.task_id);
    moment("enqueued_at", event.enqueued_at);
    return QUERN_OK;
}

static const struct kind {
    const char *name;
    quern_status (*work)(struct line *line);
} kinds[] = {
    {"task", do_task},         {"server", do_server}, {"run", do_run},
    {"schedule", do_schedule}, {"event", do_event},
};

static int digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *place = strchr(digits, c);
    return c == '\0' || place == NULL ? -1 : (int)(place - digits);
}

/* In place; false when it is no hexadecimal text. */
static bool from_hex(char *hex, struct qn_bytes *ret_bytes)
{
    size_t size = 0;
    for (const char *next = hex; *next != '\0'; next += 2) {
        int high = digit(next[0]);
        int low = high < 0 ? -1 : digit(next[1]);
        if (low < 0) {
            return false;
        }
        hex[size++] = (char)(high << 4 | low);
    }
    *ret_bytes = (struct qn_bytes){.data = hex, .size = size};
    return true;
}

static void answer(struct qn_arena *arena, char *words)
{
    char *hex = strchr(words, ' ');
    struct line line = {.arena = arena};
    if (hex == NULL || !from_hex(hex + 1, &line.in)) {
        (void)puts("error: no KIND HEX");
        return;
    }
    *hex = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, words) == 0) {
            if (kinds[i].work(&line) != QUERN_OK) {
                (void)printf("error %s", line.err.text);
            }
            (void)putchar('\n');
            return;
        }
    }
    (void)puts("error: no such kind");
}

int main(void)
{
    char *words = NULL;
    size_t capacity = 0;
    ssize_t size = 0;
    while ((size = getline(&words, &capacity, stdin)) > 0) {
        if (words[size - 1] == '\n') {
            words[size - 1] = '\0';
        }
        struct qn_arena arena = {0};
        answer(&arena, words);
        qn_arena_finish(&arena);
    }
    free(words);
    return 0;
}
