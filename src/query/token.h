/* SPDX-License-Identifier: MIT */
/* token.h - cuts the text of a query into words, quoted texts, signs and parentheses. */
#ifndef QN_QUERY_TOKEN_H
#define QN_QUERY_TOKEN_H

#include <stdbool.h>

#include "base/memory/view.h"

enum qn_token_kind {
    QN_TOKEN_END,
    QN_TOKEN_OPEN,  /* ( */
    QN_TOKEN_CLOSE, /* ) */
    QN_TOKEN_SIGN,  /* = != ~ !~ < <= > >= */
    QN_TOKEN_WORD,
    QN_TOKEN_QUOTED,  /* the text between the quotes, with its backslashes */
    QN_TOKEN_UNQUOTED /* a quote that is not closed */
};

struct qn_token {
    enum qn_token_kind kind;
    struct qn_bytes text;
    const char *at; /* where it begins */
};

/* The token at *at, which moves behind it. The text ends with a NUL. */
struct qn_token qn_token_take(const char **at);
/* Whether it is this word in any case, without quotes. */
bool qn_token_is(const struct qn_token *token, const char *word);

#endif
