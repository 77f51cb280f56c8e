/* SPDX-License-Identifier: MIT */
/* error.c - filling the caller's quern_error.
 *
 * Texts are built beside the caller's struct and then copied, because arguments often point into it
 * ("open %s: %s", path, err->text). A text that does not fit is cut at a character; bytes that are
 * not UTF-8 are replaced, so that every text can be printed, logged and put into JSON. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"

/* For clang-tidy these are macros: see error.h. */
#undef qn_error_set
#undef qn_error_nomem

quern_status qn_error_set(quern_error *err, quern_status status, const char *format, ...)
{
    if (err == NULL) {
        return status;
    }
    char text[2 * sizeof err->text];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size < 0) {
        text[0] = '\0';
    }
    err->code = status;
    (void)qn_utf8_sanitize(text, strlen(text), err->text, sizeof err->text);
    return status;
}

void qn_error_prefix(quern_error *err, const char *format, ...)
{
    if (err == NULL) {
        return;
    }
    char text[3 * sizeof err->text];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text / 2, format, args);
    va_end(args);
    size_t used = size < 0 ? 0 : strlen(text);
    (void)snprintf(text + used, sizeof text - used, ": %s", err->text);
    (void)qn_utf8_sanitize(text, strlen(text), err->text, sizeof err->text);
}

quern_status qn_error_as_unknown(quern_error *err, const char *prefix)
{
    qn_error_prefix(err, "%s", prefix);
    if (err != NULL) {
        err->code = QUERN_E_UNKNOWN;
    }
    return QUERN_E_UNKNOWN;
}

quern_status qn_error_nomem(quern_error *err)
{
    return qn_error_set(err, QUERN_E_NOMEM, "out of memory");
}
