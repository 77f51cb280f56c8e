/* SPDX-License-Identifier: MIT */
/* trash.c - the check of the trash of a queue (doctor_trash.lua), page by page.
 *
 * What it does not find is a hash that no entry names: such a one goes by itself after a day. */
#include "base/error.h"
#include "broker/redis/doctor/doctor.h"
#include "broker/redis/doctor/doctor_trash_lua.h"
#include "broker/redis/schema/keys.h"

#define PAGE_SIZE 200
#define PAGES_MAX 20000 /* the rest is reported by the next check */
#define FIRST_FINDING 3
#define FINDING_ITEMS 3

/* What one page hands to the next; in the arena of the step. */
struct position {
    const char *rank;
    const char *sum;
    const char *bytes;
};

static quern_status keep_all(struct qn_redis_doctor *doctor, const char *queue,
                             const struct qn_reply *page, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = FIRST_FINDING; status == QUERN_OK && i + FINDING_ITEMS <= page->count;
         i += FINDING_ITEMS) {
        const quern_finding finding = {.invariant = "I11",
                                       .queue = queue,
                                       .id = qn_reply_text(qn_reply_at(page, i)),
                                       .text = qn_reply_text(qn_reply_at(page, i + 1)),
                                       .repaired = qn_reply_int(qn_reply_at(page, i + 2), 0) == 1};
        status = qn_redis_findings_keep(&doctor->findings, &finding, err);
    }
    return status;
}

static quern_status keep_position(struct qn_redis_doctor *doctor, const struct qn_reply *page,
                                  struct position *ret_position, quern_error *err)
{
    qn_arena_reset(&doctor->page);
    const struct position next = {
        qn_arena_strdup(&doctor->page, qn_reply_text(qn_reply_at(page, 0))),
        qn_arena_strdup(&doctor->page, qn_reply_text(qn_reply_at(page, 1))),
        qn_arena_strdup(&doctor->page, qn_reply_text(qn_reply_at(page, 2)))};
    if (next.rank == NULL || next.sum == NULL || next.bytes == NULL) {
        return qn_error_nomem(err);
    }
    *ret_position = next;
    return QUERN_OK;
}

static quern_status check_page(struct qn_redis_doctor *doctor, const char *queue,
                               struct position *position, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *page;
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST,
                   doctor->repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_doctor_trash, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, queue);
    qn_pipeline_text(&pipeline, doctor->repair ? "1" : "0");
    qn_pipeline_text(&pipeline, position->rank);
    qn_pipeline_int(&pipeline, PAGE_SIZE);
    qn_pipeline_text(&pipeline, position->sum);
    qn_pipeline_text(&pipeline, position->bytes);
    quern_status status = qn_pipeline_ask(&pipeline, &page, err);
    if (status == QUERN_OK) {
        status = keep_all(doctor, queue, page, err);
    }
    if (status == QUERN_OK) {
        status = keep_position(doctor, page, position, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_trash_check(struct qn_redis_doctor *doctor,
                                  const struct qn_checked_queue *queue, quern_error *err)
{
    struct position position = {"0", "0", ""};
    quern_status status = QUERN_OK;
    for (int pages = 0; status == QUERN_OK && position.rank[0] != '\0' && pages < PAGES_MAX;
         pages++) {
        status = check_page(doctor, queue->name, &position, err);
        qn_redis_findings_report(&doctor->findings);
    }
    qn_arena_reset(&doctor->page);
    return status == QUERN_E_CORRUPT ? QUERN_OK : status; /* of the wrong type: reported already */
}
