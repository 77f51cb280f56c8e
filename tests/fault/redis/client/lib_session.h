/* SPDX-License-Identifier: MIT */
/* lib_session.h - a program that uses src/redis without any queue: one channel to a server, and a
 * pipeline on it that writes once and finds by the server's count whether it did. */
#ifndef TESTS_FAULT_REDIS_CLIENT_LIB_SESSION_H
#define TESTS_FAULT_REDIS_CLIENT_LIB_SESSION_H

#include "lib_redis.h"
#include "redis/pipeline.h"

struct session {
    struct qn_failover failover;
    struct qn_channel channel;
};

/* The server of the program, started and stopped as a group's fixture. */
extern struct test_redis session_server;
int session_start(void **state);
int session_stop(void **state);

/* Adds 1 to the key KEYS[1] .. "n". */
extern const struct qn_script session_bump;

/* Both timeouts are timeout_ms; 0: those that an endpoint has. role: "" or of the connection.
 * Nothing is connected yet. */
void session_init(struct session *session, const char *url, int64_t timeout_ms, const char *role);
void session_finish(struct session *session);
/* Connects, and sends a request that every user with any permission may send. */
quern_status session_request(struct session *session, quern_error *err);
/* The same in a session of its own, of the URL prefix + rest. */
quern_status session_try(const char *prefix, const char *rest, quern_error *err);
/* One write: a script, a plain command, an error. */
quern_status session_bump_once(struct session *session, quern_error *err);
/* Empties the server, and stores the data that session_bump_once reads. */
void session_prepare(struct test_redis *server);
/* How often it was bumped. */
long long session_bumps(struct test_redis *server);

#endif
