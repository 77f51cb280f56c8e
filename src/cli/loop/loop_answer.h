/* SPDX-License-Identifier: MIT */
/* loop_answer.h - reads one line of a loop process: a JSON object. */
#ifndef QN_CLI_LOOP_LOOP_ANSWER_H
#define QN_CLI_LOOP_LOOP_ANSWER_H

#include "base/memory/view.h"
#include "worker/policy/handler_options.h"
#include "worker/run/run.h"

enum qn_loop_line {
    QN_LOOP_READY,    /* {"ready":true} */
    QN_LOOP_PROGRESS, /* {"progress":50,"note":"row 7"} */
    QN_LOOP_ANSWER,   /* {"id":"...","outcome":"done",...} */
    QN_LOOP_WRONG     /* anything else: `why` */
};

struct qn_loop_answer {
    enum qn_loop_line kind;
    struct qn_progress progress;                  /* percent -1: not given */
    int outcome;                                  /* a quern_outcome */
    int64_t delay_ms;                             /* -1: none */
    char class_name[QN_ERROR_CLASS_SIZE_MAX + 1]; /* of the failure; "": none */
    char *error;                                  /* owned; NULL: none */
    char *result;                                 /* owned; NULL: none */
    size_t result_size;
    char why[128]; /* valid UTF-8 */
};

/* Reads a line without its end; `id`: of the task that runs, NULL: none runs. False: memory is out.
 * Finish it with qn_loop_answer_finish. */
QUERN_NODISCARD bool qn_loop_answer_read(struct qn_bytes line, const char *id,
                                         struct qn_loop_answer *ret_answer);
void qn_loop_answer_finish(struct qn_loop_answer *answer);

#endif
