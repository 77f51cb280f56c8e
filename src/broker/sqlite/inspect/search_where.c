/* SPDX-License-Identifier: MIT */
/* search_where.c - writes a query of tasks as SQL.
 *
 * Values are always parameters. Whole texts and numbers are compared by SQLite. For patterns and
 * parts of texts it calls a function of ours, which is the evaluator's, so that both can only give
 * the same answer; a test with random queries compares them (tests/contract/inspect). What the
 * place alone decides becomes a constant. Columns may hold damage: numbers are clamped as they are
 * where a row is read (tasks.c), and NULL is the empty text. */
#include "broker/sqlite/inspect/search_where.h"

#include "base/assert.h"
#include "base/error.h"
#include "broker/sqlite/run/headers.h"
#include "task/limits.h"

#define NODE_TYPE "qn_condition_node"

/* --- Functions ----------------------------------------------------------------------- */

static struct qn_bytes bytes_of(sqlite3_value *value)
{
    const void *data = sqlite3_value_blob(value);
    return (struct qn_bytes){data == NULL ? "" : data, (size_t)sqlite3_value_bytes(value)};
}

/* quern_fits(test, text or blob) */
static void fits(sqlite3_context *context, int count, sqlite3_value **values)
{
    const struct qn_condition_node *node = sqlite3_value_pointer(values[0], NODE_TYPE);
    (void)count;
    sqlite3_result_int(context,
                       node != NULL && qn_condition_text_fits(node, bytes_of(values[1])) ? 1 : 0);
}

/* quern_header_fits(test, headers) */
static void header_fits(sqlite3_context *context, int count, sqlite3_value **values)
{
    quern_header headers[QN_HEADER_COUNT_MAX];
    const struct qn_condition_node *node = sqlite3_value_pointer(values[0], NODE_TYPE);
    struct qn_bytes blob = bytes_of(values[1]);
    (void)count;
    size_t header_count = qn_sqlite_headers_count(blob.data, blob.size);
    qn_sqlite_headers_unpack(blob.data, blob.size, headers, header_count);
    sqlite3_result_int(
        context, node != NULL && qn_condition_header_fits(node, headers, header_count) ? 1 : 0);
}

quern_status qn_search_where_prepare(struct qn_conn *conn, quern_error *err)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    if (conn->searches) {
        return QUERN_OK;
    }
    int code = sqlite3_create_function(conn->db, "quern_fits", 2, flags, NULL, fits, NULL, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_create_function(conn->db, "quern_header_fits", 2, flags, NULL, header_fits,
                                       NULL, NULL);
    }
    conn->searches = code == SQLITE_OK;
    return conn->searches ? QUERN_OK : qn_conn_fail(conn, code, err);
}

/* --- Columns ------------------------------------------------------------------------- */

#define COUNT_OF(column) "max(0, min(" column ", 2147483647))"
#define MOMENT_OF(column) "max(0, min(" column ", 9000000000000))"

/* As the evaluator sees it; NULL: not by one column. */
static const char *column_of(enum qn_field field)
{
    switch (field) {
    case QN_FIELD_ID:
        return "id";
    case QN_FIELD_TYPE:
        return "type";
    case QN_FIELD_GROUP:
        return "coalesce(grp, '')";
    case QN_FIELD_WORKER:
        return "coalesce((SELECT w.id FROM quern_worker AS w WHERE w.no = quern_task.worker AND "
               "quern_task.state = 1), "
               "'')";
    case QN_FIELD_ERROR:
        return "coalesce(error, '')";
    case QN_FIELD_PAYLOAD:
        return "payload";
    case QN_FIELD_RETRIED:
        return COUNT_OF("retry_count");
    case QN_FIELD_CRASHES:
        return COUNT_OF("crash_count");
    case QN_FIELD_PRIORITY:
        return "iif(place >> 48 BETWEEN -100 AND 100, -(place >> 48), 0)";
    case QN_FIELD_SIZE:
        return "coalesce(length(payload), 0)";
    case QN_FIELD_AGE:
        return MOMENT_OF("enqueued_at_ms");
    case QN_FIELD_RUNNING:
        return "iif(state = 1, " MOMENT_OF("started_at_ms") ", 0)";
    case QN_FIELD_FAILED:
        return MOMENT_OF("failed_at_ms");
    case QN_FIELD_ENDED:
        return "CASE state WHEN 5 THEN " MOMENT_OF("at_ms") " WHEN 6 THEN " MOMENT_OF(
            "completed_at_ms") " ELSE 0 END";
    case QN_FIELD_DUE:
        return "iif(state IN (3, 4), " MOMENT_OF("at_ms") ", 0)";
    case QN_FIELD_TEXT:
    case QN_FIELD_HEADER:
    case QN_FIELD_QUEUE:
    case QN_FIELD_STATE:
    case QN_FIELD_NONE:
        break;
    }
    return NULL;
}

static const char *sign_of(enum qn_condition_sign sign)
{
    switch (sign) {
    case QN_SIGN_LESS:
        return "<";
    case QN_SIGN_LESS_EQUAL:
        return "<=";
    case QN_SIGN_GREATER:
        return ">";
    case QN_SIGN_GREATER_EQUAL:
        return ">=";
    case QN_SIGN_EQUAL:
    case QN_SIGN_HAS:
        break;
    }
    return "=";
}

