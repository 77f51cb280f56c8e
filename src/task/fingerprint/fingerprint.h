/* SPDX-License-Identifier: MIT */
/* fingerprint.h - what errors of one kind have in common: their text without numbers, ids and
 * addresses. Pure. */
#ifndef QN_TASK_FINGERPRINT_FINGERPRINT_H
#define QN_TASK_FINGERPRINT_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#define QN_FINGERPRINT_TEXT_SIZE 512

/* Writes the beginning of the text with "#" in place of numbers, UUIDs, hexadecimal numbers, words
 * with a digit that are long, and mail addresses, and one blank in place of several; returns its
 * hash. */
uint64_t qn_fingerprint(const char *error, char text[QN_FINGERPRINT_TEXT_SIZE]);

#endif
