/* SPDX-License-Identifier: MIT */
/* limits.c - the checks of what a queue has for its limits (doctor_limits.lua): the limits
 * themselves, lanes and counted runs, page by page.
 *
 * Tasks that wait aside and are not in their lane are found with the entries of `scheduled`
 * (containers.c), which comes first. */
#include "base/error.h"
#include "base/text/str.h"
#include "broker/redis/doctor/doctor.h"
#include "broker/redis/doctor/doctor_limits_lua.h"
#include "broker/redis/schema/keys.h"

#define PAGE_SIZE 128
#define PAGES_MAX 20000 /* of each part; the rest is reported by the next check */
#define FIRST_FINDING 2
#define FINDING_ITEMS 3

static quern_status keep_all(struct qn_redis_doctor *doctor, const char *queue,
                             const struct qn_reply *page, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = FIRST_FINDING; status == QUERN_OK && i + FINDING_ITEMS <= page->count;
         i += FINDING_ITEMS) {
        const quern_finding finding = {.invariant = qn_reply_text(qn_reply_at(page, i)),
                                       .queue = queue,
                                       .id = qn_reply_text(qn_reply_at(page, i + 1)),
                                       .text = qn_reply_text(qn_reply_at(page, i + 2)),
                                       .repaired = doctor->repair};
        status = qn_redis_findings_keep(&doctor->findings, &finding, err);
    }
    return status;
}

/* *cursor lives in the arena of the step, and is empty at the end. */
static quern_status check_page(struct qn_redis_doctor *doctor, const char *queue, const char *what,
                               struct qn_str *cursor, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *page;
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST,
                   doctor->repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_doctor_limits, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, queue);
    qn_pipeline_text(&pipeline, doctor->repair ? "1" : "0");
    qn_pipeline_text(&pipeline, what);
    qn_pipeline_bytes(&pipeline, cursor->data, cursor->size);
    qn_pipeline_int(&pipeline, PAGE_SIZE);
    quern_status status = qn_pipeline_ask(&pipeline, &page, err);
    if (status == QUERN_OK) {
        status = keep_all(doctor, queue, page, err);
    }
    if (status == QUERN_OK) {
        const struct qn_reply *next = qn_reply_at(page, 0);
        qn_arena_reset(&doctor->page);
        cursor->data = qn_arena_copy(&doctor->page, next->data, next->size);
        cursor->size = next->size;
        status = cursor->data == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_limits_check(struct qn_redis_doctor *doctor,
                                   const struct qn_checked_queue *queue, quern_error *err)
{
    static const char *const parts[] = {"set", "lanes", "runs", "lease"};
    quern_status status = QUERN_OK;
    for (size_t i = 0;
         status == QUERN_OK && queue->has_limits && i < sizeof parts / sizeof parts[0]; i++) {
        struct qn_str cursor = {"", 0};
        for (int pages = 0; status == QUERN_OK && pages < PAGES_MAX; pages++) {
            status = check_page(doctor, queue->name, parts[i], &cursor, err);
            qn_redis_findings_report(&doctor->findings);
            if (cursor.size == 0) {
                break;
            }
        }
    }
    qn_arena_reset(&doctor->page);
    return status == QUERN_E_CORRUPT ? QUERN_OK : status; /* of the wrong type: reported already */
}
