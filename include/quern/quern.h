/* SPDX-License-Identifier: MIT */
/* quern/quern.h - background tasks in C: enqueue here, run them anywhere.
 *
 * Conventions of all headers
 *   Errors     Every call that can fail returns quern_status; QUERN_OK is 0. `err` may be NULL.
 *              ret_ arguments are written on success only, unless a comment says otherwise.
 *   NULL       Pointers must not be NULL unless a comment says so. Functions that return
 *              quern_status check that (QUERN_E_INVALID, and the text names the argument);
 *              accessors of objects that the library returned do not.
 *   Options    Zero means "the default", so a partly initialised struct is complete; NULL options
 *              mean all defaults. The library copies what it needs before it returns. A flag is a
 *              bool. Enums may get new values in a newer library: a switch over a returned value
 *              needs a default.
 *   Growth     Structs that you fill grow at their end only, and their size is passed along: the
 *              function NAME is an inline wrapper that passes sizeof to NAME_sized, at the end of
 *              each header. So a newer library reads the struct of an older program; a field that
 *              an older library does not know is refused with QUERN_E_INVALID when it is set.
 *              Bindings for other languages call NAME_sized. Options of x_new and x_open are
 *              struct x_options; x_get_NAME returns a struct x_NAME.
 *   Since      Declarations without "since" exist since 0.1. See QUERN_VERSION_NUMBER.
 *   Ownership  _new and _open return an object, which the caller frees with _free; _free(NULL)
 *              does nothing. const char * results belong to the object they were read from.
 *   Threads    Documented at each type. The library has no global state but the list of open
 *              "memory:" brokers and that of workers and schedulers in their _run_until_signal. It
 *              prints nothing but the warnings of a worker or scheduler without on_log and the
 *              lines passed to quern_log_stderr, reads no environment and sets no signal handler.
 *              After fork() the child opens objects of its own.
 *   Times      Durations are *_ms; moments are *_at_ms, milliseconds since the Unix epoch.
 */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include "quern/client.h"
#include "quern/command.h"
#include "quern/entry.h"
#include "quern/explain.h"
#include "quern/export.h"
#include "quern/group.h"
#include "quern/header.h"
#include "quern/inspector.h"
#include "quern/log.h"
#include "quern/metrics.h"
#include "quern/mux.h"
#include "quern/run.h"
#include "quern/scheduler.h"
#include "quern/search.h"
#include "quern/status.h"
#include "quern/task.h"
#include "quern/trace.h"
#include "quern/version.h"
#include "quern/worker.h"

#endif
