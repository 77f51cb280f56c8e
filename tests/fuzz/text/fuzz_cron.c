/* SPDX-License-Identifier: MIT */
/* fuzz_cron.c - any text as cron expression, after any moment: refused with a reason, or its
 * moments follow each other and are whole seconds. */
#include <stdlib.h>

#include "base/text/number.h"
#include "lib_fuzz.h"
#include "task/cron/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.data = data, .size = size};
    unsigned flags = fuzz_byte(&input) & QN_CRON_SECONDS;
    int64_t at_ms = fuzz_number(&input);
    char *text = fuzz_copy(input.data, input.size);
    struct qn_cron cron;
    quern_error err = {0};
    if (qn_cron_parse(text, flags, &cron, &err) != QUERN_OK) {
        fuzz_require(err.code == QUERN_E_INVALID && err.text[0] != '\0');
    } else {
        fuzz_require(cron.zone[0] == '\0' || qn_zones_check_name(cron.zone, NULL) == QUERN_OK);
        int64_t next_ms;
        for (int i = 0; i < 3 && qn_cron_next(&cron, NULL, at_ms, &next_ms); i++) {
            fuzz_require(next_ms > at_ms && next_ms % 1000 == 0 && next_ms <= QN_MOMENT_MS_MAX);
            at_ms = next_ms;
        }
    }
    free(text);
    return 0;
}
