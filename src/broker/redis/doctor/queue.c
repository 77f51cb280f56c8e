/* SPDX-License-Identifier: MIT */
/* queue.c - the checks of a queue as a whole: its types, counters, groups (doctor_queue.lua), and
 * tasks that are late although a worker of ours serves them. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/doctor/doctor.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"

#include "base/text/plural.h"
#include "broker/redis/doctor/doctor_queue_lua.h"

#define UPKEEP_STEP 100
#define UPKEEP_STEPS_MAX 10000 /* the rest is reported by the next check */
#define TEXT_SIZE 400
#define FINDING_ITEMS 3

/* The first item of the script's reply. */
struct counts {
    int64_t pending;
    int64_t aggregating;
    int64_t lapsed;
    int64_t overdue;
    int64_t overkept;
    int64_t archived;
    int64_t corrupt;
};

/* workers: ids and records of those that serve the queue. */
static bool is_served(const struct qn_redis_doctor *doctor, const struct qn_reply *workers)
{
    for (size_t i = 0; i + 1 < workers->count; i += 2) {
        const struct qn_reply *id = qn_reply_at(workers, i);
        if (id->type == QN_REPLY_TEXT && qn_id_set_has(&doctor->living, id->data, id->size)) {
            return true;
        }
    }
    return false;
}

