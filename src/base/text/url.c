/* SPDX-License-Identifier: MIT */
/* url.c - broker URLs.
 *
 * The text is cut into pieces, each piece is percent-decoded into one block of memory that the URL
 * owns. Decoding never makes a piece longer, so the block's size is known at the start. Wrong text
 * is QUERN_E_INVALID; the error shows the URL only as qn_url_redact leaves it. */
#include "base/text/url.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/secret.h"
#include "base/text/str.h"

/* Six strings and a name and a value for each parameter, each with its NUL. */
#define PIECE_MAX (6 + 2 * QN_URL_PARAM_MAX)
#define SHOWN_SIZE 128

/* A parse in progress. */
struct parser {
    const char *text; /* the whole URL, for errors */
    char *out;        /* where the next piece goes in the URL's memory */
    quern_error *err;
};

static quern_status refuse_url(const struct parser *parser, const char *why)
{
    char shown[SHOWN_SIZE];
    qn_url_redact(parser->text, shown, sizeof shown);
    return qn_error_set(parser->err, QUERN_E_INVALID, "broker URL \"%s\": %s", shown, why);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes one piece into the memory and sets *ret_piece to it. */
static quern_status take_piece(struct parser *parser, struct qn_str raw, const char **ret_piece)
{
    char *start = parser->out;
    char *out = start;
    for (size_t i = 0; i < raw.size; i++) {
        char c = raw.data[i];
        if (c == '%') {
            bool is_whole = raw.size - i > 2;
            int high = is_whole ? hex_value(raw.data[i + 1]) : -1;
            int low = is_whole ? hex_value(raw.data[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return refuse_url(parser, "% must be followed by two hexadecimal digits");
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0') {
            return refuse_url(parser, "%00 cannot be used");
        }
        *out++ = c;
    }
    *out++ = '\0';
    parser->out = out;
    *ret_piece = start;
    return QUERN_OK;
}

/* Splits `raw` at the first `separator`: *ret_rest is the rest after it, absent without a
 * separator. */
static struct qn_str split(struct qn_str raw, char separator, struct qn_str *ret_rest)
{
    const char *at = raw.size == 0 ? NULL : memchr(raw.data, separator, raw.size);
    if (at == NULL) {
        *ret_rest = (struct qn_str){.data = NULL};
        return raw;
    }
    size_t size = (size_t)(at - raw.data);
    *ret_rest = (struct qn_str){.data = at + 1, .size = raw.size - size - 1};
    return (struct qn_str){.data = raw.data, .size = size};
}

static quern_status parse_scheme(struct parser *parser, struct qn_str raw, struct qn_url *url)
{
    char *scheme = parser->out;
    for (size_t i = 0; i < raw.size; i++) {
        unsigned char c = (unsigned char)raw.data[i];
        bool valid = isalpha(c) || (i > 0 && (isdigit(c) || c == '+' || c == '-' || c == '.'));
        if (!valid) {
            return refuse_url(parser, "the scheme must be letters, digits, + - and .");
        }
    }
    if (raw.size == 0) {
        return refuse_url(parser, "the scheme is missing before ://");
    }
    quern_status status = take_piece(parser, raw, &url->scheme);
    for (; status == QUERN_OK && *scheme != '\0'; scheme++) {
        *scheme = (char)tolower((unsigned char)*scheme);
    }
    return status;
}

static quern_status parse_port(struct parser *parser, struct qn_str raw, struct qn_url *url)
{
    unsigned number = 0;
    for (size_t i = 0; i < raw.size; i++) {
        if (!isdigit((unsigned char)raw.data[i]) || number > 65535) {
            return refuse_url(parser, "the port must be a number from 1 to 65535");
        }
        number = number * 10 + (unsigned)(raw.data[i] - '0');
    }
    if (number < 1 || number > 65535) {
        return refuse_url(parser, "the port must be a number from 1 to 65535");
    }
    return take_piece(parser, raw, &url->port);
}

/* "host", "host:port", "[::1]" or "[::1]:port". A list of these, with commas, is not taken apart:
 * all of it is the host. */
static quern_status parse_host(struct parser *parser, struct qn_str raw, struct qn_url *url)
{
    struct qn_str port;
    struct qn_str host;
    if (raw.size > 0 && memchr(raw.data, ',', raw.size) != NULL) {
        return take_piece(parser, raw, &url->host);
    }
    if (raw.size > 0 && raw.data[0] == '[') {
        struct qn_str after;
        host = split((struct qn_str){.data = raw.data + 1, .size = raw.size - 1}, ']', &after);
        if (after.data == NULL || host.size == 0) {
            return refuse_url(parser, "an IPv6 address is written [address]");
        }
        struct qn_str nothing = split(after, ':', &port);
        if (nothing.size > 0) {
            return refuse_url(parser, "only :port may follow the ] of an IPv6 address");
        }
    } else {
        host = split(raw, ':', &port);
    }
    if (port.data != NULL && memchr(port.data, ':', port.size) != NULL) {
        return refuse_url(parser, "an IPv6 address is written [address]");
    }
    quern_status status = take_piece(parser, host, &url->host);
    if (status != QUERN_OK || port.data == NULL) {
        return status;
    }
    return parse_port(parser, port, url);
}

static quern_status parse_authority(struct parser *parser, struct qn_str raw, struct qn_url *url)
{
    /* An unescaped @ in a password is common; hosts have none, so the last one is the sign. */
    const char *sign = raw.size == 0 ? NULL : memrchr(raw.data, '@', raw.size);
    if (sign == NULL) {
        return parse_host(parser, raw, url);
    }
    struct qn_str userinfo = {.data = raw.data, .size = (size_t)(sign - raw.data)};
    struct qn_str host = {.data = sign + 1, .size = raw.size - userinfo.size - 1};
    struct qn_str password;
    struct qn_str user = split(userinfo, ':', &password);
    quern_status status = take_piece(parser, user, &url->user);
    if (status == QUERN_OK && password.data != NULL) {
        status = take_piece(parser, password, &url->password);
    }
    return status == QUERN_OK ? parse_host(parser, host, url) : status;
}

static quern_status parse_param(struct parser *parser, struct qn_str raw, struct qn_url *url)
{
    if (url->param_count == QN_URL_PARAM_MAX) {
        return refuse_url(parser, "it has more than 16 parameters");
    }
    struct qn_str raw_value;
    struct qn_str raw_name = split(raw, '=', &raw_value);
    const char *name;
    const char *value;
    quern_status status = take_piece(parser, raw_name, &name);
    if (status == QUERN_OK) {
        status = take_piece(parser, raw_value, &value);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (name[0] == '\0') {
        return refuse_url(parser, "a parameter has no name");
    }
    if (qn_url_param(url, name) != NULL) {
        return refuse_url(parser, "a parameter is given twice");
    }
    url->params[url->param_count].name = name;
    url->params[url->param_count].value = value;
    url->param_count++;
    return QUERN_OK;
}

static quern_status parse_query(struct parser *parser, struct qn_str raw, struct qn_url *url)
{
    while (raw.data != NULL) {
        struct qn_str rest;
        struct qn_str param = split(raw, '&', &rest);
        if (param.size > 0) {
            quern_status status = parse_param(parser, param, url);
            if (status != QUERN_OK) {
                return status;
            }
        }
        raw = rest;
    }
    return QUERN_OK;
}

static quern_status parse_pieces(struct parser *parser, struct qn_url *url)
{
    const char *text = parser->text;
    const char *mark = strstr(text, "://");
    if (mark == NULL) {
        size_t size = strlen(text) + 1;
        memcpy(parser->out, text, size);
        url->path = parser->out;
        return QUERN_OK;
    }
    if (qn_str_has_control(text)) {
        return refuse_url(parser, "it has control characters");
    }
    if (strchr(text, '#') != NULL) {
        return refuse_url(parser, "write # as %23");
    }
    struct qn_str scheme = {.data = text, .size = (size_t)(mark - text)};
    struct qn_str query;
    struct qn_str before =
        split((struct qn_str){.data = mark + 3, .size = strlen(mark + 3)}, '?', &query);
    const char *slash = before.size == 0 ? NULL : memchr(before.data, '/', before.size);
    struct qn_str authority = before;
    if (slash != NULL) {
        authority.size = (size_t)(slash - before.data);
    }
    struct qn_str path = {.data = before.data + authority.size,
                          .size = before.size - authority.size};
    quern_status status = parse_scheme(parser, scheme, url);
    if (status == QUERN_OK) {
        status = parse_authority(parser, authority, url);
    }
    if (status == QUERN_OK) {
        status = take_piece(parser, path, &url->path);
    }
    return status == QUERN_OK ? parse_query(parser, query, url) : status;
}

quern_status qn_url_parse(const char *text, struct qn_url *ret_url, quern_error *err)
{
    if (qn_str_blank(text)) {
        return qn_error_set(err, QUERN_E_INVALID, "the broker URL is empty");
    }
    size_t size = strlen(text) + PIECE_MAX;
    struct qn_url url = {
        .scheme = "", .user = "", .password = "", .host = "", .port = "", .path = ""};
    url.memory = qn_secret_alloc(size);
    if (url.memory == NULL) {
        return qn_error_nomem(err);
    }
    struct parser parser = {.text = text, .out = url.memory, .err = err};
    quern_status status = parse_pieces(&parser, &url);
    QN_ASSERT(parser.out <= url.memory + size);
    if (status != QUERN_OK) {
        qn_url_finish(&url);
        return status;
    }
    *ret_url = url;
    return QUERN_OK;
}

void qn_url_finish(struct qn_url *url)
{
    qn_secret_free(url->memory);
    *url = (struct qn_url){.memory = NULL};
}

const char *qn_url_next(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    for (const char *at = strchr(text, ';'); at != NULL; at = strchr(at + 1, ';')) {
        size_t size = strspn(at + 1, letters);
        if (size > 0 && qn_str_starts_with(at + 1 + size, "://")) {
            return at + 1;
        }
    }
    return NULL;
}

const char *qn_url_param(const struct qn_url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++) {
        if (strcmp(url->params[i].name, name) == 0) {
            return url->params[i].value;
        }
    }
    return NULL;
}

/* Where the value of a parameter that names a password starts; NULL when there is none in `text`,
 * which starts behind a '?' or '&'. */
static const char *secret_value(const char *text)
{
    static const char *const names[] = {"password=", "pass=", "secret=", "token="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncasecmp(text, names[i], strlen(names[i])) == 0) {
            return text + strlen(names[i]);
        }
    }
    return NULL;
}

/* Appends `size` bytes to out, as far as they fit, and returns the new length. */
static size_t append(char *out, size_t out_size, size_t used, struct qn_str piece)
{
    size_t left = out_size - 1 - used;
    size_t size = piece.size < left ? piece.size : left;
    memcpy(out + used, piece.data, size);
    out[used + size] = '\0';
    return used + size;
}

/* Hides from the first colon of the authority to the last @ of the text: a password may contain / ?
 * # or @ although it should not, so every byte that may be a part of it is hidden. */
void qn_url_redact(const char *text, char *out, size_t out_size)
{
    static const struct qn_str stars = {.data = "***", .size = 3};
    const char *mark = strstr(text, "://");
    const char *authority = mark == NULL ? text : mark + 3;
    const char *sign = strrchr(authority, '@');
    const char *colon = sign == NULL ? NULL : memchr(authority, ':', (size_t)(sign - authority));
    size_t used = 0;
    out[0] = '\0';
    if (colon != NULL) {
        struct qn_str shown = {.data = text, .size = (size_t)(colon + 1 - text)};
        used = append(out, out_size, used, shown);
        used = append(out, out_size, used, stars);
        text = sign;
    }
    while (*text != '\0') {
        /* The next parameter with a secret; the text before it is shown. */
        size_t size = 1 + strcspn(text + 1, "?&");
        const char *value = *text == '?' || *text == '&' ? secret_value(text + 1) : NULL;
        size_t shown_size = value == NULL ? size : (size_t)(value - text);
        used = append(out, out_size, used, (struct qn_str){.data = text, .size = shown_size});
        if (value != NULL) {
            used = append(out, out_size, used, stars);
            size = shown_size + strcspn(value, "&");
        }
        text += size;
    }
}
