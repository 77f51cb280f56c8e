/* SPDX-License-Identifier: MIT */
/* fuzz_duration.c - any text as duration and as moment: a parsed value can be formatted, and the
 * formatted text parses to the same value. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/duration.h"
#include "base/text/moment.h"
#include "base/text/number.h"
#include "task/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void try_duration(const char *text)
{
    int64_t ms;
    if (qn_duration_parse(text, &ms, NULL) != QUERN_OK) {
        return;
    }
    require(ms >= 0 && ms <= QN_DURATION_MS_MAX);
    char written[32];
    int64_t again;
    qn_duration_format(ms, written, sizeof written);
    require(qn_duration_parse(written, &again, NULL) == QUERN_OK && again == ms);
}

static void try_moment(const char *text)
{
    int64_t at_ms;
    if (qn_moment_parse(text, &at_ms, NULL) != QUERN_OK) {
        return;
    }
    require(at_ms >= 0);
    char written[40];
    int64_t again;
    qn_moment_format(at_ms, written, sizeof written);
    /* The last second of the year 9999 in a zone behind UTC is in a year of five digits. */
    if (strlen(written) == strlen("2026-11-20T12:00:00.000Z")) {
        require(qn_moment_parse(written, &again, NULL) == QUERN_OK && again == at_ms);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    try_duration(text);
    try_moment(text);
    free(text);
    return 0;
}
