/* SPDX-License-Identifier: MIT */
/* reasons.h - the reasons of an explanation, as they are found. */
#ifndef QN_INSPECT_EXPLAIN_REASONS_H
#define QN_INSPECT_EXPLAIN_REASONS_H

#include "quern/explain.h"

#define QN_REASONS_MAX 16
#define QN_REASON_TEXT_SIZE 512
#define QN_REASON_HOLDER_SIZE 1024

struct qn_reason {
    quern_why why;
    bool holds_up;
    int64_t until_at_ms;
    int64_t ahead; /* -1: not known */
    char because[QN_REASON_TEXT_SIZE];
    char advice[QN_REASON_TEXT_SIZE];
    char holder[QN_REASON_HOLDER_SIZE];
};

struct qn_reasons {
    struct qn_reason items[QN_REASONS_MAX];
    size_t count;
};

/* The next one, empty; where there is no room for more the last one again. */
struct qn_reason *qn_reasons_add(struct qn_reasons *reasons, quern_why why, bool holds_up);
/* Adds one more holder behind the others; no more than three are named. */
void qn_reasons_add_holder(struct qn_reason *reason, const char *text);

#endif
