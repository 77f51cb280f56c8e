/* SPDX-License-Identifier: MIT */
/* process.h - what every program shows of itself: process_*, as Prometheus' own libraries name it,
 * and quern_build_info. */
#ifndef QN_METRICS_PROCESS_H
#define QN_METRICS_PROCESS_H

#include "metrics/exposition.h"

/* What cannot be read, as where /proc is not mounted, is left out. */
void qn_process_render(struct qn_exposition *exposition);

#endif
