/* SPDX-License-Identifier: MIT */
/* accept.c - reads the Accept header of a request for metrics (RFC 9110, section 12.5.1).
 *
 * A header is a list of media ranges, each with parameters; q, from 0 to 1 with three digits,
 * weighs it. A range that is not understood is left out. Quoted values are not known to matter
 * here; a comma in one only ends its range early. */
#include "metrics/accept.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/text/decimal.h"

#define HEADER_SIZE_MAX 4096
#define WEIGHT_MAX 1000
#define OPEN_TYPE "application/openmetrics-text"
#define OPEN_VERSION "1.0.0"

/* A part of the header. */
struct piece {
    const char *text;
    size_t size;
};

/* Up to the next `end`, without blanks around it; moves *at behind it. */
static struct piece take(const char **at, const char *limit, char end)
{
    struct piece piece = {.text = *at};
    const char *stop = memchr(*at, end, (size_t)(limit - *at));
    stop = stop != NULL ? stop : limit;
    *at = stop < limit ? stop + 1 : limit;
    while (piece.text < stop && (*piece.text == ' ' || *piece.text == '\t')) {
        piece.text++;
    }
    while (stop > piece.text && (stop[-1] == ' ' || stop[-1] == '\t')) {
        stop--;
    }
    piece.size = (size_t)(stop - piece.text);
    return piece;
}

static bool is(struct piece piece, const char *word)
{
    return piece.size == strlen(word) && strncasecmp(piece.text, word, piece.size) == 0;
}

/* In thousandths; what is no number weighs nothing. */
static int weight_of(struct piece value)
{
    int weight = 0;
    int unit = WEIGHT_MAX;
    for (size_t i = 0; i < value.size && unit > 0; i++) {
        if (i == 1 && value.text[i] == '.') {
            continue;
        }
        if (!qn_decimal_is_digit(value.text[i])) {
            return 0;
        }
        weight += (value.text[i] - '0') * unit;
        unit /= 10;
    }
    return weight < WEIGHT_MAX ? weight : WEIGHT_MAX;
}

struct weights {
    int open;
    int text;
};

static void weigh(struct piece range, struct weights *weights)
{
    const char *at = range.text;
    const char *limit = range.text + range.size;
    struct piece type = take(&at, limit, ';');
    int weight = WEIGHT_MAX;
    bool fits = true;
    while (at < limit) {
        struct piece parameter = take(&at, limit, ';');
        const char *value_at = parameter.text;
        const char *parameter_limit = parameter.text + parameter.size;
        struct piece name = take(&value_at, parameter_limit, '=');
        struct piece value = take(&value_at, parameter_limit, '\0');
        if (is(name, "q")) {
            weight = weight_of(value);
        } else if (is(name, "version")) {
            fits = is(value, OPEN_VERSION);
        }
    }
    if (is(type, OPEN_TYPE) && fits) {
        weights->open = weight > weights->open ? weight : weights->open;
    } else if (is(type, "text/plain") || is(type, "text/*") || is(type, "*/*")) {
        weights->text = weight > weights->text ? weight : weights->text;
    }
}

quern_metrics_format qn_accept_choose(const char *accept)
{
    struct weights weights = {0, 0};
    size_t size = strnlen(accept, HEADER_SIZE_MAX + 1);
    const char *at = accept;
    const char *limit = accept + size;
    while (size <= HEADER_SIZE_MAX && at < limit) {
        weigh(take(&at, limit, ','), &weights);
    }
    return weights.open > 0 && weights.open >= weights.text ? QUERN_METRICS_OPENMETRICS
                                                            : QUERN_METRICS_TEXT;
}