static quern_status ask_queue(struct qn_pipeline *pipeline, const struct qn_redis_doctor *doctor,
                              const struct qn_checked_queue *queue, quern_error *err)
{
    qn_pipeline_script(pipeline, &qn_lua_doctor_queue, 1);
    qn_pipeline_limit(pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(pipeline, queue->name);
    qn_pipeline_text(pipeline, doctor->repair ? "1" : "0");
    qn_pipeline_uint(pipeline, queue->token / 1000);
    qn_pipeline_uint(pipeline, queue->group_count);
    for (const struct qn_checked_group *one = queue->groups; one != NULL; one = one->next) {
        qn_pipeline_text(pipeline, one->container + 2);
    }
    for (int64_t day = 0; day <= QN_HISTORY_DAYS; day++) {
        char date[QN_DATE_SIZE];
        qn_redis_inspect_date(doctor->now_ms - day * QN_DAY_MS, date);
        qn_pipeline_text(pipeline, qn_arena_strdup(pipeline->arena, date));
    }
    qn_pipeline_command(pipeline, "HGETALL");
    qn_keys_add(pipeline, queue->name, QN_KEY_HOLDERS);
    return qn_pipeline_run(pipeline, err);
}

static quern_status read_counts(struct qn_redis_doctor *doctor,
                                const struct qn_checked_queue *queue, const struct qn_reply *reply,
                                struct counts *ret_counts, quern_error *err)
{
    quern_status status = QUERN_OK;
    const struct qn_reply *numbers = qn_reply_at(reply, 0);
    *ret_counts = (struct counts){.pending = qn_reply_int(qn_reply_at(numbers, 0), 0),
                                  .aggregating = qn_reply_int(qn_reply_at(numbers, 1), 0),
                                  .lapsed = qn_reply_int(qn_reply_at(numbers, 2), 0),
                                  .overdue = qn_reply_int(qn_reply_at(numbers, 3), 0),
                                  .overkept = qn_reply_int(qn_reply_at(numbers, 4), 0),
                                  .archived = qn_reply_int(qn_reply_at(numbers, 5), 0),
                                  .corrupt = qn_reply_int(qn_reply_at(numbers, 6), 0)};
    for (size_t i = 1; status == QUERN_OK && i + FINDING_ITEMS <= reply->count;
         i += FINDING_ITEMS) {
        const quern_finding finding = {.invariant = qn_reply_text(qn_reply_at(reply, i)),
                                       .queue = queue->name,
                                       .text = qn_reply_text(qn_reply_at(reply, i + 1)),
                                       .repaired = qn_reply_int(qn_reply_at(reply, i + 2), 0) == 1};
        status = qn_redis_findings_keep(&doctor->findings, &finding, err);
    }
    return status;
}

static quern_status check_counts(struct qn_redis_doctor *doctor, struct qn_checked_queue *queue,
                                 struct counts *ret_counts, quern_error *err)
{
    const struct qn_reply *reply;
    const struct qn_reply *workers;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST,
                   doctor->repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    quern_status status = ask_queue(&pipeline, doctor, queue, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(&pipeline, 0, &reply, err);
    }
    if (status == QUERN_OK) {
        queue->has_limits = qn_reply_int(qn_reply_at(qn_reply_at(reply, 0), 7), 0) > 0;
        status = read_counts(doctor, queue, reply, ret_counts, err);
    }
    if (status == QUERN_OK && qn_pipeline_reply(&pipeline, 1, &workers, NULL) == QUERN_OK) {
        queue->served = is_served(doctor, workers);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- Late tasks -------------------------------------------------------------------------- */

static quern_status recover(struct qn_redis_doctor *doctor, const char *queue, size_t *ret_done,
                            quern_error *err)
{
    size_t step = UPKEEP_STEP;
    quern_status status = QUERN_OK;
    *ret_done = 0;
    for (int i = 0; status == QUERN_OK && step == UPKEEP_STEP && i < UPKEEP_STEPS_MAX; i++) {
        status = qn_redis_recover(&doctor->self->base, (struct qn_upkeep){{&queue, 1}, UPKEEP_STEP},
                                  NULL, &step, err);
        *ret_done += status == QUERN_OK ? step : 0;
    }
    return status;
}

static quern_status forward(struct qn_redis_doctor *doctor, const char *queue, size_t *ret_done,
                            quern_error *err)
{
    size_t step = UPKEEP_STEP;
    int64_t next_due_at_ms;
    quern_status status = QUERN_OK;
    *ret_done = 0;
    for (int i = 0; status == QUERN_OK && step == UPKEEP_STEP && i < UPKEEP_STEPS_MAX; i++) {
        status = qn_redis_forward(&doctor->self->base, (struct qn_upkeep){{&queue, 1}, UPKEEP_STEP},
                                  &step, &next_due_at_ms, err);
        *ret_done += status == QUERN_OK ? step : 0;
    }
    return status;
}

/* The text about one, and about more. */
struct words {
    const char *one;
    const char *more;
};

static void count_in_words(int64_t count, const struct words *words, char *text, size_t size)
{
    (void)snprintf(text, size, "%lld %s", (long long)count,
                   qn_plural((uint64_t)count, words->one, words->more));
}

/* Tasks of a queue that are late. */
struct lateness {
    int64_t count;
    struct words words;
    /* Repairs it; NULL: it is left to a worker. */
    quern_status (*upkeep)(struct qn_redis_doctor *doctor, const char *queue, size_t *ret_done,
                           quern_error *err);
};

static quern_status keep_late(struct qn_redis_doctor *doctor, const struct qn_checked_queue *queue,
                              const struct lateness *late, quern_error *err)
{
    size_t done = 0;
    char text[TEXT_SIZE];
    if (late->count == 0 || !queue->served) {
        return QUERN_OK;
    }
    quern_status status = QUERN_OK;
    if (doctor->repair && late->upkeep != NULL) {
        status = late->upkeep(doctor, queue->name, &done, err);
        status = status == QUERN_E_CORRUPT ? QUERN_OK : status; /* reported separately */
    }
    if (status == QUERN_OK) {
        count_in_words(late->count, &late->words, text, sizeof text);
        const quern_finding finding = {
            .invariant = "I8", .queue = queue->name, .text = text, .repaired = done > 0};
        status = qn_redis_findings_keep(&doctor->findings, &finding, err);
    }
    return status;
}

static quern_status keep_lateness(struct qn_redis_doctor *doctor,
                                  const struct qn_checked_queue *queue, const struct counts *counts,
                                  quern_error *err)
{
    const struct lateness all[] = {
        {counts->lapsed,
         {"lease has expired, and its task is not recovered",
          "leases have expired, and their tasks are not recovered"},
         recover},
        {counts->overdue,
         {"task is due and not pending", "tasks are due and not pending"},
         forward},
        {counts->overkept,
         {"completed task is past its retention", "completed tasks are past their retention"},
         NULL},
    };
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < sizeof all / sizeof all[0]; i++) {
        status = keep_late(doctor, queue, &all[i], err);
    }
    if (status == QUERN_OK && queue->served && counts->archived > QN_ARCHIVE_SIZE_MAX) {
        char text[TEXT_SIZE];
        (void)snprintf(text, sizeof text, "the archive holds %lld tasks, its limit is %d",
                       (long long)counts->archived, QN_ARCHIVE_SIZE_MAX);
        const quern_finding finding = {.invariant = "I8", .queue = queue->name, .text = text};
        status = qn_redis_findings_keep(&doctor->findings, &finding, err);
    }
    return status;
}

static quern_status keep_notes(struct qn_redis_doctor *doctor, const struct qn_checked_queue *queue,
                               const struct counts *counts, quern_error *err)
{
    const struct {
        bool holds;
        int64_t count;
        struct words words;
    } notes[] = {
        {!queue->fetched,
         counts->pending,
         {"task is pending, and no worker serves the queue",
          "tasks are pending, and no worker serves the queue"}},
        {true,
         counts->aggregating,
         {"task is aggregating; only a worker with an aggregator takes it; or run it",
          "tasks are aggregating; only a worker with an aggregator takes them; or run them"}},
        {true,
         counts->corrupt,
         {"message that could not be read is kept in quern:corrupt",
          "messages that could not be read are kept in quern:corrupt"}},
    };
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < sizeof notes / sizeof notes[0]; i++) {
        if (notes[i].holds && notes[i].count > 0) {
            char text[TEXT_SIZE];
            count_in_words(notes[i].count, &notes[i].words, text, sizeof text);
            const quern_finding finding = {.invariant = "note", .queue = queue->name, .text = text};
            status = qn_redis_findings_keep(&doctor->findings, &finding, err);
        }
    }
    return status;
}

/* --- The list of queues ---------------------------------------------------------------------- */

static quern_status list_again(struct qn_redis_doctor *doctor, const char *queue, quern_error *err)
{
    const struct qn_reply *reply;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_command(&pipeline, "SADD");
    qn_pipeline_text(&pipeline, QN_KEY_QUEUES);
    qn_pipeline_text(&pipeline, queue);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_queue_check(struct qn_redis_doctor *doctor, struct qn_checked_queue *queue,
                                  quern_error *err)
{
    struct counts counts = {0};
    quern_status status = QUERN_OK;
    bool listed = queue->listed || doctor->lists_no_queues;
    if (!listed && !queue->has_tasks) {
        const quern_finding finding = {.invariant = "note",
                                       .queue = queue->name,
                                       .text =
                                           "was removed; some of its keys without tasks are left"};
        return qn_redis_findings_keep(&doctor->findings, &finding, err);
    }
    if (!listed) {
        status = doctor->repair ? list_again(doctor, queue->name, err) : QUERN_OK;
        if (status == QUERN_OK) {
            const quern_finding finding = {.invariant = "I6",
                                           .queue = queue->name,
                                           .text = "it has tasks, but is not in asynq:queues",
                                           .repaired = doctor->repair};
            status = qn_redis_findings_keep(&doctor->findings, &finding, err);
        }
    }
    if (status == QUERN_OK) {
        status = check_counts(doctor, queue, &counts, err);
    }
    if (status == QUERN_OK) {
        status = keep_lateness(doctor, queue, &counts, err);
    }
    return status == QUERN_OK ? keep_notes(doctor, queue, &counts, err) : status;
}
