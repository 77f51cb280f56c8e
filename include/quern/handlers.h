/* SPDX-License-Identifier: MIT */
/* quern/handlers.h - a shared object of handlers, for `quern work --handlers ./handlers.so` and
 * `quern task replay --handlers ./handlers.so`.
 *
 * It registers its handlers in one function, which it begins with QUERN_HANDLERS:
 *
 *     #include <quern/handlers.h>
 *     QUERN_HANDLERS(mux, err)
 *     {
 *         return quern_mux_handle(mux, "image:resize", resize, NULL, NULL, err);
 *     }
 *
 * Compile it with `cc -shared -fPIC -o handlers.so handlers.c $(pkg-config --cflags quern)`. The
 * program quern has all functions of the library, so there is no need to link with libquern; who
 * does link with it still uses those of the program. It is not included by quern.h, since the
 * library does not define what is declared here. */
#ifndef QUERN_HANDLERS_H
#define QUERN_HANDLERS_H

#include "quern/mux.h"
#include "quern/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers that it was compiled with. A program of another minor version before
 * 1.0, later of another major version or of an older one, refuses it. */
QUERN_API extern const int quern_handlers_version;

/* Called once, in a process of its own without other threads; children of that process run the
 * handlers (`task replay` runs one in the process itself). It must not start threads: none of them
 * would be in a child. What it opens is shared by all children. Any other status than QUERN_OK ends
 * the process, and err is reported. The object is never unloaded. */
QUERN_API quern_status quern_handlers(quern_mux *mux, quern_error *err);

#ifdef __cplusplus
}
#endif

/* NOLINTBEGIN(bugprone-macro-parentheses): both are names */
/* The beginning of quern_handlers, with the names of its parameters. */
#define QUERN_HANDLERS(mux, err)                                                                   \
    const int quern_handlers_version = QUERN_VERSION_NUMBER;                                       \
    quern_status quern_handlers(quern_mux *mux, quern_error *err)
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
