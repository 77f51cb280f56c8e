/* SPDX-License-Identifier: MIT */
/* format.h - a command as the server reads it; only talk.c and hello.c use it. */
#ifndef QN_BROKER_REDIS_FORMAT_H
#define QN_BROKER_REDIS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "quern/export.h"

/* No command of this many arguments of these sizes needs more room than that. */
size_t qn_format_size_max(const size_t *sizes, size_t count);
/* Writes the command to *at, where there is room for it, and moves *at behind. False: memory was
 * out, or it has more than 2 GiB, which no server takes. `secret`: no other copy of it is left. */
QUERN_NODISCARD bool qn_format(char **at, const char **args, const size_t *sizes, size_t count,
                               bool secret);

#endif
