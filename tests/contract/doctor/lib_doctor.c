/* SPDX-License-Identifier: MIT */
/* lib_doctor.c - plants damage through a bare connection and runs a check on it. */
#include "lib_doctor.h"

#include <sqlite3.h>
#include <string.h>

void doctor_plant(struct contract *c, const char *sql)
{
    char path[TEST_DIR_SIZE + 16];
    (void)snprintf(path, sizeof path, "%s/tasks.db", c->store.dir);
    sqlite3 *db = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, TEST_PATIENCE_MS), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA ignore_check_constraints = ON", NULL, NULL, NULL),
                     SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void doctor_keep(const quern_finding *finding, void *user)
{
    struct doctor_report *report = user;
    assert_non_null(finding->queue);
    assert_non_null(finding->id);
    report->violated += finding->severity == 2 ? 1 : 0;
    report->warned += finding->severity == 1 ? 1 : 0;
    report->repaired += finding->repaired != 0 ? 1 : 0;
    size_t used = strlen(report->lines);
    (void)snprintf(report->lines + used, sizeof report->lines - used, "%s %s/%s: %s\n",
                   finding->invariant, finding->queue, finding->id, finding->text);
}

void doctor_check(struct contract *c, bool repair, struct doctor_report *report)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    *report = (struct doctor_report){0};
    assert_ok(quern_inspector_check(inspector, repair, doctor_keep, report, &err), err);
    quern_inspector_free(inspector);
}

void doctor_assert_line(const struct doctor_report *report, const char *line)
{
    if (strstr(report->lines, line) == NULL) {
        fail_msg("not found: \"%s\" in\n%s", line, report->lines);
    }
}

void doctor_assert_healthy(struct contract *c)
{
    struct doctor_report report;
    doctor_check(c, false, &report);
    if (report.violated + report.warned > 0) {
        fail_msg("not healthy:\n%s", report.lines);
    }
}

void doctor_assert_mended(struct contract *c, const char *line)
{
    struct doctor_report report;
    doctor_check(c, false, &report);
    doctor_assert_line(&report, line);
    assert_int_equal(report.repaired, 0);
    assert_true(report.violated + report.warned > 0);
    doctor_check(c, true, &report);
    doctor_assert_line(&report, line);
    assert_true(report.repaired > 0);
    doctor_assert_healthy(c);
}

void doctor_assert_left_alone(struct contract *c, const char *line)
{
    struct doctor_report report;
    doctor_check(c, false, &report);
    doctor_assert_line(&report, line);
    doctor_check(c, true, &report);
    doctor_assert_line(&report, line);
    assert_int_equal(report.repaired, 0);
}
