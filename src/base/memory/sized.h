/* SPDX-License-Identifier: MIT */
/* sized.h - reading a caller's options struct of any known size.
 *
 * Programs built against older headers pass a smaller struct (the missing fields are 0), newer ones
 * a larger one (its unknown bytes must be 0, or they ask for something we do not know). */
#ifndef QN_BASE_MEMORY_SIZED_H
#define QN_BASE_MEMORY_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/view.h"
#include "quern/status.h"

/* Copies the caller's struct (may be NULL: all zero) into ours; QUERN_E_INVALID with `name` in the
 * text when it sets a field that this version does not know, or has a size that no version has. */
QUERN_NODISCARD quern_status qn_sized_copy(struct qn_room ours, struct qn_bytes theirs,
                                           const char *name, quern_error *err);
/* Whether `size` reserved bytes are 0, as they must be. */
bool qn_sized_zero(const uint8_t *bytes, size_t size);

#endif
