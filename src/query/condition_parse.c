/* SPDX-License-Identifier: MIT */
/* condition_parse.c - reads a query.
 *
 *     any   = all { "or" all }          test  = FIELD SIGN VALUE
 *     all   = one { "and" one }         one   = "not" one | "(" any ")" | test
 *
 * It descends as deep as parentheses and nots stand within each other, which is bounded. Nodes are
 * stored behind their children, so the root is the last one. The first error ends the reading; it
 * names the column and the remedy. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/number.h"
#include "base/text/size.h"
#include "query/condition.h"
#include "query/glob.h"
#include "query/token.h"
#include "task/lifecycle.h"

struct parser {
    const char *text;
    const char *at;
    struct qn_token token; /* the present one */
    struct qn_condition *out;
    size_t depth;
    quern_error *err;
};

/* --- Errors -------------------------------------------------------------------------- */

#define SHOWN_MAX 40 /* bytes of the query in a message */

static size_t column_of(const struct parser *parser, const char *at)
{
    size_t column = 1;
    for (const char *byte = parser->text; byte < at; byte++) {
        column += ((unsigned char)*byte & 0xc0) != 0x80;
    }
    return column;
}

static quern_status fail_at(const struct parser *parser, const char *at, const char *what)
{
    return qn_error_set(parser->err, QUERN_E_INVALID, "query, column %zu: %s",
                        column_of(parser, at), what);
}

/* "expected WHAT, not 'TOKEN'" */
static quern_status fail_expected(const struct parser *parser, const char *what)
{
    const struct qn_token *token = &parser->token;
    size_t size = token->text.size < SHOWN_MAX ? token->text.size : SHOWN_MAX;
    size_t column = column_of(parser, token->at);
    if (token->kind == QN_TOKEN_UNQUOTED) {
        return fail_at(parser, token->at, "this quote is not closed");
    }
    if (token->kind == QN_TOKEN_END) {
        return qn_error_set(parser->err, QUERN_E_INVALID,
                            "query, column %zu: expected %s, but it ends here", column, what);
    }
    return qn_error_set(parser->err, QUERN_E_INVALID, "query, column %zu: expected %s, not '%.*s'",
                        column, what, (int)size, size == 0 ? "" : (const char *)token->text.data);
}

/* --- Building ------------------------------------------------------------------------ */

static void advance(struct parser *parser)
{
    parser->token = qn_token_take(&parser->at);
}

static quern_status add_node(struct parser *parser, const struct qn_condition_node *node,
                             uint16_t *ret_at)
{
    struct qn_condition *out = parser->out;
    if (out->count == QN_CONDITION_NODES_MAX) {
        return fail_at(parser, parser->token.at,
                       "too many tests in one query; ask two shorter ones");
    }
    out->nodes[out->count] = *node;
    *ret_at = (uint16_t)out->count++;
    return QUERN_OK;
}

/* A copy with a NUL behind it. Each is far shorter than the part of the query that it is from, and
 * that twice. */
static char *add_text(struct parser *parser, const char *before, struct qn_bytes text,
                      const char *behind)
{
    struct qn_condition *out = parser->out;
    char *copy = out->texts + out->text_size;
    size_t room = sizeof out->texts - out->text_size;
    int size =
        snprintf(copy, room, "%s%.*s%s", before, (int)text.size, (const char *)text.data, behind);
    QN_ASSERT(size >= 0 && (size_t)size < room);
    out->text_size += (size_t)size + 1;
    return copy;
}

/* --- Values -------------------------------------------------------------------------- */

static quern_status read_state(const struct parser *parser, struct qn_condition_node *node)
{
    node->number = (int64_t)qn_lifecycle_parse(node->text.data);
    if (node->number != 0) {
        return QUERN_OK;
    }
    return fail_at(parser, parser->token.at,
                   "no such state; states are pending, active, scheduled, retry, archived, "
                   "completed and aggregating");
}

static quern_status read_text(struct parser *parser, struct qn_condition_node *node)
{
    const struct qn_token *token = &parser->token;
    node->is_wild = qn_glob_is_wild(token->text);
    bool part = node->is_wild && node->sign == QN_SIGN_HAS;
    char *copy = add_text(parser, part ? "*" : "", token->text, part ? "*" : "");
    size_t size = token->text.size + (part ? 2 : 0);
    if (!node->is_wild) {
        size = qn_glob_literal(copy, size);
        copy[size] = '\0';
    }
    node->text = (struct qn_bytes){copy, size};
    return node->field == QN_FIELD_STATE ? read_state(parser, node) : QUERN_OK;
}

static bool read_count(const char *text, int64_t *ret_number)
{
    struct qn_cursor cursor = {text, text + strlen(text)};
    uint64_t number = 0;
    bool is_negative = qn_number_take_char(&cursor, '-');
    if (!qn_number_take(&cursor, &number) || cursor.at != cursor.end) {
        return false;
    }
    int64_t clamped = number > INT64_MAX ? INT64_MAX : (int64_t)number;
    *ret_number = is_negative ? -clamped : clamped;
    return true;
}

