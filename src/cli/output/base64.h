/* SPDX-License-Identifier: MIT */
/* base64.h - bytes that are no text, in JSON (RFC 4648). */
#ifndef QN_CLI_OUTPUT_BASE64_H
#define QN_CLI_OUTPUT_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "quern/export.h"

/* The caller's, freed with qn_free; NULL when memory is out. */
QUERN_NODISCARD char *qn_base64_encode(const void *data, size_t size);
/* Decodes the NUL-terminated text into `out`, which has room for 3 bytes per 4 characters; false:
 * not base64. */
QUERN_NODISCARD bool qn_base64_decode(const char *text, size_t size, void *out, size_t *ret_size);

#endif
