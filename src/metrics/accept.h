/* SPDX-License-Identifier: MIT */
/* accept.h - which format an Accept header of HTTP wants. */
#ifndef QN_METRICS_ACCEPT_H
#define QN_METRICS_ACCEPT_H

#include "quern/metrics.h"

/* OpenMetrics where version 1.0.0 of it, or one that is not named, is wanted at least as much as
 * text, by its q. Text else: of what is no media range, or longer than 4 KB, nothing is known. */
quern_metrics_format qn_accept_choose(const char *accept);

#endif
