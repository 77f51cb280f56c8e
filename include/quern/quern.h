/* SPDX-License-Identifier: MIT */
/* quern/quern.h - background tasks in C: enqueue here, run them anywhere.
 *
 * Conventions of all headers
 *   Errors     Every call that can fail returns quern_status; QUERN_OK is 0. `err` may be NULL.
 *              ret_ arguments are written on success only.
 *   Options    Zero means "the default", so a partly initialised struct is complete; NULL options
 *              mean all defaults. Wrappers pass sizeof, so structs can grow at their end. The
 *              library copies what it needs before it returns.
 *   Ownership  _new and _open give you an object, _free takes it back; _free(NULL) does nothing.
 *              const char * results belong to the object they were read from.
 *   Threads    Said at each type. The library has no global state, prints nothing (but for the
 *              warnings of a worker without on_log), reads no environment and sets no signal
 *              handler. After fork() the child opens objects of its own.
 *   Times      Durations are *_ms; moments are *_at_ms, milliseconds since the Unix epoch.
 */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include "quern/client.h"
#include "quern/export.h"
#include "quern/inspector.h"
#include "quern/mux.h"
#include "quern/run.h"
#include "quern/status.h"
#include "quern/task.h"
#include "quern/version.h"
#include "quern/worker.h"

#endif
