/* SPDX-License-Identifier: MIT */
/* load.h - the handlers of a shared object, see quern/handlers.h. */
#ifndef QN_CLI_HANDLERS_LOAD_H
#define QN_CLI_HANDLERS_LOAD_H

#include "quern/mux.h"

/* Loads the object for the life of this process, and lets it register its handlers. The text names
 * the file. QUERN_E_NOT_FOUND: no such file; QUERN_E_INVALID: no object of handlers, or an
 * undefined symbol; QUERN_E_UNSUPPORTED: compiled for another version; else what quern_handlers
 * returned. */
QUERN_NODISCARD quern_status qn_handlers_load(const char *path, quern_mux *mux, quern_error *err);

#endif
