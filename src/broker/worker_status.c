/* SPDX-License-Identifier: MIT */
/* worker_status.c - the words of a heartbeat and the numbers of the interface.
 *
 * Brokers store the word, so that it can be read there, and so that a worker of a newer version may
 * store another one. */
#include "broker/worker_status.h"

#include <string.h>

static const char *const names[] = {
    [QUERN_WORKER_UNKNOWN] = "unknown", [QUERN_WORKER_ACTIVE] = "active",
    [QUERN_WORKER_QUIET] = "quiet",     [QUERN_WORKER_DRAINING] = "draining",
    [QUERN_WORKER_BRAKED] = "braked",   [QUERN_WORKER_STUCK] = "stuck",
    [QUERN_WORKER_STALLED] = "stalled",
};
#define NAME_COUNT (sizeof names / sizeof *names)

quern_worker_status qn_worker_status_read(const char *text)
{
    for (size_t i = 0; text != NULL && i < NAME_COUNT; i++) {
        if (strcmp(names[i], text) == 0) {
            return (quern_worker_status)i;
        }
    }
    return QUERN_WORKER_UNKNOWN;
}

const char *quern_worker_status_name(quern_worker_status status)
{
    return (int)status >= 0 && (size_t)status < NAME_COUNT ? names[status] : NULL;
}
