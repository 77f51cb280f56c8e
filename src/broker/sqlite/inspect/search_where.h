/* SPDX-License-Identifier: MIT */
/* search_where.h - a query of tasks as an expression of SQL over a row of quern_task. */
#ifndef QN_BROKER_SQLITE_INSPECT_SEARCH_WHERE_H
#define QN_BROKER_SQLITE_INSPECT_SEARCH_WHERE_H

#include "base/text/buf.h"
#include "broker/search/search.h"
#include "broker/sqlite/store/query.h"

#define QN_SEARCH_WHERE_SIZE_MAX ((size_t)128 << 10)
#define QN_SEARCH_WHERE_PARAMS_MAX (3 * QN_CONDITION_NODES_MAX)

/* A parameter: the test itself, its text, or a number. */
struct qn_search_param {
    enum { QN_PARAM_TEST, QN_PARAM_TEXT, QN_PARAM_NUMBER } kind;
    const struct qn_condition_node *node;
    int64_t number;
};

struct qn_search_where {
    struct qn_buf text;
    int first; /* the number of the first parameter */
    size_t param_count;
    struct qn_search_param params[QN_SEARCH_WHERE_PARAMS_MAX];
};

/* Appends the expression to sql->text. It is 1 or 0: for the rows of the place of the search the
 * answer of the evaluator. */
QUERN_NODISCARD quern_status qn_search_where_write(struct qn_search_where *sql,
                                                   const struct qn_search *search, int64_t now_ms);
/* Binds its parameters: all before the first are bound. */
void qn_search_where_bind(struct qn_query *query, const struct qn_search_where *sql);
/* Gives the connection the functions that it calls. */
QUERN_NODISCARD quern_status qn_search_where_prepare(struct qn_conn *conn, quern_error *err);

#endif
