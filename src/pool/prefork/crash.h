/* SPDX-License-Identifier: MIT */
/* crash.h - what a child leaves behind when a signal kills it. */
#ifndef QN_POOL_PREFORK_CRASH_H
#define QN_POOL_PREFORK_CRASH_H

#include "pool/prefork/page.h"

/* In the zygote, once all is loaded: reads the names of functions that its children may die in. */
void qn_crash_prepare(void);
/* Handles the signals of crashes in this process: writes the signal, the address and a backtrace
 * to the page, then lets the signal have its default effect. Signals that have a handler already,
 * as one of a sanitizer, keep it. Once per process, before it has other threads. */
void qn_crash_handle(struct qn_page *page);

#endif
