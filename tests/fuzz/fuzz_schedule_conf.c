/* SPDX-License-Identifier: MIT */
/* fuzz_schedule_conf.c - any bytes as schedule.conf: each section is an entry that a scheduler can
 * plan, or a fault with a line of the file and a text that a terminal can show. */
#include <string.h>

#include "base/text/str.h"
#include "base/text/utf8.h"
#include "lib_fuzz.h"
#include "schedule/conf.h"

#define NOW_MS INT64_C(1795000000000)

static struct qn_plan plan;

static void check_entry(const struct qn_schedule_entry *entry, struct qn_zones *zones)
{
    struct qn_entry_clock clock;
    fuzz_require(qn_schedule_check_name(entry->name, NULL) == QUERN_OK);
    fuzz_require(qn_entry_read_clock(entry, zones, &clock, NULL) == QUERN_OK);
    fuzz_require(entry->task.type != NULL && entry->task.queue != NULL && entry->task.id == NULL);
    struct qn_plan_terms terms = qn_entry_plan_terms(entry, &clock);
    terms.last_s = NOW_MS / 1000 - 100000;
    qn_plan_make(&terms, NOW_MS, &plan);
    fuzz_require(plan.count <= QN_PLAN_TICKS_MAX && plan.missed <= plan.count);
    fuzz_require(plan.last_s >= terms.last_s && plan.last_s <= NOW_MS / 1000);
}

static void check_faults(const struct qn_conf *conf, size_t line_count)
{
    size_t line = 1;
    for (size_t i = 0; i < conf->fault_count; i++) {
        const struct qn_conf_fault *fault = &conf->faults[i];
        fuzz_require(fault->line >= line && fault->line <= line_count);
        fuzz_require(fault->name[0] == '\0' || qn_str_is_plain(fault->name));
        fuzz_require(fault->text[0] != '\0' && !qn_str_has_control(fault->text) &&
                     qn_utf8_valid(fault->text, strlen(fault->text)));
        line = fault->line;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qn_zones zones;
    struct qn_conf conf;
    quern_error err = {0};
    size_t line_count = 1;
    for (size_t i = 0; i < size; i++) {
        line_count += data[i] == '\n';
    }
    fuzz_require(qn_zones_init(&zones, "/nonexistent", NULL) == QUERN_OK); /* UTC only */
    const struct qn_conf_terms terms = {.origin = "file:x", .zones = &zones, .now_ms = NOW_MS};
    quern_status status =
        qn_conf_parse((struct qn_bytes){.data = data, .size = size}, &terms, &conf, &err);
    fuzz_require(status == QUERN_OK || status == QUERN_E_INVALID);
    if (status == QUERN_OK) {
        for (size_t i = 0; i < conf.entry_count && i < 8; i++) {
            check_entry(&conf.entries[i], &zones);
        }
        check_faults(&conf, line_count);
        qn_conf_finish(&conf);
    }
    qn_zones_finish(&zones);
    return 0;
}
