/* SPDX-License-Identifier: MIT */
/* server_error.h - maps an error reply of the server to a status. */
#ifndef QN_REDIS_SERVER_ERROR_H
#define QN_REDIS_SERVER_ERROR_H

#include "quern/status.h"
#include "redis/reply.h"
#include "redis/script.h"

/* The status and text for an error reply to a command, or to the script if there is one: OOM,
 * MISCONF: QUERN_E_FULL; LOADING, BUSY, MASTERDOWN, READONLY, TRYAGAIN, CLUSTERDOWN: QUERN_E_BUSY;
 * WRONGTYPE: QUERN_E_CORRUPT; NOAUTH, WRONGPASS: QUERN_E_DENIED; NOPERM and all others:
 * QUERN_E_BROKER. The text has the address, words for people and the code, or the script or command
 * and the server's words. */
quern_status qn_server_error(const char *address, const struct qn_reply *reply, const char *command,
                             const struct qn_script *script, quern_error *err);

#endif
