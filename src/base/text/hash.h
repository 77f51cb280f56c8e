/* SPDX-License-Identifier: MIT */
/* hash.h - FNV-1a, 64 bits: for tables and marks; not safe against deliberate collisions. */
#ifndef QN_BASE_TEXT_HASH_H
#define QN_BASE_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>

#define QN_HASH_START UINT64_C(14695981039346656037)

/* Continues `hash`, the hash of some bytes, with these bytes. */
uint64_t qn_hash_bytes(uint64_t hash, const void *data, size_t size);
/* The same with an end behind the bytes, so that "ab" and "c" are not "a" and "bc". */
uint64_t qn_hash_part(uint64_t hash, const void *data, size_t size);

#endif
