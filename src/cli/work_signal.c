/* SPDX-License-Identifier: MIT */
/* work_signal.c - hands signals to the worker.
 *
 * A handler has no argument, so the worker it steers is the one static of the program. It is set
 * before the handlers are installed and cleared after they are removed; quern_worker_stop and
 * quern_worker_quiet are async-signal-safe. */
#include "cli/work_signal.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static quern_worker *_Atomic steered;

static void on_stop(int number)
{
    (void)number;
    int saved = errno;
    quern_worker *worker = atomic_load(&steered);
    if (worker != NULL) {
        quern_worker_stop(worker);
    }
    errno = saved;
}

static void on_quiet(int number)
{
    (void)number;
    int saved = errno;
    quern_worker *worker = atomic_load(&steered);
    if (worker != NULL) {
        quern_worker_quiet(worker);
    }
    errno = saved;
}

static void install(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void qn_work_signal_start(quern_worker *worker)
{
    atomic_store(&steered, worker);
    install(SIGTERM, on_stop);
    install(SIGINT, on_stop);
    install(SIGTSTP, on_quiet);
    install(SIGPIPE, SIG_IGN);
}

void qn_work_signal_stop(void)
{
    install(SIGTERM, SIG_DFL);
    install(SIGINT, SIG_DFL);
    install(SIGTSTP, SIG_DFL);
    atomic_store(&steered, NULL);
}
