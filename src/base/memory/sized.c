/* SPDX-License-Identifier: MIT */
/* sized.c - reading a caller's options struct of any known size.
 *
 * The common part is copied. Fields that an older caller does not have become zero. Fields of a
 * newer caller beyond ours must be zero: else it requests something that would be ignored
 * silently. */
#include "base/memory/sized.h"

#include <string.h>

#include "base/error.h"

quern_status qn_sized_copy(void *ours, size_t ours_size, const void *theirs, size_t theirs_size,
                           const char *name, quern_error *err)
{
    if (theirs == NULL) {
        memset(ours, 0, ours_size);
        return QUERN_OK;
    }
    const uint8_t *bytes = theirs;
    if (theirs_size > ours_size && !qn_sized_zero(bytes + ours_size, theirs_size - ours_size)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "%s: sets a field that this version of libquern does not know "
                            "(struct of %zu bytes, known are %zu)",
                            name, theirs_size, ours_size);
    }
    size_t common = theirs_size < ours_size ? theirs_size : ours_size;
    memcpy(ours, theirs, common);
    memset((char *)ours + common, 0, ours_size - common);
    return QUERN_OK;
}

bool qn_sized_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}
