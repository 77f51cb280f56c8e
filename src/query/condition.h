/* SPDX-License-Identifier: MIT */
/* condition.h - a query as a tree of tests, and whether a task fulfils it. No I/O.
 *
 *     state = archived and (type = mail:* or error ~ "no route") and not retried < 3
 *
 * The language is described in docs/guide/queries.md. This is its only definition: a broker that
 * answers a query by other means (SQL, keys that it need not read) must give the same answer.
 *
 * A test compares one field. What is not known of a task (its age, when it never failed) is neither
 * less nor equal nor greater than anything, so `not age > 2h` holds for it. */
#ifndef QN_QUERY_CONDITION_H
#define QN_QUERY_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include "quern/status.h"
#include "query/field.h"
#include "task/task.h"

#define QN_CONDITION_SIZE_MAX 4096 /* of the text: a command line */
#define QN_CONDITION_NODES_MAX 256 /* SQLite's limit for the depth of an expression is 1000 */
#define QN_CONDITION_DEPTH_MAX 24  /* parentheses and nots within each other; bounds recursion */

enum qn_condition_kind { QN_CONDITION_TEST, QN_CONDITION_AND, QN_CONDITION_OR, QN_CONDITION_NOT };

enum qn_condition_sign {
    QN_SIGN_EQUAL, /* of texts: fits the pattern */
    QN_SIGN_HAS,   /* of texts: a part of it fits the pattern */
    QN_SIGN_LESS,
    QN_SIGN_LESS_EQUAL,
    QN_SIGN_GREATER,
    QN_SIGN_GREATER_EQUAL
};

/* The children of a node that is no test are a list: `first`, then `next` of each. */
struct qn_condition_node {
    enum qn_condition_kind kind;
    uint16_t first;
    uint16_t next; /* 0: the last one; no list holds the root */
    enum qn_field field;
    enum qn_condition_sign sign;
    bool is_wild;         /* text is a pattern; else it is to be compared as it is */
    struct qn_bytes text; /* of the tests of texts; ends with a NUL that is not counted */
    const char *header;   /* of QN_FIELD_HEADER */
    int64_t number;       /* of the others: a count, bytes or ms; of a state: quern_task_state */
};

struct qn_condition {
    size_t count;
    struct qn_condition_node nodes[QN_CONDITION_NODES_MAX]; /* the root is the last one */
    size_t text_size;
    char texts[2 * QN_CONDITION_SIZE_MAX]; /* of the nodes */
};

/* An empty text is fulfilled by every task. Errors: QUERN_E_INVALID, with the column (in bytes,
 * from 1 on) and what to write instead; QUERN_E_NOMEM. Free it by qn_condition_free. */
QUERN_NODISCARD quern_status qn_condition_parse(const char *text,
                                                struct qn_condition **ret_condition,
                                                quern_error *err);
void qn_condition_free(struct qn_condition *condition);

/* Everything about a task that a query can ask for. Moments: 0, there is none. */
struct qn_condition_task {
    const struct qn_task *task;
    const char *error;
    const char *worker;
    int64_t retry_count;
    int64_t crash_count;
    int64_t now_ms;
    int64_t enqueued_at_ms;
    int64_t started_at_ms;
    int64_t failed_at_ms;
    int64_t ended_at_ms;
    int64_t due_at_ms;
};
bool qn_condition_fits(const struct qn_condition *condition, const struct qn_condition_task *task);

enum qn_condition_answer { QN_ANSWER_NO, QN_ANSWER_YES, QN_ANSWER_MAYBE };
/* The answer for the tasks of this state of this queue, of which nothing else is known. */
enum qn_condition_answer qn_condition_place(const struct qn_condition *condition, const char *queue,
                                            quern_task_state state);
/* The same for one node. */
enum qn_condition_answer qn_condition_node_place(const struct qn_condition *condition, size_t node,
                                                 const char *queue, quern_task_state state);
/* The one id that a task must have to fulfil it; NULL: there is no such id. */
const char *qn_condition_id(const struct qn_condition *condition);

/* Whether a text or bytes fit the test of a node: for brokers that compare by themselves. */
bool qn_condition_text_fits(const struct qn_condition_node *node, struct qn_bytes text);
/* The same for a test of a header. */
bool qn_condition_header_fits(const struct qn_condition_node *node, const quern_header *headers,
                              size_t count);

#endif
