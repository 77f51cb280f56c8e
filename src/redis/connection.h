/* SPDX-License-Identifier: MIT */
/* connection.h - one connection to a Redis server: the transport, its deadlines, and hiredis'
 * reader.
 *
 * Opened when needed and again after a failure; the handshake (HELLO with user and name, SELECT)
 * goes out in one write. Every read and write has a deadline on CLOCK_MONOTONIC. One thread at a
 * time. The place for TLS, Sentinel and Cluster: qn_endpoint becomes a list of endpoints, and
 * qn_connection_open chooses among them. */
#ifndef QN_REDIS_CONNECTION_H
#define QN_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/arena.h"
#include "base/text/url.h"
#include "quern/status.h"

/* How many bytes a reply may have, by what was asked; one that is larger is refused while it comes.
 * Memory is only taken for what has come. A line (a status, an error, a number) has 64 KiB at most,
 * an array nests 8 deep. */
#define QN_REPLY_BRIEF_MAX ((size_t)1 << 20)   /* a status, counts, a result a task, news, INFO */
#define QN_REPLY_ROWS_MAX ((size_t)64 << 20)   /* ids, names, records: a page or a set of them */
#define QN_REPLY_TASKS_MAX ((size_t)544 << 20) /* messages: the largest value of Redis and more */

/* A reply in the arena of its pipeline. */
enum qn_reply_type { QN_REPLY_NIL, QN_REPLY_INT, QN_REPLY_TEXT, QN_REPLY_ERROR, QN_REPLY_ARRAY };
struct qn_reply {
    enum qn_reply_type type;
    int64_t integer;
    const char *data; /* text (also a status) or error; a NUL follows, not counted */
    size_t size;
    struct qn_reply **items; /* of an array */
    size_t count;
    size_t room; /* for items, while they come */
};

/* Where and as whom; owns its memory. The password is never part of an error or a log line. */
struct qn_endpoint {
    char *memory;     /* holds the strings; see secret.h */
    const char *host; /* "": a Unix socket */
    const char *port;
    const char *path;     /* of the Unix socket */
    const char *user;     /* "": the default user */
    const char *password; /* "": none */
    const char *name;     /* for CLIENT SETNAME */
    const char *address;  /* "redis://host:port/0", for people; without password */
    int64_t db;
    int64_t connect_timeout_ms;
    int64_t command_timeout_ms;
    const _Atomic int64_t *patience_ms; /* shorter than that: a worker ends, and so do waits that
                                         * are under way; NULL: never */
};
/* QUERN_E_INVALID: the text names the part of the URL that is wrong. */
QUERN_NODISCARD quern_status qn_endpoint_init(struct qn_endpoint *endpoint,
                                              const struct qn_url *url, quern_error *err);
void qn_endpoint_finish(struct qn_endpoint *endpoint);

struct redisReader;
/* The reply that is being read. */
struct qn_reading {
    const struct redisReader *reader;
    struct qn_arena *arena;
    size_t size_max;   /* what the replies from now on may have */
    size_t bytes;      /* taken in since it began, also of those behind it */
    size_t items_left; /* that may still be announced by its arrays */
    size_t refused_at; /* the limit that it has passed; 0: none */
    bool begins;       /* what comes next is the start of a reply */
    bool strange;      /* of a type of RESP3, or nested too deep */
    bool nomem;
};
struct qn_connection {
    const struct qn_endpoint *endpoint;
    const char *role; /* "" or what follows the name in CLIENT SETNAME; may be set after init */
    int fd;           /* -1: not connected */
    struct redisReader *reader;
    char *inbox; /* what recv fills; only pages that were written take memory */
    struct qn_reading reading;
    int64_t attentive_until_mono_ns; /* until when a read looks without sleeping; 0: it sleeps */
    uint32_t in_vain_count; /* looks in a row that found nothing; beyond some, requests since */
    int64_t timeout_ms;     /* of the pipeline under way, for texts; 0: the endpoint's */
    uint64_t opened_count;  /* grows with each connection: what was said on an older one is void */
};
void qn_connection_init(struct qn_connection *connection, const struct qn_endpoint *endpoint);
void qn_connection_close(struct qn_connection *connection);
/* Connects and shakes hands if it is not connected. QUERN_E_CONNECT, QUERN_E_TIMEOUT,
 * QUERN_E_DENIED (wrong password), QUERN_E_BROKER (no permission), QUERN_E_BUSY (the server is
 * loading). */
QUERN_NODISCARD quern_status qn_connection_open(struct qn_connection *connection,
                                                int64_t deadline_mono_ns, quern_error *err);
/* Either all bytes go out, or the connection is closed. *ret_sent: whether any byte may have
 * reached the server. */
QUERN_NODISCARD quern_status qn_connection_write(struct qn_connection *connection, const void *data,
                                                 size_t size, int64_t deadline_mono_ns,
                                                 bool *ret_sent, quern_error *err);
/* The limit of the replies that are read from now on; QN_REPLY_BRIEF_MAX on a new connection. */
void qn_connection_limit(struct qn_connection *connection, size_t reply_size_max);
/* Reads one reply; closes the connection on failure. A reply that is an error is a reply. The
 * deadline holds however the bytes trickle in. */
QUERN_NODISCARD quern_status qn_connection_read(struct qn_connection *connection,
                                                struct qn_arena *arena, int64_t deadline_mono_ns,
                                                struct qn_reply **ret_reply, quern_error *err);
/* The next reply if it is there, else NULL, without waiting; for the listener, which polls the fd
 * when it got NULL: more may be there, as it does not look for ever. A part of a reply lives in the
 * arena: reset it only after a whole one. */
QUERN_NODISCARD quern_status qn_connection_try_read(struct qn_connection *connection,
                                                    struct qn_arena *arena,
                                                    struct qn_reply **ret_reply, quern_error *err);
/* Of an idle connection: has it died, or said something nobody asked for? Then it must be closed.
 * */
bool qn_connection_is_stale(const struct qn_connection *connection);

#endif
