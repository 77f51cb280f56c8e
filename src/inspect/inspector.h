/* SPDX-License-Identifier: MIT */
/* inspector.h - the inside of an inspector, and how its lists keep what they show. */
#ifndef QN_INSPECT_INSPECTOR_H
#define QN_INSPECT_INSPECTOR_H

#include "broker/broker.h"

/* Nothing here changes after opening, and the broker is thread-safe: so there is no lock. */
struct quern_inspector {
    struct qn_broker *broker;
    uint64_t act_free; /* how many tasks a bulk action takes before it asks how many there are */
};

/* An array that doubles: makes room for one more element of `size` bytes; false: no memory, and
 * nothing was changed. */
bool qn_inspect_grow(void **items, size_t *capacity, size_t count, size_t size);
/* QUERN_E_INVALID when it is NULL, QUERN_E_CLOSED in a fork. */
QUERN_NODISCARD quern_status qn_inspect_enter(const quern_inspector *inspector, quern_error *err);

#endif
