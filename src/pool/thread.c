/* SPDX-License-Identifier: MIT */
/* thread.c - starts threads with their signals blocked.
 *
 * A new thread inherits the mask of its maker: the mask is set before pthread_create and restored
 * after it, so there is no moment in which the new thread could take a signal. It fails only when
 * the system has no more threads or memory. */
#include "pool/thread.h"

#include <signal.h>
#include <string.h>

#include "base/error.h"

static void fill_mask(sigset_t *ret_mask)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigfillset(ret_mask);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigdelset(ret_mask, faults[i]);
    }
}

quern_status qn_thread_start(pthread_t *ret_thread, const char *name, void *(*entry)(void *),
                             void *argument, quern_error *err)
{
    sigset_t blocked;
    sigset_t before;
    fill_mask(&blocked);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before); /* fails only for a bad `how` */
    int code = pthread_create(ret_thread, NULL, entry, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        return qn_error_set(err, QUERN_E_NOMEM, "cannot start thread %s: %s", name, strerror(code));
    }
    (void)pthread_setname_np(*ret_thread, name); /* only shown by ps and debuggers */
    return QUERN_OK;
}
