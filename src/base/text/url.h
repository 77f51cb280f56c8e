/* SPDX-License-Identifier: MIT */
/* url.h - broker URLs: "scheme://[user[:password]@]host[:port]/path?key=value&...",
 * percent-decoded; text without "://" is a path with scheme "". The text of errors never shows a
 * password. */
#ifndef QN_BASE_TEXT_URL_H
#define QN_BASE_TEXT_URL_H

#include <stddef.h>

#include "quern/status.h"

#define QN_URL_PARAM_MAX 16
struct qn_url {
    char *memory;       /* holds all the strings below; see secret.h */
    const char *scheme; /* "" for a plain path; strings are "" when absent */
    const char *user;
    const char *password;
    const char *host; /* or a list, "host:port,host", and then no port */
    const char *port;
    const char *path; /* with its leading '/', for a plain path as given */
    size_t param_count;
    struct {
        const char *name;
        const char *value;
    } params[QN_URL_PARAM_MAX];
};

QUERN_NODISCARD quern_status qn_url_parse(const char *text, struct qn_url *ret_url,
                                          quern_error *err);
void qn_url_finish(struct qn_url *url);
/* The next one of a list "URL;URL": what begins like a URL behind a semicolon. NULL: no more. */
const char *qn_url_next(const char *text);
/* NULL when there is no such parameter. */
const char *qn_url_param(const struct qn_url *url, const char *name);
/* Writes the URL with the password as "***" to out, cut to fit. */
void qn_url_redact(const char *text, char *out, size_t out_size);

#endif
