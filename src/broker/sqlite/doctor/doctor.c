/* SPDX-License-Identifier: MIT */
/* doctor.c - checks the invariants of docs/internals/invariants.md on the live data.
 *
 * The file itself comes first: if its pages are damaged, nothing is repaired, since writing could
 * make it worse. Then the rules are checked, one after the other, each on its own. A repair may
 * help the next rule (a queue that is created again, a task that has an owner again), so the order
 * matters. Rows that broke a constraint are checked once more at the end, when the rules have
 * repaired them.
 *
 * If you add a rule: its statements in doctor.sql, a line here, docs/internals/invariants.md, a
 * planted damage in tests/contract/doctor/test_doctor.c. */
#include "broker/sqlite/doctor/doctor.h"

#include "base/error.h"
#include "broker/sqlite/doctor/doctor_sql.h"
#include "broker/sqlite/doctor/doctor_trash_sql.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/queue/meter_sql.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/upkeep/redate.h"
#include "broker/sqlite/wake/waiters.h"

#define UPKEEP_STEP 100

static quern_status recover(struct qn_sqlite_doctor *doctor, const char *queue, size_t *ret_done,
                            quern_error *err)
{
    size_t step = UPKEEP_STEP;
    quern_status status = QUERN_OK;
    *ret_done = 0;
    while (status == QUERN_OK && step == UPKEEP_STEP) {
        status = qn_sqlite_recover(&doctor->self->base,
                                   (struct qn_upkeep){{&queue, 1}, UPKEEP_STEP}, NULL, &step, err);
        *ret_done += status == QUERN_OK ? step : 0;
    }
    return status;
}

static quern_status forward(struct qn_sqlite_doctor *doctor, const char *queue, size_t *ret_done,
                            quern_error *err)
{
    size_t step = UPKEEP_STEP;
    int64_t next_due_at_ms = 0;
    quern_status status = QUERN_OK;
    *ret_done = 0;
    while (status == QUERN_OK && step == UPKEEP_STEP) {
        status =
            qn_sqlite_forward(&doctor->self->base, (struct qn_upkeep){{&queue, 1}, UPKEEP_STEP},
                              &step, &next_due_at_ms, err);
        *ret_done += status == QUERN_OK ? step : 0;
    }
    return status;
}

static quern_status redate(struct qn_sqlite_doctor *doctor, const char *queue, size_t *ret_done,
                           quern_error *err)
{
    (void)queue; /* of all queues */
    bool more = true;
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && more) {
        status = qn_sqlite_redate(doctor->self, &more, err);
    }
    *ret_done = status == QUERN_OK ? 1 : 0;
    return status;
}

