/* SPDX-License-Identifier: MIT */
/* doctor.h - the shared declarations of the files that check the data. */
#ifndef QN_BROKER_SQLITE_DOCTOR_DOCTOR_H
#define QN_BROKER_SQLITE_DOCTOR_DOCTOR_H

#include "base/memory/arena.h"
#include "base/time/zones.h"
#include "broker/sqlite/sqlite.h"

/* The queues that living workers serve, sorted. */
struct qn_served {
    struct qn_arena arena;
    const char **names;
    size_t count;
    size_t capacity;
    const char *last; /* the types that the last worker serves */
    bool any;         /* a worker lives */
};
QUERN_NODISCARD quern_status qn_served_read(struct qn_served *served, struct qn_sqlite *self,
                                            quern_error *err);
bool qn_served_has(const struct qn_served *served, const char *queue);
void qn_served_finish(struct qn_served *served);

struct qn_sqlite_doctor {
    struct qn_sqlite *self;
    struct qn_served served;
    struct qn_zones zones;
    bool repair;
    void (*on_finding)(const quern_finding *finding, void *user);
    void *user;
    int64_t now_ms;
    int64_t shift_ms;       /* qn_delay_clock_shift_ms; 0 also while the data are of another boot */
    int64_t leases_over_ms; /* boot clock; see qn_sqlite_tasks_leases_over */
};

struct qn_rule {
    const char *invariant;
    quern_severity severity;
    const char *find;   /* SQL; see doctor.sql */
    const char *repair; /* SQL; NULL: cannot be repaired, or is by upkeep */
    /* Upkeep of one queue that repairs it; NULL: none. Returns how much it did. */
    quern_status (*upkeep)(struct qn_sqlite_doctor *doctor, const char *queue, size_t *ret_done,
                           quern_error *err);
};

/* Functions for the statements about schedules; their user data is the doctor. */
void qn_doctor_entries_whole(sqlite3_context *context, int count, sqlite3_value **values);
void qn_doctor_entries_due(sqlite3_context *context, int count, sqlite3_value **values);

/* Finds the rows that break the rule, repairs them if requested and possible, and reports them,
 * never inside a transaction. */
QUERN_NODISCARD quern_status qn_sqlite_rule_check(struct qn_sqlite_doctor *doctor,
                                                  const struct qn_rule *rule, quern_error *err);

/* Whether the file is whole. *ret_safe: the only damage is rows that break a constraint of ours,
 * which the rules repair. Those are reported only with report_rows. */
QUERN_NODISCARD quern_status qn_sqlite_integrity_check(struct qn_sqlite_doctor *doctor,
                                                       bool report_rows, bool *ret_safe,
                                                       bool *ret_rows, quern_error *err);
/* Reports missing tables and indexes of ours, and objects that others have put on them. */
QUERN_NODISCARD quern_status qn_sqlite_schema_compare(struct qn_sqlite_doctor *doctor,
                                                      quern_error *err);
/* Reports notes about the file and the directory beside it. */
void qn_sqlite_integrity_notes(struct qn_sqlite_doctor *doctor);

#endif
