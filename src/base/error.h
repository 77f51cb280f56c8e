/* SPDX-License-Identifier: MIT */
/* error.h - filling the caller's quern_error. */
#ifndef QN_BASE_ERROR_H
#define QN_BASE_ERROR_H

#include "quern/status.h"

/* Fills err (may be NULL) with the status and the formatted text, cut to fit, and returns the
 * status, so that `return qn_error_set(err, QUERN_E_INVALID, "...")` reads straight. */
quern_status qn_error_set(quern_error *err, quern_status status, const char *format, ...)
    QUERN_PRINTF(3, 4);
/* Puts "prefix: " before the text that is there. */
void qn_error_prefix(quern_error *err, const char *format, ...) QUERN_PRINTF(2, 3);
/* The same, and makes it QUERN_E_UNKNOWN, which is returned: it may have been done or not. */
quern_status qn_error_as_unknown(quern_error *err, const char *prefix);
/* "out of memory". */
quern_status qn_error_nomem(quern_error *err);

/* For clang-tidy, which cannot see from another file which status is returned. */
#ifdef __clang_analyzer__
#define qn_error_set(err, status, ...) ((void)(qn_error_set)(err, status, __VA_ARGS__), (status))
#define qn_error_nomem(err) ((void)(qn_error_nomem)(err), QUERN_E_NOMEM)
#endif

#endif
