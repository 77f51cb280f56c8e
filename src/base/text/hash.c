/* SPDX-License-Identifier: MIT */
/* hash.c - FNV-1a, byte by byte. The end of a part is 0xff, which no UTF-8 text holds. */
#include "base/text/hash.h"

#define PRIME UINT64_C(1099511628211)
#define PART_END 0xff

uint64_t qn_hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * PRIME;
    }
    return hash;
}

uint64_t qn_hash_part(uint64_t hash, const void *data, size_t size)
{
    return (qn_hash_bytes(hash, data, size) ^ PART_END) * PRIME;
}