/* Without a unit it would be seconds, which surprises: 0 needs none. */
static bool read_duration(const char *text, int64_t *ret_ms)
{
    int64_t count = 0;
    bool bare = read_count(text, &count);
    return (!bare || count == 0) && qn_duration_parse(text, ret_ms, NULL) == QUERN_OK;
}

static quern_status read_number(struct parser *parser, struct qn_condition_node *node)
{
    const char *text = add_text(parser, "", parser->token.text, "");
    switch (qn_field_kind(node->field)) {
    case QN_KIND_NUMBER:
        return read_count(text, &node->number)
                   ? QUERN_OK
                   : fail_expected(parser, "a whole number, as in retried >= 3");
    case QN_KIND_SIZE:
        return qn_size_parse(text, &node->number, NULL) == QUERN_OK
                   ? QUERN_OK
                   : fail_expected(parser, "a size, as in size > 64K");
    case QN_KIND_DURATION:
        return read_duration(text, &node->number)
                   ? QUERN_OK
                   : fail_expected(parser, "a duration with its unit, as 90s, 30m, 2h or 7d");
    case QN_KIND_TEXT:
        break;
    }
    return QUERN_OK;
}

/* --- Tests --------------------------------------------------------------------------- */

static const struct {
    const char *text;
    enum qn_condition_sign sign;
    bool negated;
    bool of_texts;
    bool of_numbers;
} signs[] = {
    {"=", QN_SIGN_EQUAL, false, true, true},    {"!=", QN_SIGN_EQUAL, true, true, true},
    {"~", QN_SIGN_HAS, false, true, false},     {"!~", QN_SIGN_HAS, true, true, false},
    {"<", QN_SIGN_LESS, false, false, true},    {"<=", QN_SIGN_LESS_EQUAL, false, false, true},
    {">", QN_SIGN_GREATER, false, false, true}, {">=", QN_SIGN_GREATER_EQUAL, false, false, true},
};
#define SIGN_COUNT (sizeof signs / sizeof signs[0])

static quern_status read_field(struct parser *parser, struct qn_condition_node *node)
{
    struct qn_bytes name = parser->token.text;
    if (parser->token.kind != QN_TOKEN_WORD) {
        return fail_expected(parser, "a test, as in type = mail:*");
    }
    node->field = qn_field_find(name);
    if (node->field == QN_FIELD_NONE) {
        return qn_error_set(parser->err, QUERN_E_INVALID,
                            "query, column %zu: no field '%.*s'; fields are %s",
                            column_of(parser, parser->token.at),
                            (int)(name.size < SHOWN_MAX ? name.size : SHOWN_MAX),
                            (const char *)name.data, qn_field_names);
    }
    if (node->field == QN_FIELD_HEADER) {
        size_t prefix = strlen("header.");
        if (name.size == prefix) {
            return fail_at(parser, parser->at, "expected the name of a header, as in header.user");
        }
        struct qn_bytes header = {(const char *)name.data + prefix, name.size - prefix};
        node->header = add_text(parser, "", header, "");
    }
    advance(parser);
    return QUERN_OK;
}

static quern_status read_sign(struct parser *parser, struct qn_condition_node *node,
                              bool *ret_negated)
{
    const struct qn_token *token = &parser->token;
    bool is_text = qn_field_kind(node->field) == QN_KIND_TEXT;
    const char *wanted = node->field == QN_FIELD_STATE ? "= or !="
                         : is_text                     ? "=, !=, ~ or !~"
                                                       : "=, !=, <, <=, > or >=";
    size_t at = 0;
    while (at < SIGN_COUNT &&
           (token->kind != QN_TOKEN_SIGN || strlen(signs[at].text) != token->text.size ||
            memcmp(signs[at].text, token->text.data, token->text.size) != 0)) {
        at++;
    }
    bool allowed = at < SIGN_COUNT && (is_text ? signs[at].of_texts : signs[at].of_numbers) &&
                   !(node->field == QN_FIELD_STATE && signs[at].sign == QN_SIGN_HAS);
    if (!allowed) {
        char what[64];
        (void)snprintf(what, sizeof what, "%s after %s", wanted, qn_field_name(node->field));
        return fail_expected(parser, what);
    }
    node->sign = signs[at].sign;
    *ret_negated = signs[at].negated;
    advance(parser);
    return QUERN_OK;
}

static bool is_keyword(const struct qn_token *token)
{
    return qn_token_is(token, "and") || qn_token_is(token, "or") || qn_token_is(token, "not");
}

