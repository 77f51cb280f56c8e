/* SPDX-License-Identifier: MIT */
/* password_file.h - reads a password from the first line of a file. */
#ifndef QN_REDIS_PASSWORD_FILE_H
#define QN_REDIS_PASSWORD_FILE_H

#include "quern/status.h"

#define QN_PASSWORD_SIZE 4096

/* QUERN_E_INVALID: there is none, or the file cannot be trusted; the text names the parameter. */
QUERN_NODISCARD quern_status qn_password_file_read(const char *parameter, const char *path,
                                                   char out[QN_PASSWORD_SIZE], quern_error *err);

#endif
