/* SPDX-License-Identifier: MIT */
/* deaths.c - charges a run with the death of its process, and decides what happens to its task.
 *
 * A run that had not started goes back as if it had never been leased. One that had started and
 * whose task has no attempts left is archived, whether it is charged or not, since it may have done
 * its work. */
#include "broker/sqlite/queue/deaths.h"

#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/text/number.h"
#include "broker/sqlite/queue/deaths_sql.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/store/query.h"
#include "task/deaths.h"
#include "task/past_runs.h"

#define TEXT_SIZE (QN_ERROR_TEXT_SIZE_MAX + 100)

/* The new values of the row. */
struct fate {
    struct qn_deaths deaths;
    quern_task_state state;
    int64_t at_ms;
    const char *error;
    bool is_spent;
    bool is_unique;
    int32_t unique_until;
    qn_past_runs_text runs; /* "": as they were */
};

static void note_run(const struct qn_queue_counters *counters, const struct qn_end *end,
                     const struct qn_query *query, struct fate *fate)
{
    fate->runs[0] = '\0';
    if (end->run.size > 0) {
        const char *text = qn_query_column_text(query, 9);
        qn_past_runs_add(counters->now_ms, end->run, (struct qn_bytes){text, strlen(text)},
                         fate->runs);
    }
}

static quern_status read_task(struct qn_queue_counters *counters, const struct qn_end *end,
                              struct fate *fate, bool *ret_held, quern_error *err)
{
    struct qn_query query = qn_query_start(counters->conn, sql_death_read);
    qn_query_int(&query, end->seq);
    qn_query_int(&query, (int64_t)end->token);
    *ret_held = qn_query_row(&query);
    if (*ret_held) {
        fate->deaths = (struct qn_deaths){
            .charges = qn_query_column_sane(&query, 0),
            .lone = qn_query_column_sane(&query, 1),
            .level = qn_number_clamp(qn_query_column_sane(&query, 8), 0, QN_ALONE_CHARGES),
            .life_ms = qn_query_column_sane(&query, 2),
            .first_at_ms = qn_query_column_sane(&query, 3),
            .died_at_ms = qn_query_column_sane(&query, 4)};
        fate->is_unique = sqlite3_column_int(query.statement, 6) != 0;
        fate->unique_until = sqlite3_column_int(query.statement, 7);
        bool is_spent = end->is_spent || sqlite3_column_int(query.statement, 5) != 0;
        fate->is_spent = is_spent && !QN_BUG(SPENT_RUN_AGAIN);
        note_run(counters, end, &query, fate);
    }
    return qn_query_finish(&query, err);
}

static quern_status write_task(struct qn_queue_counters *counters, const struct qn_end *end,
                               const struct fate *fate, quern_error *err)
{
    struct qn_query query = qn_query_start(counters->conn, sql_death_write);
    qn_query_int(&query, end->seq);
    qn_query_int(&query, fate->state);
    qn_query_int(&query, fate->at_ms);
    qn_query_int(&query, end->cause);
    qn_query_text(&query, fate->error);
    qn_query_int(&query, counters->now_ms);
    qn_query_int(&query, fate->deaths.charges);
    qn_query_int(&query, fate->deaths.lone);
    qn_query_int(&query, fate->deaths.life_ms);
    qn_query_int(&query, fate->deaths.first_at_ms);
    qn_query_int(&query, fate->deaths.died_at_ms);
    qn_query_int(&query, counters->shift_ms);
    qn_query_int(&query, end->started ? 1 : 0);
    qn_query_int(&query, fate->deaths.level);
    qn_query_text(&query, fate->runs[0] != '\0' ? fate->runs : NULL);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK || !fate->is_unique) {
        return status;
    }
    if (fate->state == QUERN_TASK_ARCHIVED) {
        return qn_locks_archived(counters->conn, end->seq, fate->unique_until, counters->now_ms,
                                 err);
    }
    int64_t at_ms = fate->state == QUERN_TASK_RETRY ? fate->at_ms : counters->now_ms;
    return qn_locks_waits(counters->conn, end->seq, at_ms, counters->now_ms, err);
}

static void archive(struct fate *fate, int64_t now_ms, const char *text)
{
    fate->state = QUERN_TASK_ARCHIVED;
    fate->at_ms = now_ms;
    fate->error = text;
}

static void charge(const struct qn_queue_counters *counters, const struct qn_end *end,
                   struct fate *fate, char text[TEXT_SIZE])
{
    const struct qn_death death = {.now_ms = counters->now_ms,
                                   .started_at_ms = end->started_at_ms,
                                   .seen_at_ms = end->seen_at_ms,
                                   .ok_at_ms = end->ok_at_ms,
                                   .is_lone = end->is_lone || QN_BUG(SHARED_IS_LONE),
                                   .is_child = end->is_child,
                                   .is_spent = fate->is_spent};
    const char *last = end->error != NULL ? end->error : quern_cause_name(end->cause);
    int64_t delay_ms = 0;
    switch (qn_deaths_charge(&fate->deaths, &death, &delay_ms)) {
    case QN_DEATH_BACK:
        break;
    case QN_DEATH_RETRY:
        fate->state = QUERN_TASK_RETRY;
        fate->at_ms = counters->now_ms + delay_ms;
        break;
    case QN_DEATH_SPENT:
        (void)snprintf(text, TEXT_SIZE, "no attempts left: %s", last);
        archive(fate, counters->now_ms, text);
        break;
    case QN_DEATH_POISON:
        (void)snprintf(text, TEXT_SIZE, "poison: %lld deaths, %lld of them alone; the last: %s",
                       (long long)fate->deaths.charges, (long long)fate->deaths.lone, last);
        archive(fate, counters->now_ms, text);
        break;
    }
}

static quern_status count_fate(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                               const struct fate *fate, quern_error *err)
{
    qn_queue_counters_free_place(counters, queue);
    if (fate->state == QUERN_TASK_ARCHIVED) {
        queue->processed++;
        queue->failed++;
        queue->changed = true;
    } else if (fate->state == QUERN_TASK_RETRY) {
        return qn_queue_counters_due(counters, queue, fate->at_ms, err);
    } else {
        counters->wake = true;
    }
    return QUERN_OK;
}

quern_status qn_deaths_end(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                           const struct qn_end *end, struct qn_ended *ret_ended, quern_error *err)
{
    struct fate fate = {.state = QUERN_TASK_PENDING, .error = end->error};
    *ret_ended = (struct qn_ended){0};
    quern_status status = read_task(counters, end, &fate, &ret_ended->held, err);
    if (status != QUERN_OK || !ret_ended->held) {
        return status;
    }
    bool started = end->started || QN_BUG(UNSTARTED_CHARGED);
    char text[TEXT_SIZE];
    ret_ended->charged = started && end->is_death;
    if (ret_ended->charged) {
        charge(counters, end, &fate, text);
    } else if (started && fate.is_spent) {
        (void)snprintf(text, sizeof text, "no attempts left: %s", quern_cause_name(end->cause));
        archive(&fate, counters->now_ms, text);
    }
    ret_ended->archived = fate.state == QUERN_TASK_ARCHIVED;
    status = count_fate(counters, queue, &fate, err);
    if (status == QUERN_OK) {
        status = write_task(counters, end, &fate, err);
    }
    return status;
}
