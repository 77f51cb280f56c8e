/* SPDX-License-Identifier: MIT */
/* fuzz_query.c - any text as a query about any task: refused with a reason, or answered, and what
 * is known of a place alone never contradicts the answer for a task there. */
#include <stdlib.h>
#include <string.h>

#include "lib_fuzz.h"
#include "query/condition.h"

static void check_answers(const struct qn_condition *condition, struct fuzz_input *input)
{
    static const char *const queues[] = {"default", "mail", ""};
    const quern_header header = {.name = "user", .value = "a"};
    struct qn_task stored = {.id = "a1", .type = "mail:a", .headers = &header, .header_count = 1};
    stored.queue = queues[fuzz_byte(input) % 3];
    stored.state = (quern_task_state)(1 + fuzz_byte(input) % 7);
    struct qn_condition_task task = {.task = &stored, .error = "a\nb", .worker = ""};
    task.now_ms = INT64_C(1800000000000);
    task.enqueued_at_ms = fuzz_byte(input) % 2 == 0 ? 0 : task.now_ms - fuzz_byte(input);
    task.due_at_ms = task.now_ms + fuzz_byte(input);
    stored.payload = input->data;
    stored.payload_size = input->size;
    bool fits = qn_condition_fits(condition, &task);
    enum qn_condition_answer place = qn_condition_place(condition, stored.queue, stored.state);
    fuzz_require(place == QN_ANSWER_MAYBE || fits == (place == QN_ANSWER_YES));
    const char *id = qn_condition_id(condition);
    fuzz_require(!fits || id == NULL || strcmp(id, stored.id) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t begin = size < 6 ? size : 6;
    struct fuzz_input input = {.data = data, .size = begin};
    char *text = fuzz_copy(data + begin, size - begin);
    struct qn_condition *condition = NULL;
    quern_error err = {0};
    if (qn_condition_parse(text, &condition, &err) != QUERN_OK) {
        fuzz_require(err.code == QUERN_E_INVALID && err.text[0] != '\0');
    } else {
        check_answers(condition, &input);
        qn_condition_free(condition);
    }
    free(text);
    return 0;
}
