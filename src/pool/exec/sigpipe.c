/* SPDX-License-Identifier: MIT */
/* sigpipe.c - blocks SIGPIPE around writes to pipes, for programs that did not. */
#include "pool/exec/sigpipe.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void qn_sigpipe_block(struct qn_sigpipe *ret_state)
{
    sigset_t pending;
    sigset_t pipe_only;
    sigemptyset(&pending);
    (void)sigpending(&pending);
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_only, &ret_state->before);
    ret_state->was_pending = sigismember(&pending, SIGPIPE) == 1;
}

void qn_sigpipe_restore(const struct qn_sigpipe *state)
{
    if (!state->was_pending) {
        static const struct timespec now = {0};
        sigset_t pipe_only;
        sigemptyset(&pipe_only);
        sigaddset(&pipe_only, SIGPIPE);
        while (sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR) {
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &state->before, NULL);
}
