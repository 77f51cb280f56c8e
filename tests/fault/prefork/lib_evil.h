/* SPDX-License-Identifier: MIT */
/* lib_evil.h - a handler that gets hold of its connection to the worker and of the page that it
 * shares with it, and breaks the rules.
 *
 * The payload says how (evil_ways). One of "done", or of a task that was charged with a crash
 * before, is done at once. */
#ifndef TESTS_FAULT_LIB_EVIL_H
#define TESTS_FAULT_LIB_EVIL_H

#include "lib_worker.h"

#define EVIL_TIMEOUT_MS 300 /* of tasks whose ways never end */

enum evil_end {
    EVIL_CHARGED, /* its run, with `error` in its text */
    EVIL_TIMEOUT, /* ended by its own limit, and charged with nothing */
    EVIL_DONE     /* the first answer counts: the child is killed, its run is done */
};

struct evil_way {
    const char *name;
    enum evil_end end;
    const char *error;
    bool is_slow; /* until it is ended */
};
extern const struct evil_way evil_ways[];
extern const size_t evil_way_count;

/* user: the rig. Tasks of this type wait for the gate before they act. */
#define EVIL_LATER "evil-later"
quern_outcome evil_handler(quern_run *run, const quern_task *task, void *user);

#endif
