/* SPDX-License-Identifier: MIT */
/* fuzz_accept.c - any text as Accept header of a request for metrics: one of the two formats, and
 * the same one for the same header behind a range that is not ours. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/accept.h"

#define BEFORE "image/png;q=0.3,"
#define HEADER_SIZE_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(sizeof BEFORE + size);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, BEFORE, sizeof BEFORE - 1);
    memcpy(text + sizeof BEFORE - 1, data, size);
    text[sizeof BEFORE - 1 + size] = '\0';
    const char *header = text + sizeof BEFORE - 1;
    quern_metrics_format format = qn_accept_choose(header);
    if (format != QUERN_METRICS_TEXT && format != QUERN_METRICS_OPENMETRICS) {
        abort();
    }
    if (strlen(text) <= HEADER_SIZE_MAX && qn_accept_choose(text) != format) {
        abort();
    }
    free(text);
    return 0;
}