/* --- Tests --------------------------------------------------------------------------- */

/* What is to be written, and for which place. */
struct writing {
    struct qn_search_where *sql;
    const struct qn_search *search;
    int64_t now_ms;
};

/* Adds a parameter; its number. */
static int add_param(struct qn_search_where *sql, struct qn_search_param param)
{
    QN_ASSERT(sql->param_count < QN_SEARCH_WHERE_PARAMS_MAX);
    sql->params[sql->param_count++] = param;
    return sql->first + (int)sql->param_count - 1;
}

static int add_number(struct qn_search_where *sql, int64_t number)
{
    return add_param(sql, (struct qn_search_param){.kind = QN_PARAM_NUMBER, .number = number});
}

static quern_status write_text(struct qn_search_where *sql, const struct qn_condition_node *node)
{
    bool is_whole = node->sign == QN_SIGN_EQUAL && !node->is_wild &&
                    node->field != QN_FIELD_PAYLOAD && node->field != QN_FIELD_TEXT &&
                    node->field != QN_FIELD_HEADER;
    int param = add_param(sql, (struct qn_search_param){
                                   .kind = is_whole ? QN_PARAM_TEXT : QN_PARAM_TEST, .node = node});
    if (node->field == QN_FIELD_HEADER) {
        return qn_buf_printf(&sql->text, "quern_header_fits(?%d, headers)", param);
    }
    if (node->field == QN_FIELD_TEXT) {
        return qn_buf_printf(&sql->text, "(quern_fits(?%d, payload) OR quern_fits(?%d, error))",
                             param, param);
    }
    const char *column = column_of(node->field);
    return is_whole ? qn_buf_printf(&sql->text, "(%s = ?%d)", column, param)
                    : qn_buf_printf(&sql->text, "quern_fits(?%d, %s)", param, column);
}

static quern_status write_duration(const struct writing *writing,
                                   const struct qn_condition_node *node)
{
    const char *column = column_of(node->field);
    int now = add_number(writing->sql, writing->now_ms);
    int limit = add_number(writing->sql, node->number);
    bool ahead = node->field == QN_FIELD_DUE;
    return qn_buf_printf(&writing->sql->text, "(%s > 0 AND %s(?%d - %s) %s ?%d)", column,
                         ahead ? "-" : "", now, column, sign_of(node->sign), limit);
}

static quern_status write_test(const struct writing *writing, const struct qn_condition_node *node)
{
    switch (qn_field_kind(node->field)) {
    case QN_KIND_TEXT:
        return write_text(writing->sql, node);
    case QN_KIND_DURATION:
        return write_duration(writing, node);
    case QN_KIND_NUMBER:
    case QN_KIND_SIZE:
        break;
    }
    return qn_buf_printf(&writing->sql->text, "(%s %s ?%d)", column_of(node->field),
                         sign_of(node->sign), add_number(writing->sql, node->number));
}

/* --- The tree ------------------------------------------------------------------------ */

/* As deep as the tree, which the parser bounds. */
static quern_status write_node(const struct writing *writing, size_t at)
{
    const struct qn_condition *condition = writing->search->condition;
    const struct qn_condition_node *node = &condition->nodes[at];
    struct qn_buf *text = &writing->sql->text;
    enum qn_condition_answer known =
        qn_condition_node_place(condition, at, writing->search->queue, writing->search->state);
    if (known != QN_ANSWER_MAYBE) {
        return qn_buf_append_text(text, known == QN_ANSWER_YES ? "1" : "0");
    }
    if (node->kind == QN_CONDITION_TEST) {
        return write_test(writing, node);
    }
    const char *word = node->kind == QN_CONDITION_AND ? " AND " : " OR ";
    quern_status status = qn_buf_append_text(text, node->kind == QN_CONDITION_NOT ? "(NOT " : "(");
    for (size_t child = node->first; status == QUERN_OK;) {
        status = write_node(writing, child);
        child = node->kind == QN_CONDITION_NOT ? 0 : condition->nodes[child].next;
        if (child == 0) {
            break;
        }
        status = status == QUERN_OK ? qn_buf_append_text(text, word) : status;
    }
    return status == QUERN_OK ? qn_buf_append_text(text, ")") : status;
}

quern_status qn_search_where_write(struct qn_search_where *sql, const struct qn_search *search,
                                   int64_t now_ms)
{
    const struct writing writing = {.sql = sql, .search = search, .now_ms = now_ms};
    return search->condition->count == 0 ? qn_buf_append_text(&sql->text, "1")
                                         : write_node(&writing, search->condition->count - 1);
}

void qn_search_where_bind(struct qn_query *query, const struct qn_search_where *sql)
{
    for (size_t i = 0; i < sql->param_count; i++) {
        const struct qn_search_param *param = &sql->params[i];
        switch (param->kind) {
        case QN_PARAM_TEST:
            qn_query_pointer(query, param->node, NODE_TYPE);
            break;
        case QN_PARAM_TEXT:
            qn_query_text(query, param->node->text.data);
            break;
        case QN_PARAM_NUMBER:
            qn_query_int(query, param->number);
            break;
        }
    }
}
