/* SPDX-License-Identifier: MIT */
/* fuzz_zone.c - any bytes as the file of a time zone: refused with a fault, or its offsets are
 * those of a clock, a local time and its moment are not far apart, and a search for the next moment
 * of an expression ends. */
#include <stdlib.h>
#include <string.h>

#include "base/text/number.h"
#include "base/time/zone.h"
#include "lib_fuzz.h"
#include "task/cron/cron.h"

#define OFFSET_S_MAX (26 * QN_CIVIL_HOUR_S)

static void try_moment(const struct qn_zone *zone, int64_t at_s)
{
    struct qn_civil local;
    int32_t offset_s = qn_zone_offset(zone, at_s);
    fuzz_require(offset_s > -OFFSET_S_MAX && offset_s < OFFSET_S_MAX);
    qn_zone_to_civil(zone, at_s, &local);
    fuzz_require(qn_civil_to_seconds(&local) == at_s + offset_s);
    int64_t back_s = qn_zone_from_civil(zone, &local);
    fuzz_require(back_s > at_s - 2 * OFFSET_S_MAX && back_s < at_s + 2 * OFFSET_S_MAX);
}

static void try_search(const struct qn_zone *zone, int64_t at_s)
{
    static const char *const texts[] = {"0 0 30 2 *", "30 2 * * *", "0 0 1 1 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct qn_cron cron;
        int64_t next_ms;
        fuzz_require(qn_cron_parse(texts[i], 0, &cron, NULL) == QUERN_OK);
        if (qn_cron_next(&cron, zone, at_s * 1000, &next_ms)) {
            fuzz_require(next_ms > at_s * 1000 && next_ms <= QN_MOMENT_MS_MAX);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t moments_s[] = {
        -QN_MOMENT_MS_MAX / 1000, -1, 0, 946684800, 1792800000, 4102444800,
        QN_MOMENT_MS_MAX / 1000};
    struct qn_zone *zone = NULL;
    quern_error err = {0};
    /* In memory of exactly its size, so that the sanitizer sees a byte read behind it. */
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    fuzz_require(copy != NULL);
    memcpy(copy, data, size);
    quern_status status = qn_zone_parse((struct qn_bytes){.data = copy, .size = size}, &zone, &err);
    if (status != QUERN_OK) {
        fuzz_require(status == QUERN_E_CORRUPT && err.text[0] != '\0' && zone == NULL);
    } else {
        for (size_t i = 0; i < sizeof moments_s / sizeof *moments_s; i++) {
            try_moment(zone, moments_s[i]);
            try_search(zone, moments_s[i]);
        }
        qn_zone_free(zone);
    }
    free(copy);
    return 0;
}
