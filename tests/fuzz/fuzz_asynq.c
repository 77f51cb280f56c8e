/* SPDX-License-Identifier: MIT */
/* fuzz_asynq.c - any bytes as each of asynq's messages: a decoded message can be encoded, and
 * decoding that gives the same message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "message/asynq/asynq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

/* The encoding is canonical: encoding, decoding and encoding once more gives the same bytes. */
static void try_task(struct qn_arena *arena, const uint8_t *data, size_t size)
{
    struct qn_asynq_task task;
    if (qn_asynq_task_decode(arena, data, size, &task, NULL) != QUERN_OK) {
        return;
    }
    struct qn_bytes first;
    struct qn_bytes second;
    require(qn_asynq_task_encode(arena, &task, &first, NULL) == QUERN_OK);
    require(qn_asynq_task_decode(arena, first.data, first.size, &task, NULL) == QUERN_OK);
    require(qn_asynq_task_encode(arena, &task, &second, NULL) == QUERN_OK);
    require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
}

static void try_others(struct qn_arena *arena, const uint8_t *data, size_t size)
{
    struct qn_bytes bytes;
    struct qn_asynq_server server;
    if (qn_asynq_server_decode(arena, data, size, &server, NULL) == QUERN_OK) {
        require(qn_asynq_server_encode(arena, &server, &bytes, NULL) == QUERN_OK);
    }
    struct qn_asynq_run run;
    if (qn_asynq_run_decode(arena, data, size, &run, NULL) == QUERN_OK) {
        require(qn_asynq_run_encode(arena, &run, &bytes, NULL) == QUERN_OK);
    }
    struct qn_asynq_schedule schedule;
    if (qn_asynq_schedule_decode(arena, data, size, &schedule, NULL) == QUERN_OK) {
        require(qn_asynq_schedule_encode(arena, &schedule, &bytes, NULL) == QUERN_OK);
    }
    struct qn_asynq_event event;
    if (qn_asynq_event_decode(arena, data, size, &event, NULL) == QUERN_OK) {
        require(qn_asynq_event_encode(arena, &event, &bytes, NULL) == QUERN_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qn_arena arena = {0};
    try_task(&arena, data, size);
    try_others(&arena, data, size);
    qn_arena_finish(&arena);
    return 0;
}
