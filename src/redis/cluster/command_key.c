/* SPDX-License-Identifier: MIT */
/* command_key.c - the commands that quern sends. */
#include "redis/cluster/command_key.h"

#include <string.h>

size_t qn_command_key_at(const char *const *args, size_t arg_count, bool is_script)
{
    static const char *const keyless[] = {"PUBLISH", "TIME", "INFO",   "CONFIG",
                                          "SCAN",    "WAIT", "DBSIZE", "CLIENT"};
    size_t at = 1;
    if (is_script) {
        at = 3; /* EVALSHA hash count key ... */
    } else if (strcmp(args[0], "MEMORY") == 0) {
        at = 2; /* MEMORY USAGE key */
    }
    for (size_t i = 0; !is_script && i < sizeof keyless / sizeof *keyless; i++) {
        at = strcmp(args[0], keyless[i]) == 0 ? 0 : at;
    }
    return at < arg_count ? at : 0;
}
