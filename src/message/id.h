/* SPDX-License-Identifier: MIT */
/* id.h - task ids: UUIDv7 (RFC 9562), so that ids made one after the other sort that way. */
#ifndef QN_MESSAGE_ID_H
#define QN_MESSAGE_ID_H

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

#define QN_ID_TEXT_SIZE 37     /* with its NUL */
#define QN_ID_SHORT_SIZE_MIN 8 /* of the beginning of one, where it stands for the whole */

/* Makes ids that grow also within one millisecond and when the clock steps back (a counter in
 * rand_a, as the RFC's method 1). One thread at a time. */
struct qn_id_source {
    struct qn_random random;
    int64_t last_ms;
    uint32_t counter;
};

void qn_id_source_init(struct qn_id_source *source);
void qn_id_next(struct qn_id_source *source, int64_t wall_ms, char out[QN_ID_TEXT_SIZE]);

/* The size of a text that is a UUID of any version in lower case, or the beginning of one; 0: it is
 * neither. */
size_t qn_id_uuid_size(const char *text);

#endif
