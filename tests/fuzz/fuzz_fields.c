/* SPDX-License-Identifier: MIT */
/* fuzz_fields.c - any text as the fields that we keep beside a task, and any bytes as its message:
 * numbers stay within the limits of the code, and a task that could be read can be written again.
 * The input: three texts with their lengths before them, and the message. */
#include <string.h>

#include "broker/redis/schema/task_fields.h"
#include "lib_fuzz.h"

#define TEXT_SIZE 256

static void try_past_and_run(struct fuzz_input *input)
{
    char text[TEXT_SIZE];
    struct qn_task_fields_past past;
    struct qn_task_fields_run run;
    size_t size = fuzz_text(input, text, sizeof text);
    qn_task_fields_past_read(text, size, &past);
    size = fuzz_text(input, text, sizeof text);
    qn_task_fields_run_read(text, size, &run);
    if (run.worker_id_size > 0) {
        fuzz_require(run.worker_id >= text && run.worker_id_size <= size);
    }
    fuzz_require(past.crash_count >= 0);
}

static void try_message(struct fuzz_input *input, const struct qn_task_fields_opts *opts)
{
    struct qn_arena arena = {0};
    quern_error err = {0};
    struct qn_asynq_task message;
    struct qn_bytes bytes;
    struct qn_task task;
    const struct qn_stored_task stored = {
        .queue = "default", .id = "id0", .message = {input->data, input->size}, .opts = opts};
    if (qn_task_fields_decode(&arena, &stored, &message, &task, &err) == QUERN_OK) {
        fuzz_require(strcmp(task.id, "id0") == 0);
        fuzz_require(task.timeout_ms >= 0 && task.retry_max >= 0 && task.retention_ms >= 0);
        fuzz_require(qn_asynq_task_encode(&arena, &message, &bytes, &err) == QUERN_OK);
        char text[QN_FIELD_SIZE];
        fuzz_require(qn_task_fields_opts_write(&task, text) < sizeof text);
    } else {
        fuzz_require(err.text[0] != '\0');
    }
    qn_arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.data = data, .size = size};
    char text[TEXT_SIZE];
    struct qn_task_fields_opts opts;
    size_t text_size = fuzz_text(&input, text, sizeof text);
    qn_task_fields_opts_read(text, text_size, &opts);
    try_past_and_run(&input);
    try_message(&input, text_size == 0 ? NULL : &opts);
    return 0;
}
