/* SPDX-License-Identifier: MIT */
/* lib_doctor.h - helpers for the tests of checks: plant a damage, check, repair, check again. */
#ifndef TESTS_CONTRACT_LIB_DOCTOR_H
#define TESTS_CONTRACT_LIB_DOCTOR_H

#include "lib_contract.h"
#include "quern/inspector.h"

/* Runs SQL on the file with a connection that ignores our constraints, as another program might. */
void doctor_plant(struct contract *c, const char *sql);

/* The findings of a check: the number of each kind, and a line for each. */
struct doctor_report {
    size_t violated;
    size_t warned;
    size_t repaired;
    char lines[20000];
};
/* For quern_inspector_check; user is a struct doctor_report. */
void doctor_keep(const quern_finding *finding, void *user);
void doctor_check(struct contract *c, bool repair, struct doctor_report *report);

/* "INVARIANT QUEUE/ID: TEXT", or a part of it. */
void doctor_assert_line(const struct doctor_report *report, const char *line);
/* Nothing but notes. */
void doctor_assert_healthy(struct contract *c);
/* Found without being changed, then repaired, then gone. */
void doctor_assert_mended(struct contract *c, const char *line);
/* Found each time, and left alone. */
void doctor_assert_left_alone(struct contract *c, const char *line);

#endif
