/* SPDX-License-Identifier: MIT */
/* leased.c - a leased run in one block of memory.
 *
 * The struct comes first, then its headers, its strings and its bytes; one free gives back all. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "broker/broker.h"

static size_t text_size(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 1;
}

static size_t headers_size(const struct qn_task *task)
{
    size_t size = task->header_count * sizeof(quern_header);
    for (size_t i = 0; i < task->header_count; i++) {
        size += text_size(task->headers[i].name) + text_size(task->headers[i].value);
    }
    return size;
}

/* Copies to *at and moves it on; an empty block that is not NULL stays not NULL. */
static const void *put(char **at, const void *data, size_t size)
{
    if (data == NULL) {
        return NULL;
    }
    void *copy = *at;
    if (size > 0) {
        memcpy(copy, data, size);
    }
    *at += size;
    return copy;
}

static const char *put_text(char **at, const char *text)
{
    return put(at, text, text_size(text));
}

static const quern_header *put_headers(char **at, const struct qn_task *task)
{
    if (task->header_count == 0) {
        return NULL;
    }
    quern_header *headers = (quern_header *)(void *)*at;
    *at += task->header_count * sizeof *headers;
    for (size_t i = 0; i < task->header_count; i++) {
        headers[i].name = put_text(at, task->headers[i].name);
        headers[i].value = put_text(at, task->headers[i].value);
    }
    return headers;
}

struct qn_leased *qn_leased_copy(const struct qn_leased *leased)
{
    const struct qn_task *task = &leased->task;
    size_t size = sizeof *leased + headers_size(task) + text_size(task->id) +
                  text_size(task->queue) + text_size(task->type) + text_size(task->unique_key) +
                  text_size(task->group) + task->payload_size + leased->raw_size;
    struct qn_leased *copy = qn_alloc(size + 1); /* so that empty blocks at the end lie inside */
    if (copy == NULL) {
        return NULL;
    }
    *copy = *leased;
    char *at = (char *)(copy + 1);
    copy->task.headers = put_headers(&at, task);
    copy->task.id = put_text(&at, task->id);
    copy->task.queue = put_text(&at, task->queue);
    copy->task.type = put_text(&at, task->type);
    copy->task.unique_key = put_text(&at, task->unique_key);
    copy->task.group = put_text(&at, task->group);
    copy->task.payload = put(&at, task->payload, task->payload_size);
    copy->raw = put(&at, leased->raw, leased->raw_size);
    QN_ASSERT(at == (char *)copy + size);
    return copy;
}

void qn_leased_free(struct qn_leased *leased)
{
    qn_free(leased);
}
