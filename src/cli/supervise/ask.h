/* SPDX-License-Identifier: MIT */
/* ask.h - a probe: one HTTP request to the server of server.h. */
#ifndef QN_CLI_SUPERVISE_ASK_H
#define QN_CLI_SUPERVISE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/supervise/place.h"

#define QN_ASK_BODY_SIZE 16384

struct qn_ask_answer {
    int code; /* 200, 503, ... */
    char body[QN_ASK_BODY_SIZE];
};

/* GET path, within timeout_ms in all. False: `why` says what was wrong. */
bool qn_ask(const struct qn_place *place, const char *path, int64_t timeout_ms,
            struct qn_ask_answer *ret_answer, char why[128]);

#endif
