/* SPDX-License-Identifier: MIT */
/* text.h - stored bytes in a form that is fit for a terminal; results are freed with qn_free. */
#ifndef QN_CLI_OUTPUT_TEXT_H
#define QN_CLI_OUTPUT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/export.h"

/* The text with control characters, bytes that are not UTF-8 and direction marks as escapes. */
QUERN_NODISCARD char *qn_text_safe(const char *data, size_t size);
/* As qn_text_safe for texts, else "5 bytes: 00 01 02 ..." or "1.2 MiB: ..."; for payloads and
 * results. */
QUERN_NODISCARD char *qn_text_bytes(const void *data, size_t size);
/* The text, or with is_bytes as qn_text_bytes, cut with an ellipsis to fit into width_max columns.
 */
QUERN_NODISCARD char *qn_text_cell(const void *data, size_t size, bool is_bytes, size_t width_max);
/* "532 bytes", "1.2 MiB". */
#define QN_TEXT_SIZE_SIZE 32
void qn_text_of_size(uint64_t bytes, char out[QN_TEXT_SIZE_SIZE]);
/* Columns on a terminal. */
size_t qn_text_width(const char *text);
/* How many bytes of the text fit into `width` columns. */
size_t qn_text_fit(const char *text, size_t width);

#endif
