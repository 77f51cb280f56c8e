/* SPDX-License-Identifier: MIT */
/* bug.c - which planted fault is active; empty unless built with -DQUERN_SEEDED_BUGS=ON.
 *
 * The environment is read once, at the first question. This is the one place in the library that
 * reads it and keeps something global, and no shipped build contains it. */
#include "base/bug.h"

#ifdef QN_SEEDED_BUGS

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/arena.h"

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

/* Whether the line is the one that the chosen fault puts in place of the one before it. */
static int replaces(const char *line)
{
    int number = 0;
    return sscanf(line, "-- bug %d:", &number) == 1 && qn_bug_active((enum qn_bug)number);
}

const char *qn_bug_script(struct qn_arena *arena, const char *text)
{
    (void)pthread_once(&once, read_environment);
    if (active_bug == QN_BUG_NONE) {
        return text;
    }
    char *out = qn_arena_alloc(arena, strlen(text) + 1);
    char *end = out;
    char *last = out; /* where the last line of the script begins */
    while (out != NULL && *text != '\0') {
        size_t size = strcspn(text, "\n") + 1;
        const char *from = text;
        int fault = strncmp(text, "-- bug ", 7) == 0;
        text += size;
        if (fault && !replaces(from)) {
            continue;
        }
        if (fault) {
            size_t head = (size_t)(strchr(from, ':') + 1 - from);
            from += head;
            size -= head;
            end = last;
        }
        last = end;
        memcpy(end, from, size);
        end += size;
    }
    if (out != NULL) {
        *end = '\0';
    }
    return out;
}

#endif
