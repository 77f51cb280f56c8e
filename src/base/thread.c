/* SPDX-License-Identifier: MIT */
/* thread.c - starts threads with their signals blocked.
 *
 * A new thread inherits the mask of its maker: the mask is set before pthread_create and restored
 * after it, so there is no moment in which the new thread could take a signal. It fails only when
 * the system has no more threads or memory. */
#include "base/thread.h"

#include <signal.h>
#include <string.h>

#include "base/error.h"

#define SMALL_STACK_SIZE (256 * 1024) /* SQLite's own frames are large */

static void fill_mask(sigset_t *ret_mask)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigfillset(ret_mask);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigdelset(ret_mask, faults[i]);
    }
}

/* Returns an errno. attributes may be NULL. */
static int start(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*entry)(void *),
                 void *argument)
{
    sigset_t blocked;
    sigset_t before;
    fill_mask(&blocked);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before); /* fails only for a bad `how` */
    int code = pthread_create(ret_thread, attributes, entry, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

quern_status qn_thread_start(pthread_t *ret_thread, const char *name, void *(*entry)(void *),
                             void *argument, quern_error *err)
{
    int code = start(ret_thread, NULL, entry, argument);
    if (code != 0) {
        return qn_error_set(err, QUERN_E_NOMEM, "cannot start thread %s: %s", name, strerror(code));
    }
    (void)pthread_setname_np(*ret_thread, name); /* only shown by ps and debuggers */
    return QUERN_OK;
}

bool qn_thread_start_small(pthread_t *ret_thread, const char *name, void *(*entry)(void *),
                           void *argument)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setstacksize(&attributes, SMALL_STACK_SIZE);
    bool started = start(ret_thread, &attributes, entry, argument) == 0;
    (void)pthread_attr_destroy(&attributes);
    if (started) {
        (void)pthread_setname_np(*ret_thread, name);
    }
    return started;
}
