/* SPDX-License-Identifier: MIT */
/* doctor_entries.c - functions for the statements that check the entries of schedules. */
#include <string.h>

#include "broker/schedule/schedule.h"
#include "broker/schedule/template.h"
#include "broker/sqlite/doctor/doctor.h"
#include "task/cron/cron.h"

#define DUE_S 60 /* a change of leader takes less */

static const char *text_of(sqlite3_value *value)
{
    const unsigned char *text = sqlite3_value_text(value);
    return text == NULL ? "" : (const char *)text;
}

/* Of a name and a task. */
void qn_doctor_entries_whole(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    struct qn_arena arena = {0};
    struct qn_task task;
    const struct qn_bytes bytes = {.data = sqlite3_value_blob(values[1]),
                                   .size = (size_t)sqlite3_value_bytes(values[1])};
    bool is_whole = qn_schedule_check_name(text_of(values[0]), NULL) == QUERN_OK &&
                    qn_template_decode(&arena, bytes, &task, NULL) != QUERN_E_CORRUPT;
    qn_arena_finish(&arena);
    sqlite3_result_int(context, is_whole);
}

/* Whether a tick is due for a minute. One whose expression or zone cannot be read has none. */
static bool is_due(struct qn_zones *zones, const char *texts[2], bool with_seconds, int64_t last_s,
                   int64_t now_s)
{
    struct qn_cron cron;
    const struct qn_zone *zone = NULL;
    int64_t next_ms = 0;
    if (qn_cron_parse(texts[0], with_seconds ? QN_CRON_SECONDS : 0, &cron, NULL) != QUERN_OK) {
        return false;
    }
    const char *name = texts[1][0] != '\0' ? texts[1] : cron.zone;
    if (name[0] != '\0' && qn_zones_get(zones, name, &zone, NULL) != QUERN_OK) {
        return false;
    }
    return qn_cron_next(&cron, zone, last_s * 1000, &next_ms) && next_ms / 1000 <= now_s - DUE_S;
}

/* Of a cron expression, a zone, whether it has seconds, the last tick, and now in ms. */
void qn_doctor_entries_due(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    struct qn_sqlite_doctor *doctor = sqlite3_user_data(context);
    const char *texts[2] = {text_of(values[0]), text_of(values[1])};
    int64_t now_s = sqlite3_value_int64(values[4]) / 1000;
    int64_t last_s = sqlite3_value_int64(values[3]);
    bool is_sane = last_s >= 0 && last_s <= now_s;
    sqlite3_result_int(
        context,
        is_sane && is_due(&doctor->zones, texts, sqlite3_value_int(values[2]) != 0, last_s, now_s));
}
