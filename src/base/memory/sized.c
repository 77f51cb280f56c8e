/* SPDX-License-Identifier: MIT */
/* sized.c - reading a caller's options struct of any known size.
 *
 * The common part is copied. Fields that an older caller does not have become zero. Fields of a
 * newer caller beyond ours must be zero: else it requests something that would be ignored
 * silently. */
#include "base/memory/sized.h"

#include <string.h>

#include "base/error.h"

quern_status qn_sized_copy(struct qn_room ours, struct qn_bytes theirs, const char *name,
                           quern_error *err)
{
    if (theirs.data == NULL) {
        memset(ours.data, 0, ours.size);
        return QUERN_OK;
    }
    const uint8_t *bytes = theirs.data;
    if (theirs.size % _Alignof(void *) != 0) { /* it would end within a pointer */
        return qn_error_set(err, QUERN_E_INVALID, "%s: a struct of %zu bytes is none of ours", name,
                            theirs.size);
    }
    if (theirs.size > ours.size && !qn_sized_zero(bytes + ours.size, theirs.size - ours.size)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "%s: sets a field that this version of libquern does not know "
                            "(struct of %zu bytes, known are %zu)",
                            name, theirs.size, ours.size);
    }
    size_t common = theirs.size < ours.size ? theirs.size : ours.size;
    memcpy(ours.data, theirs.data, common);
    memset((char *)ours.data + common, 0, ours.size - common);
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
