/* SPDX-License-Identifier: MIT */
/* fuzz_import.c - any lines as tasks to import: refused with a reason, or a task that can be
 * checked and encoded as every other. */
#include <stdlib.h>
#include <string.h>

#include "cli/enqueue/import.h"
#include "lib_fuzz.h"
#include "task/limits.h"

static void try_line(const char *text, size_t size)
{
    static const quern_task defaults = {.type = "type", .queue = "default"};
    struct qn_import_line line = {0};
    quern_error err = {0};
    if (qn_import_line_parse(text, size, &defaults, &line, &err) != QUERN_OK) {
        fuzz_require(err.text[0] != '\0');
        return;
    }
    struct qn_arena arena = {0};
    struct qn_id_source ids;
    struct qn_task task;
    qn_id_source_init(&ids);
    const struct qn_task_terms terms = {.now_wall_ms = INT64_C(1800000000000),
                                        .payload_size_max = QN_PAYLOAD_SIZE_MAX,
                                        .ids = &ids};
    if (qn_task_prepare(&line.task, &terms, &arena, &task, &err) != QUERN_OK) {
        fuzz_require(err.text[0] != '\0');
    } else {
        fuzz_require(task.timeout_ms >= 0 && task.retry_max >= 0 && task.retention_ms >= 0);
    }
    qn_arena_finish(&arena);
    qn_import_line_finish(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end == NULL ? end : line_end;
        try_line(at, (size_t)(line_end - at));
        at = line_end + 1;
    }
    free(text);
    return 0;
}
