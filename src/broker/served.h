/* SPDX-License-Identifier: MIT */
/* served.h - the names of the queues in a heartbeat. */
#ifndef QN_BROKER_SERVED_H
#define QN_BROKER_SERVED_H

#include <stdbool.h>

#include "base/text/str.h"

/* The next name at *at, which begins as "critical=6 default=3" and is moved on; false: there is
 * none. A name may hold blanks and equal signs. */
bool qn_served_next(const char **at, struct qn_str *ret_name);

#endif
