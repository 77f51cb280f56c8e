/* SPDX-License-Identifier: MIT */
/* fuzz_loop_answer.c - any line as that of a loop process: what is taken from it is within its
 * limits, and what is refused has a reason that can be stored. The first byte says whether a task
 * runs; its id is "a". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/number.h"
#include "base/text/utf8.h"
#include "cli/loop/loop_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check(const struct qn_loop_answer *answer, bool runs)
{
    const char *note = answer->progress.note;
    switch (answer->kind) {
    case QN_LOOP_READY:
        require(!runs);
        break;
    case QN_LOOP_PROGRESS:
        require(runs && answer->progress.percent >= -1 && answer->progress.percent <= 100);
        require(qn_utf8_valid(note, strlen(note)));
        break;
    case QN_LOOP_ANSWER:
        require(runs && answer->outcome >= QUERN_DONE && answer->outcome <= QUERN_SNOOZE);
        require(answer->delay_ms >= -1 && answer->delay_ms <= QN_DURATION_MS_MAX);
        require(answer->class_name[0] == '\0' || qn_handler_options_is_class(answer->class_name));
        require(answer->result != NULL || answer->result_size == 0);
        break;
    case QN_LOOP_WRONG:
        require(answer->why[0] != '\0' && qn_utf8_valid(answer->why, strlen(answer->why)));
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool runs = size > 0 && data[0] % 2 == 1;
    struct qn_bytes line = {data + (size > 0 ? 1 : 0), size > 0 ? size - 1 : 0};
    struct qn_loop_answer answer;
    if (qn_loop_answer_read(line, runs ? "a" : NULL, &answer)) {
        check(&answer, runs);
        qn_loop_answer_finish(&answer);
    }
    return 0;
}
