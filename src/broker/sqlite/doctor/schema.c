/* SPDX-License-Identifier: MIT */
/* schema.c - reports missing tables and indexes of ours, and objects that others have put on them.
 *
 * The file was compared when it was opened (schema/trust.c), so a difference now was made since.
 * Objects of others are not used, and are reported by their effect: a trigger runs when other
 * programs write, a unique index may refuse what quern writes, the rest only costs time. */
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"
#include "broker/sqlite/doctor/doctor.h"
#include "broker/sqlite/schema/late.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/schema/trust.h"
#include "broker/sqlite/store/transaction.h"

#define FOREIGN_TEXT_SIZE 400
#define NAME_SHOWN_MAX 80

static void report_object(const struct qn_sqlite_doctor *doctor, const char *invariant,
                          quern_severity severity, const struct qn_schema_object *object,
                          const char *words)
{
    char name[NAME_SHOWN_MAX + 1];
    char table[NAME_SHOWN_MAX + 1];
    char text[FOREIGN_TEXT_SIZE];
    (void)qn_utf8_sanitize(object->name, strlen(object->name), name, sizeof name);
    (void)qn_utf8_sanitize(object->table, strlen(object->table), table, sizeof table);
    bool on_table = severity != QUERN_SEVERITY_VIOLATED && strcmp(name, table) != 0;
    (void)snprintf(text, sizeof text, "the %s %s%s%s %s", object->type, name,
                   on_table ? " on " : "", on_table ? table : "", words);
    const quern_finding finding = {
        .invariant = invariant, .queue = "", .id = "", .text = text, .severity = severity};
    doctor->on_finding(&finding, doctor->user);
}

static void report_foreign(const struct qn_sqlite_doctor *doctor,
                           const struct qn_schema_object *object)
{
    if (strcmp(object->type, "trigger") == 0) {
        report_object(doctor, "I9", QUERN_SEVERITY_WARNING, object,
                      "is not quern's: it runs when other programs write, not when quern does");
    } else if (strcmp(object->type, "view") == 0) {
        report_object(doctor, "note", QUERN_SEVERITY_NOTE, object,
                      "is not quern's; quern does not use it");
    } else if (object->unique) {
        report_object(doctor, "I9", QUERN_SEVERITY_WARNING, object,
                      "is not quern's: it may refuse what quern writes");
    } else if (strcmp(object->type, "index") == 0) {
        report_object(doctor, "note", QUERN_SEVERITY_NOTE, object,
                      "is not quern's; it makes each write slower");
    } else {
        report_object(doctor, "I9", QUERN_SEVERITY_WARNING, object,
                      "is not quern's, and names that begin with quern_ are reserved for quern");
    }
}

quern_status qn_sqlite_schema_compare(struct qn_sqlite_doctor *doctor, quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_conn *conn = NULL;
    struct qn_schema_object *objects = NULL;
    struct qn_schema_object *wanted = NULL;
    struct qn_sqlite_late needed = {0};
    quern_status status =
        qn_sqlite_trust_read_expected(QN_SQLITE_SCHEMA_VERSION, &arena, &wanted, err);
    if (status == QUERN_OK) {
        status = qn_transaction_read_begin(doctor->self, &conn, err);
    }
    if (status == QUERN_OK) {
        status = qn_sqlite_trust_read(conn, &arena, &objects, err);
        status = status == QUERN_OK ? qn_sqlite_late_needed(conn, &needed, err) : status;
        qn_transaction_read_end(doctor->self);
    }
    for (const struct qn_schema_object *at = wanted; status == QUERN_OK && at != NULL;
         at = at->next) {
        const struct qn_schema_object *found = qn_sqlite_trust_find(objects, at);
        if (found == NULL && qn_sqlite_late_may_miss(&needed, at->name)) {
            continue;
        }
        if (found == NULL) {
            report_object(doctor, "I9", QUERN_SEVERITY_VIOLATED, at, "is missing");
        } else if (strcmp(found->text, at->text) != 0) { /* since the file was opened */
            report_object(doctor, "I9", QUERN_SEVERITY_VIOLATED, at,
                          "is no longer as quern created it");
        }
    }
    for (const struct qn_schema_object *at = objects; status == QUERN_OK && at != NULL;
         at = at->next) {
        if (at->text[0] != '\0' && qn_sqlite_trust_find(wanted, at) == NULL) {
            report_foreign(doctor, at);
        }
    }
    qn_arena_finish(&arena);
    return status;
}
