/* SPDX-License-Identifier: MIT */
/* bug.c - which planted fault is active; empty unless built with -DQUERN_SEEDED_BUGS=ON.
 *
 * The environment is read once, at the first question. This is the one place in the library that
 * reads it and keeps something global, and no shipped build contains it. */
#include "base/bug.h"

#ifdef QN_SEEDED_BUGS

#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int active_bug;

static void read_environment(void)
{
    const char *text = getenv("QUERN_SEEDED_BUG");
    active_bug = text == NULL ? QN_BUG_NONE : (int)strtol(text, NULL, 10);
}

int qn_bug_active(enum qn_bug bug)
{
    (void)pthread_once(&once, read_environment);
    return bug != QN_BUG_NONE && active_bug == (int)bug;
}

#endif
