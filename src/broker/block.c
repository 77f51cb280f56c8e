/* SPDX-License-Identifier: MIT */
/* block.c - copies a task with its headers, strings and payload into memory of the caller.
 *
 * Sizes are added up first, then everything is put in the same order; the caller asserts that both
 * agree. */
#include "broker/block.h"

#include <string.h>

size_t qn_block_text_size(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 1;
}

static size_t headers_size(const struct qn_task *task)
{
    size_t size = task->header_count * sizeof(quern_header);
    for (size_t i = 0; i < task->header_count; i++) {
        size +=
            qn_block_text_size(task->headers[i].name) + qn_block_text_size(task->headers[i].value);
    }
    return size;
}

size_t qn_block_task_size(const struct qn_task *task)
{
    return headers_size(task) + qn_block_text_size(task->id) + qn_block_text_size(task->queue) +
           qn_block_text_size(task->type) + qn_block_text_size(task->unique_key) +
           qn_block_text_size(task->group) + qn_block_text_size(task->limit_key) +
           qn_block_bytes_size(task->payload, task->payload_size);
}

size_t qn_block_bytes_size(const void *data, size_t size)
{
    return data == NULL ? 0 : size + 1;
}

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

const void *qn_block_put_bytes(char **at, const void *data, size_t size)
{
    const void *copy = put(at, data, size);
    if (copy != NULL) {
        *(*at)++ = '\0';
    }
    return copy;
}

const char *qn_block_put_text(char **at, const char *text)
{
    return put(at, text, qn_block_text_size(text));
}

static const quern_header *put_headers(char **at, const struct qn_task *task)
{
    if (task->header_count == 0) {
        return NULL;
    }
    quern_header *headers = (quern_header *)(void *)*at;
    *at += task->header_count * sizeof *headers;
    for (size_t i = 0; i < task->header_count; i++) {
        headers[i].name = qn_block_put_text(at, task->headers[i].name);
        headers[i].value = qn_block_put_text(at, task->headers[i].value);
    }
    return headers;
}

void qn_block_put_task(char **at, struct qn_task *task)
{
    task->headers = put_headers(at, task);
    task->id = qn_block_put_text(at, task->id);
    task->queue = qn_block_put_text(at, task->queue);
    task->type = qn_block_put_text(at, task->type);
    task->unique_key = qn_block_put_text(at, task->unique_key);
    task->group = qn_block_put_text(at, task->group);
    task->limit_key = qn_block_put_text(at, task->limit_key);
    task->payload = qn_block_put_bytes(at, task->payload, task->payload_size);
}