static const struct qn_rule rules[] = {
    {"I9", QUERN_SEVERITY_VIOLATED, sql_find_wrong_version, NULL, NULL},
    {"I7", QUERN_SEVERITY_VIOLATED, sql_find_wrong_counter, sql_repair_wrong_counter, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_missing_queue, sql_repair_missing_queue, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_stray_entry, sql_repair_missing_queue, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_stray_tick, sql_repair_stray_tick, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_stray_day, sql_repair_stray_day, NULL},
    {"I5", QUERN_SEVERITY_VIOLATED, sql_find_wrong_day, sql_repair_wrong_day, NULL},
    {"I5", QUERN_SEVERITY_VIOLATED, sql_find_wrong_total, sql_repair_wrong_total, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_wrong_limits, sql_meter_kinds_note, NULL},
    {"I7", QUERN_SEVERITY_VIOLATED, sql_find_wrong_counts, sql_repair_wrong_counts, NULL},
    {"I7", QUERN_SEVERITY_VIOLATED, sql_find_wrong_brake, sql_repair_wrong_brake, NULL},
    {"I7", QUERN_SEVERITY_VIOLATED, sql_find_wrong_solo, sql_repair_wrong_solo, NULL},
    {"I11", QUERN_SEVERITY_VIOLATED, sql_find_stray_trash, sql_repair_stray_trash, NULL},
    {"I11", QUERN_SEVERITY_VIOLATED, sql_find_unlisted_trash, sql_repair_unlisted_trash, NULL},
    {"I11", QUERN_SEVERITY_VIOLATED, sql_find_overlong_trash, sql_repair_overlong_trash, NULL},
    {"I11", QUERN_SEVERITY_VIOLATED, sql_find_wrong_trash_use, sql_repair_wrong_trash_use, NULL},
    {"I1", QUERN_SEVERITY_VIOLATED, sql_find_wrong_state, sql_repair_wrong_state, NULL},
    {"I2", QUERN_SEVERITY_VIOLATED, sql_find_wrong_name, NULL, NULL},
    {"I2", QUERN_SEVERITY_VIOLATED, sql_find_damaged_headers, NULL, NULL},
    {"I3", QUERN_SEVERITY_VIOLATED, sql_find_no_owner, sql_repair_no_owner, NULL},
    {"I3", QUERN_SEVERITY_VIOLATED, sql_find_idle_lease, sql_repair_idle_lease, NULL},
    {"I7", QUERN_SEVERITY_VIOLATED, sql_find_same_token, sql_repair_same_token, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_no_group, sql_repair_no_group, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_wrong_lane, sql_repair_wrong_lane, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_no_set, sql_repair_no_set, NULL},
    {"I6", QUERN_SEVERITY_VIOLATED, sql_find_empty_set, sql_repair_empty_set, NULL},
    {"I4", QUERN_SEVERITY_VIOLATED, sql_find_stray_lock, sql_repair_stray_lock, NULL},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_past_lock, sql_repair_past_lock, NULL},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_lapsed, NULL, recover},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_lapsed_set, NULL, NULL},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_overdue, NULL, forward},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_misdated, NULL, redate},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_failed_later, sql_repair_failed_later, NULL},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_overkept, NULL, NULL},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_full_archive, NULL, NULL},
    {"I10", QUERN_SEVERITY_VIOLATED, sql_find_damaged_entry, NULL, NULL},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_entry_ahead, NULL, NULL},
    {"I8", QUERN_SEVERITY_WARNING, sql_find_no_leader, NULL, NULL},
    {"note", QUERN_SEVERITY_NOTE, sql_find_unserved, NULL, NULL},
    {"note", QUERN_SEVERITY_NOTE, sql_find_no_aggregator, NULL, NULL},
    {"note", QUERN_SEVERITY_NOTE, sql_find_other_tables, NULL, NULL},
};

static quern_status read_leases_over(struct qn_sqlite_doctor *doctor, quern_error *err)
{
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(doctor->self, &conn, err);
    if (status == QUERN_OK) {
        status = qn_sqlite_tasks_leases_over(doctor->self, conn, &doctor->leases_over_ms, err);
        qn_transaction_read_end(doctor->self);
    }
    return status;
}

quern_status qn_sqlite_doctor(struct qn_broker *broker, bool repair,
                              void (*on_finding)(const quern_finding *finding, void *user),
                              void *user, quern_error *err)
{
    struct qn_sqlite_doctor doctor = {.self = qn_sqlite_of(broker),
                                      .on_finding = on_finding,
                                      .user = user,
                                      .now_ms = qn_clock_wall_ms(broker->clock)};
    bool safe = false;
    bool rows = false;
    quern_status status = qn_sqlite_integrity_check(&doctor, !repair, &safe, &rows, err);
    if (status == QUERN_OK) {
        status = qn_sqlite_schema_compare(&doctor, err);
    }
    if (status == QUERN_OK) {
        status = read_leases_over(&doctor, err);
    }
    if (status == QUERN_OK) {
        /* If they cannot be read, the rules about them report nothing. */
        status = qn_served_read(&doctor.served, doctor.self, NULL) == QUERN_E_NOMEM
                     ? qn_error_nomem(err)
                     : QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = qn_zones_init(&doctor.zones, NULL, err);
    }
    int64_t shift_ms = qn_delay_clock_shift_ms(doctor.self, &doctor.now_ms);
    doctor.shift_ms = doctor.leases_over_ms == INT64_MAX ? 0 : shift_ms;
    doctor.repair = repair && safe;
    for (size_t i = 0; status == QUERN_OK && i < sizeof rules / sizeof rules[0]; i++) {
        status = qn_sqlite_rule_check(&doctor, &rules[i], err);
    }
    if (status == QUERN_OK && doctor.repair) {
        qn_waiters_wake(doctor.self); /* a repaired task may be work, or over */
        qn_waiters_report_any_end(doctor.self);
    }
    if (status == QUERN_OK && repair && rows) {
        status = qn_sqlite_integrity_check(&doctor, true, &safe, &rows, err);
    }
    if (status == QUERN_OK) {
        qn_sqlite_integrity_notes(&doctor);
    }
    qn_served_finish(&doctor.served);
    qn_zones_finish(&doctor.zones);
    return status;
}
