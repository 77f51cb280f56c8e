/* SPDX-License-Identifier: MIT */
/* headers.h - a task's headers, stored as one blob: name NUL value NUL, and so on. */
#ifndef QN_BROKER_SQLITE_RUN_HEADERS_H
#define QN_BROKER_SQLITE_RUN_HEADERS_H

#include <stddef.h>

#include "quern/task.h"

size_t qn_sqlite_headers_size(const quern_header *headers, size_t count);
void qn_sqlite_headers_pack(const quern_header *headers, size_t count, char *out);
/* How many headers a blob holds; a damaged one holds none. */
size_t qn_sqlite_headers_count(const void *blob, size_t size);
/* Fills `count` (from qn_sqlite_headers_count) headers that point into the blob. */
void qn_sqlite_headers_unpack(const void *blob, size_t size, quern_header *headers, size_t count);

#endif
