/* SPDX-License-Identifier: MIT */
/* format.c - hiredis' formatter, for several commands in one block.
 *
 * hiredis makes a block of its own for each command, which is copied behind the others, so that all
 * go out in one write. hiredis 0.14 adds the sizes up in an int: what would not fit is refused. */
#include "broker/redis/format.h"

#include <hiredis/hiredis.h>
#include <limits.h>
#include <string.h>

#define HEAD_SIZE_MAX 24 /* the sign, 20 digits, the end of the line */

size_t qn_format_size_max(const size_t *sizes, size_t count)
{
    size_t size_max = HEAD_SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_max += sizes[i] + HEAD_SIZE_MAX + 2;
    }
    return size_max;
}

bool qn_format(char **at, const char **args, const size_t *sizes, size_t count, bool secret)
{
    if (qn_format_size_max(sizes, count) >= INT_MAX) {
        return false;
    }
    char *command = NULL;
    int size = redisFormatCommandArgv(&command, (int)count, args, sizes);
    if (size < 0) {
        return false;
    }
    memcpy(*at, command, (size_t)size);
    *at += size;
    if (secret) {
        explicit_bzero(command, (size_t)size);
    }
    redisFreeCommand(command);
    return true;
}
