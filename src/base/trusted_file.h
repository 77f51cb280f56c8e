/* SPDX-License-Identifier: MIT */
/* trusted_file.h - reads a file that decides whom we trust, or that holds a secret. */
#ifndef QN_BASE_TRUSTED_FILE_H
#define QN_BASE_TRUSTED_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "quern/export.h"

/* Reads at most size - 1 bytes of the file and puts a NUL behind them. Returns NULL, or why not: it
 * cannot be read, or other users may write to it or replace it, or, if it is secret, read it. The
 * text is static or that of strerror. */
QUERN_NODISCARD const char *qn_trusted_file_read(const char *path, bool is_secret, char *out,
                                                 size_t size, size_t *ret_size);

#endif
