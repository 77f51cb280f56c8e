/* SPDX-License-Identifier: MIT */
/* secret.h - memory for texts that may hold a password. */
#ifndef QN_BASE_MEMORY_SECRET_H
#define QN_BASE_MEMORY_SECRET_H

#include <stddef.h>

#include "quern/export.h"

/* Zeroed memory on pages of its own that no core dump contains. NULL: out of memory. */
QUERN_NODISCARD void *qn_secret_alloc(size_t size);
QUERN_NODISCARD char *qn_secret_strdup(const char *text);
/* Wipes it before it goes back to the heap. NULL is fine. */
void qn_secret_free(void *secret);

#endif
