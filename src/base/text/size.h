/* SPDX-License-Identifier: MIT */
/* size.h - sizes in bytes as people write them: "512M", "1.5G", "64KiB"; a bare number is bytes. */
#ifndef QN_BASE_TEXT_SIZE_H
#define QN_BASE_TEXT_SIZE_H

#include <stdint.h>

#include "quern/status.h"

/* Units: B, K, M, G, T, each of them 1024 of the one before, also written KB and KiB. */
QUERN_NODISCARD quern_status qn_size_parse(const char *text, int64_t *ret_bytes, quern_error *err);

#endif
