/* SPDX-License-Identifier: MIT */
/* encode.h - a command as the server reads it. */
#ifndef QN_REDIS_ENCODE_H
#define QN_REDIS_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#define QN_DIGITS_MAX 20 /* of 64 bits */

/* No command of this many arguments of these sizes needs more room than that. */
size_t qn_encode_size_max(const size_t *sizes, size_t count);
/* Writes the command to *at, where there is room for it, and moves *at behind. */
void qn_encode(char **at, const char **args, const size_t *sizes, size_t count);
/* Writes the decimals of a number so that they end before `end`; returns where they begin. There
 * are QN_DIGITS_MAX at most. */
char *qn_encode_digits(char *end, uint64_t number);

#endif
