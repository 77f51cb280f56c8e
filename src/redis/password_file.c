/* SPDX-License-Identifier: MIT */
/* password_file.c - reads a password from the first line of a file that no other user can write. */
#include "redis/password_file.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/trusted_file.h"

quern_status qn_password_file_read(const char *parameter, const char *path,
                                   char out[QN_PASSWORD_SIZE], quern_error *err)
{
    size_t size = 0;
    const char *wrong = qn_trusted_file_read(path, true, out, QN_PASSWORD_SIZE, &size);
    if (wrong != NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "redis: %s %.120s: %s", parameter, path, wrong);
    }
    out[strcspn(out, "\r\n")] = '\0';
    return out[0] != '\0'
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_INVALID, "redis: %s %.120s: its first line is empty",
                              parameter, path);
}
