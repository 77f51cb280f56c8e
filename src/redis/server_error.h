/* SPDX-License-Identifier: MIT */
/* server_error.h - maps an error reply of the server to a status. */
#ifndef QN_REDIS_SERVER_ERROR_H
#define QN_REDIS_SERVER_ERROR_H

#include "base/text/str.h"
#include "quern/status.h"
#include "redis/reply.h"
#include "redis/script.h"

/* What such an error says about the server, and what is done about it. */
enum qn_reaction {
    QN_REACT_NONE,       /* it is about the command */
    QN_REACT_WAIT,       /* it will pass; the connection stays */
    QN_REACT_REDISCOVER, /* this is not the server to use: another one is chosen */
    QN_REACT_LOGIN       /* the connection has lost its user: a new one logs in again */
};
/* Of an error reply. */
enum qn_reaction qn_server_error_reaction(const struct qn_reply *reply);

/* What the server refused. */
struct qn_server_call {
    const char *command;
    const struct qn_script *script; /* NULL: a plain command */
    struct qn_str key;              /* of a plain command: its first argument; empty: none */
};

/* The status and text for an error reply to a command, or to the script if there is one: OOM,
 * MISCONF: QUERN_E_FULL; LOADING, BUSY, MASTERDOWN, READONLY, TRYAGAIN, CLUSTERDOWN, ASK, MOVED:
 * QUERN_E_BUSY; WRONGTYPE: QUERN_E_CORRUPT; NOAUTH, WRONGPASS: QUERN_E_DENIED; NOPERM and all
 * others: QUERN_E_BROKER. The text has the address, words for people and the code, or the script
 * or command and the server's words. With WRONGTYPE it names the key of a plain command; of a
 * script the server does not name it. */
quern_status qn_server_error(const char *address, const struct qn_reply *reply,
                             const struct qn_server_call *call, quern_error *err);

#endif