static quern_status read_value(struct parser *parser, struct qn_condition_node *node)
{
    bool is_value = parser->token.kind == QN_TOKEN_WORD || parser->token.kind == QN_TOKEN_QUOTED;
    if (!is_value || is_keyword(&parser->token)) {
        return fail_expected(parser, "a value (in quotes if it is a word like and)");
    }
    quern_status status = qn_field_kind(node->field) == QN_KIND_TEXT ? read_text(parser, node)
                                                                     : read_number(parser, node);
    if (status == QUERN_OK) {
        advance(parser);
    }
    return status;
}

static quern_status parse_test(struct parser *parser, uint16_t *ret_at)
{
    struct qn_condition_node node = {.kind = QN_CONDITION_TEST};
    bool negated = false;
    quern_status status = read_field(parser, &node);
    if (status == QUERN_OK) {
        status = read_sign(parser, &node, &negated);
    }
    if (status == QUERN_OK) {
        status = read_value(parser, &node);
    }
    if (status == QUERN_OK) {
        status = add_node(parser, &node, ret_at);
    }
    if (status == QUERN_OK && negated) {
        const struct qn_condition_node not_it = {.kind = QN_CONDITION_NOT, .first = *ret_at};
        status = add_node(parser, &not_it, ret_at);
    }
    return status;
}

/* --- Between tests ------------------------------------------------------------------- */

static quern_status parse_any(struct parser *parser, uint16_t *ret_at);

static quern_status parse_inner(struct parser *parser, uint16_t *ret_at)
{
    advance(parser);
    quern_status status = parse_any(parser, ret_at);
    if (status == QUERN_OK && parser->token.kind != QN_TOKEN_CLOSE) {
        return fail_expected(parser, "and, or, or the ) of an open parenthesis");
    }
    advance(parser);
    return status;
}

static quern_status parse_one(struct parser *parser, uint16_t *ret_at)
{
    const char *begin = parser->token.at;
    size_t depth = parser->depth;
    size_t nots = 0;
    for (; qn_token_is(&parser->token, "not"); nots++) {
        advance(parser);
    }
    parser->depth += nots + 1;
    if (parser->depth > QN_CONDITION_DEPTH_MAX) {
        return fail_at(parser, begin,
                       "nested too deeply; leave out parentheses that change nothing");
    }
    quern_status status = parser->token.kind == QN_TOKEN_OPEN ? parse_inner(parser, ret_at)
                                                              : parse_test(parser, ret_at);
    for (; status == QUERN_OK && nots > 0; nots--) {
        const struct qn_condition_node node = {.kind = QN_CONDITION_NOT, .first = *ret_at};
        status = add_node(parser, &node, ret_at);
    }
    parser->depth = depth;
    return status;
}

/* A list of what `parse` reads, with the word between. */
static quern_status parse_list(struct parser *parser, enum qn_condition_kind kind,
                               quern_status (*parse)(struct parser *, uint16_t *), uint16_t *ret_at)
{
    const char *word = kind == QN_CONDITION_AND ? "and" : "or";
    struct qn_condition_node node = {.kind = kind};
    quern_status status = parse(parser, &node.first);
    uint16_t last = node.first;
    while (status == QUERN_OK && qn_token_is(&parser->token, word)) {
        uint16_t next = 0;
        advance(parser);
        status = parse(parser, &next);
        if (status == QUERN_OK) {
            parser->out->nodes[last].next = next;
            last = next;
        }
    }
    *ret_at = node.first;
    return status == QUERN_OK && last != node.first ? add_node(parser, &node, ret_at) : status;
}

static quern_status parse_all(struct parser *parser, uint16_t *ret_at)
{
    return parse_list(parser, QN_CONDITION_AND, parse_one, ret_at);
}

static quern_status parse_any(struct parser *parser, uint16_t *ret_at)
{
    return parse_list(parser, QN_CONDITION_OR, parse_all, ret_at);
}

static quern_status parse_query(struct parser *parser)
{
    uint16_t root = 0;
    advance(parser);
    if (parser->token.kind == QN_TOKEN_END) {
        return QUERN_OK;
    }
    quern_status status = parse_any(parser, &root);
    if (status == QUERN_OK && parser->token.kind != QN_TOKEN_END) {
        return fail_expected(parser, "and, or, or the end (a value with blanks or signs needs "
                                     "quotes)");
    }
    QN_ASSERT(status != QUERN_OK || root + 1U == parser->out->count);
    return status;
}

quern_status qn_condition_parse(const char *text, struct qn_condition **ret_condition,
                                quern_error *err)
{
    if (strlen(text) > QN_CONDITION_SIZE_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "query: longer than %d bytes",
                            QN_CONDITION_SIZE_MAX);
    }
    struct qn_condition *condition = qn_alloc_zero(1, sizeof *condition);
    if (condition == NULL) {
        return qn_error_nomem(err);
    }
    struct parser parser = {.text = text, .at = text, .out = condition, .err = err};
    quern_status status = parse_query(&parser);
    if (status != QUERN_OK) {
        qn_condition_free(condition);
        return status;
    }
    *ret_condition = condition;
    return QUERN_OK;
}
