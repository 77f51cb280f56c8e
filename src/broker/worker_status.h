/* SPDX-License-Identifier: MIT */
/* worker_status.h - what a worker does, as its heartbeat has it in words. */
#ifndef QN_BROKER_WORKER_STATUS_H
#define QN_BROKER_WORKER_STATUS_H

#include "quern/inspector.h"

/* QUERN_WORKER_UNKNOWN for NULL and for a text that this version does not know. */
quern_worker_status qn_worker_status_read(const char *text);

#endif
