/* SPDX-License-Identifier: MIT */
/* token.c - a word ends at white space, a parenthesis, a quote or a sign, unless a backslash stands
 * before it. */
#include "query/token.h"

#include <string.h>
#include <strings.h>

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool ends_word(const char *at)
{
    return *at == '\0' || is_space(*at) || strchr("()<>=~\"'", *at) != NULL ||
           (*at == '!' && (at[1] == '=' || at[1] == '~'));
}

static size_t sign_size(const char *at)
{
    switch (*at) {
    case '<':
    case '>':
        return at[1] == '=' ? 2 : 1;
    case '!':
        return 2;
    default:
        return 1;
    }
}

/* Behind the quote that closes it; NULL: there is none. */
static const char *find_quote(const char *at, char quote)
{
    for (; *at != quote; at++) {
        if (*at == '\\' && at[1] != '\0') {
            at++;
        } else if (*at == '\0') {
            return NULL;
        }
    }
    return at + 1;
}

static struct qn_token take_quoted(const char **at)
{
    struct qn_token token = {.kind = QN_TOKEN_QUOTED, .at = *at};
    const char *end = find_quote(*at + 1, **at);
    if (end == NULL) {
        token.kind = QN_TOKEN_UNQUOTED;
        *at += strlen(*at);
        return token;
    }
    token.text = (struct qn_bytes){*at + 1, (size_t)(end - *at) - 2};
    *at = end;
    return token;
}

static struct qn_token take_word(const char **at)
{
    struct qn_token token = {.kind = QN_TOKEN_WORD, .at = *at};
    const char *end = *at;
    while (!ends_word(end)) {
        end += *end == '\\' && end[1] != '\0' ? 2 : 1;
    }
    token.text = (struct qn_bytes){*at, (size_t)(end - *at)};
    *at = end;
    return token;
}

struct qn_token qn_token_take(const char **at)
{
    while (is_space(**at)) {
        ++*at;
    }
    struct qn_token token = {.kind = QN_TOKEN_END, .at = *at};
    switch (**at) {
    case '\0':
        return token;
    case '"':
    case '\'':
        return take_quoted(at);
    case '(':
    case ')':
        token.kind = **at == '(' ? QN_TOKEN_OPEN : QN_TOKEN_CLOSE;
        token.text = (struct qn_bytes){*at, 1};
        break;
    default:
        if (!ends_word(*at)) {
            return take_word(at);
        }
        token.kind = QN_TOKEN_SIGN;
        token.text = (struct qn_bytes){*at, sign_size(*at)};
        break;
    }
    *at += token.text.size;
    return token;
}

bool qn_token_is(const struct qn_token *token, const char *word)
{
    return token->kind == QN_TOKEN_WORD && token->text.size == strlen(word) &&
           strncasecmp(token->text.data, word, token->text.size) == 0;
}
