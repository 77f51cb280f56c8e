/* SPDX-License-Identifier: MIT */
/* inspector.h - the inside of an inspector. */
#ifndef QN_INSPECT_INSPECTOR_H
#define QN_INSPECT_INSPECTOR_H

#include "broker/inspect.h"

/* Nothing here changes after opening, and the broker is thread-safe: so there is no lock. */
struct quern_inspector {
    struct qn_broker *broker;
    const struct quern_clock *clock;
    uint64_t act_free; /* how many tasks a bulk action takes before it asks how many there are */
};

/* QUERN_E_INVALID when it is NULL, QUERN_E_CLOSED in a fork. */
QUERN_NODISCARD quern_status qn_inspect_enter(const quern_inspector *inspector, quern_error *err);
/* QUERN_E_INVALID when it is none. */
QUERN_NODISCARD quern_status qn_inspect_check_action(quern_action action, quern_error *err);

#endif
