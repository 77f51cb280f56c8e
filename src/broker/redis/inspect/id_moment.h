/* SPDX-License-Identifier: MIT */
/* id_moment.h - when an id was made. */
#ifndef QN_BROKER_REDIS_INSPECT_ID_MOMENT_H
#define QN_BROKER_REDIS_INSPECT_ID_MOMENT_H

#include "broker/redis/inspect/inspect.h"

/* The moment in an id that we made; 0 for other ids. */
int64_t qn_id_moment_ms(const struct qn_task_entry *entry);

#endif
