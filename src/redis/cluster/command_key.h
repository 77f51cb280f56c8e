/* SPDX-License-Identifier: MIT */
/* command_key.h - which argument of a command is its key. No I/O. */
#ifndef QN_REDIS_CLUSTER_COMMAND_KEY_H
#define QN_REDIS_CLUSTER_COMMAND_KEY_H

#include <stdbool.h>
#include <stddef.h>

/* The index of the first key among the arguments, the first of which is the name; 0: it has none,
 * and any node of a cluster may do it. Knows the commands that quern sends. */
size_t qn_command_key_at(const char *const *args, size_t arg_count, bool is_script);

#endif
