/* SPDX-License-Identifier: MIT */
/* quern/zygote.h - handlers in processes of their own, forked by a zygote.
 *
 * A handler that crashes, leaks or runs for ever then costs its own run and nothing else. All
 * processes with handlers ("children") are forks of the zygote, a process without threads. With
 * handlers in the same program, it is started first thing in main:
 *
 *     quern_zygote_start(mux, NULL, &zygote, &err);
 *     quern_worker_options options = {.pool = QUERN_POOL_PREFORK, .zygote = zygote};
 *     quern_worker_new(url, mux, &options, &worker, &err);
 *
 * A program that has threads executes another one as its zygote, which has the handlers:
 * quern_zygote_exec here, quern_zygote_serve there. The zygote and all children end with the
 * process that started it, also where that is killed. */
#ifndef QUERN_ZYGOTE_H
#define QUERN_ZYGOTE_H

#include "quern/mux.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_zygote quern_zygote;

typedef struct quern_zygote_options {
    /* Called once in each child before its first run, e.g. to open a database: connections must not
     * be shared by forks. NULL: nothing. Not for quern_zygote_exec. */
    void (*on_child_start)(void *user);
    void *user;
    int64_t start_timeout_ms; /* how long an executed program may need until it serves; 0: 10 s */
} quern_zygote_options;

/* Forks the zygote. `mux` cannot be changed any more, and must outlive it; handlers, middlewares
 * and their callbacks run in children only, aggregators in the worker. Commands are forked by a
 * zygote, too: a second one where the mux has both. A worker whose pool is threads uses it for
 * commands alone. Buffers of stdio should be empty, and no lock held. options may be NULL.
 * The caller frees the zygote after the worker that used it. Errors: QUERN_E_THREADS (this process
 * has other threads), QUERN_E_FULL (no process or no descriptor). */
QUERN_NODISCARD static inline quern_status quern_zygote_start(const quern_mux *mux,
                                                              const quern_zygote_options *options,
                                                              quern_zygote **ret_zygote,
                                                              quern_error *err);

/* Executes the program `path` (no search in PATH; argv ends with NULL) as zygote, and waits until
 * it calls quern_zygote_serve. Pass NULL as the mux of the worker: it uses the patterns and options
 * of that program. Any thread. options may be NULL. The caller frees the zygote after the worker.
 * Errors: QUERN_E_TIMEOUT (start_timeout_ms), QUERN_E_CONNECT (it ended without serving; the text
 * has its last words), QUERN_E_UNSUPPORTED (it has another version of libquern), QUERN_E_FULL. */
QUERN_NODISCARD static inline quern_status quern_zygote_exec(const char *path, char *const argv[],
                                                             const quern_zygote_options *options,
                                                             quern_zygote **ret_zygote,
                                                             quern_error *err);

/* In the program that was executed, before it has threads: serves until the worker is gone, and
 * then returns QUERN_OK. In children it does not return. options may be NULL. Errors: QUERN_E_STATE
 * (this process was not started by quern_zygote_exec), QUERN_E_THREADS, QUERN_E_UNSUPPORTED (the
 * mux has aggregators). */
QUERN_NODISCARD static inline quern_status quern_zygote_serve(const quern_mux *mux,
                                                              const quern_zygote_options *options,
                                                              quern_error *err);

/* The mux of an executed zygote, as the worker will use it: commands and aggregators may be added
 * until a worker has the zygote, which then forks another one for the commands. It belongs to the
 * zygote. NULL: the zygote was not executed, or zygote is NULL. */
QUERN_API quern_mux *quern_zygote_mux(quern_zygote *zygote);

/* Ends the zygote and all its children. Not while a worker uses it. NULL is allowed. In a fork of
 * its process it does nothing. */
QUERN_API void quern_zygote_free(quern_zygote *zygote);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_zygote_start_sized(const quern_mux *mux,
                                                                const quern_zygote_options *options,
                                                                size_t options_size,
                                                                quern_zygote **ret_zygote,
                                                                quern_error *err);
static inline quern_status quern_zygote_start(const quern_mux *mux,
                                              const quern_zygote_options *options,
                                              quern_zygote **ret_zygote, quern_error *err)
{
    return quern_zygote_start_sized(mux, options, sizeof(quern_zygote_options), ret_zygote, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_zygote_exec_sized(const char *path, char *const argv[],
                                                               const quern_zygote_options *options,
                                                               size_t options_size,
                                                               quern_zygote **ret_zygote,
                                                               quern_error *err);
static inline quern_status quern_zygote_exec(const char *path, char *const argv[],
                                             const quern_zygote_options *options,
                                             quern_zygote **ret_zygote, quern_error *err)
{
    return quern_zygote_exec_sized(path, argv, options, sizeof(quern_zygote_options), ret_zygote,
                                   err);
}

QUERN_NODISCARD QUERN_API quern_status quern_zygote_serve_sized(const quern_mux *mux,
                                                                const quern_zygote_options *options,
                                                                size_t options_size,
                                                                quern_error *err);
static inline quern_status quern_zygote_serve(const quern_mux *mux,
                                              const quern_zygote_options *options, quern_error *err)
{
    return quern_zygote_serve_sized(mux, options, sizeof(quern_zygote_options), err);
}

#ifdef __cplusplus
}
#endif
#endif
