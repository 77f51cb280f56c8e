/* SPDX-License-Identifier: MIT */
/* name.c - the rules for names of tasks, types and queues.
 *
 * A name that is refused is quoted in the error as printable ASCII, so that no name can forge
 * output. */
#include "task/name.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/text/str.h"
#include "base/text/utf8.h"
#include "task/limits.h"

const char *qn_name_show(const char *name, char out[QN_NAME_SHOWN_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    size_t size = strlen(name);
    bool valid = qn_utf8_valid(name, size) && !qn_str_has_control(name) && !qn_str_has_bidi(name);
    char *at = out;
    if (valid && size <= QN_NAME_SHOWN_MAX) {
        memcpy(out, name, size + 1);
        return out;
    }
    for (size_t i = 0; i < size && i < QN_NAME_SHOWN_MAX; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c >= 0x20 && c < 0x7f) {
            *at++ = name[i];
            continue;
        }
        *at++ = '\\';
        *at++ = 'x';
        *at++ = digits[c >> 4];
        *at++ = digits[c & 0xf];
    }
    memcpy(at, size > QN_NAME_SHOWN_MAX ? "..." : "", size > QN_NAME_SHOWN_MAX ? 4 : 1);
    return out;
}

quern_status qn_name_check(const char *what, const char *name, quern_error *err)
{
    if (name == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s is missing", what);
    }
    char shown[QN_NAME_SHOWN_SIZE];
    size_t size = strlen(name);
    if (size == 0) {
        return qn_error_set(err, QUERN_E_INVALID, "%s must not be empty", what);
    }
    if (size > QN_NAME_SIZE_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "%s \"%s\" has %zu bytes, at most %d are allowed",
                            what, qn_name_show(name, shown), size, QN_NAME_SIZE_MAX);
    }
    if (qn_str_is_plain(name)) {
        return QUERN_OK; /* as nearly all are */
    }
    if (!qn_utf8_valid(name, size)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s \"%s\" is not valid UTF-8", what,
                            qn_name_show(name, shown));
    }
    if (qn_str_blank(name)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s must not be blank", what);
    }
    if (qn_str_has_control(name)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s \"%s\" has control characters", what,
                            qn_name_show(name, shown));
    }
    return QUERN_OK;
}

quern_status qn_name_check_queue(const char *name, quern_error *err)
{
    quern_status status = qn_name_check("queue", name, err);
    if (status == QUERN_OK && strpbrk(name, "{}") != NULL) {
        char shown[QN_NAME_SHOWN_SIZE];
        return qn_error_set(err, QUERN_E_INVALID, "queue \"%s\" must not contain { or }",
                            qn_name_show(name, shown));
    }
    return status;
}

quern_status qn_name_check_new(const char *what, const char *name, quern_error *err)
{
    quern_status status = qn_name_check(what, name, err);
    if (status == QUERN_OK && qn_str_has_bidi(name) && !QN_BUG(MARKS_IN_NAMES)) {
        char shown[QN_NAME_SHOWN_SIZE];
        return qn_error_set(err, QUERN_E_INVALID,
                            "%s \"%s\" has marks that change the direction of text", what,
                            qn_name_show(name, shown));
    }
    return status;
}

bool qn_name_is_odd(const char *name)
{
    return strpbrk(name, ",*") != NULL;
}

quern_status qn_name_check_served(const char *name, quern_error *err)
{
    char shown[QN_NAME_SHOWN_SIZE];
    size_t size = strlen(name);
    if (qn_str_blank(name)) {
        return qn_error_set(err, QUERN_E_INVALID, "queue must not be blank");
    }
    if (size > QN_SERVED_NAME_SIZE_MAX || !qn_utf8_valid(name, size)) {
        return qn_error_set(err, QUERN_E_INVALID, "queue \"%s\" is not UTF-8 of at most %d bytes",
                            qn_name_show(name, shown), QN_SERVED_NAME_SIZE_MAX);
    }
    return QUERN_OK;
}
