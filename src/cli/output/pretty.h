/* SPDX-License-Identifier: MIT */
/* pretty.h - JSON in lines, for people. */
#ifndef QN_CLI_OUTPUT_PRETTY_H
#define QN_CLI_OUTPUT_PRETTY_H

#include <stddef.h>

#include "quern/export.h"

/* The document with a line for each member, indented; its tokens stay as they are written. NULL: it
 * is no JSON object or array. Not fit for a terminal yet. Freed with qn_free. */
QUERN_NODISCARD char *qn_pretty_json(const char *data, size_t size);

#endif
