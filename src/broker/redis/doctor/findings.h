/* SPDX-License-Identifier: MIT */
/* findings.h - the findings of one step of a check, kept until no channel is held, then
 * reported. */
#ifndef QN_BROKER_REDIS_DOCTOR_FINDINGS_H
#define QN_BROKER_REDIS_DOCTOR_FINDINGS_H

#include "base/memory/arena.h"
#include "broker/broker.h"
#include "quern/inspector.h"

struct qn_kept_finding;

struct qn_redis_findings {
    void (*on_finding)(const quern_finding *finding, void *user);
    void *user;
    struct qn_arena arena; /* of the kept findings */
    struct qn_kept_finding *first, *last;
};

/* Keeps a copy, texts included; NULL for a text is "". The severity is set here: "I8", "server" and
 * "lock" are warnings, "note" is a note, all others are violated. */
QUERN_NODISCARD quern_status qn_redis_findings_keep(struct qn_redis_findings *findings,
                                                    const quern_finding *finding, quern_error *err);
/* Calls on_finding for the kept findings, and drops them. */
void qn_redis_findings_report(struct qn_redis_findings *findings);
void qn_redis_findings_finish(struct qn_redis_findings *findings);

#endif
