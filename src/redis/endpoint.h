/* SPDX-License-Identifier: MIT */
/* endpoint.h - the address of a Redis server, its TLS and the user for it, parsed from a URL. */
#ifndef QN_REDIS_ENDPOINT_H
#define QN_REDIS_ENDPOINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text/url.h"
#include "net/peer.h"
#include "quern/status.h"

/* What HELLO says that the server runs as; another one is refused. */
enum qn_server_mode { QN_SERVER_STANDALONE, QN_SERVER_SENTINEL, QN_SERVER_CLUSTER };

/* Owns its memory. The password is never part of an error or a log line. */
struct qn_endpoint {
    char *memory;         /* holds the strings; see secret.h */
    struct qn_peer peer;  /* its address: "redis://host:port/0", for people; without password. Its
                           * tls is a reference of the endpoint's */
    const char *user;     /* "": the default user */
    const char *password; /* "": none */
    const char *password_file; /* read again at each login, as it may change; "": none */
    const char *name;          /* for CLIENT SETNAME */
    int64_t db;
    enum qn_server_mode mode;
    _Atomic bool has_answered; /* it has greeted us once */
    _Atomic bool abandoned;    /* another server was chosen: peer.abandoned points here */
    _Atomic uint32_t refs;     /* of one from qn_endpoint_new or qn_endpoint_at */
};
/* Finish does nothing to one that failed. QUERN_E_INVALID: the text names the part of the URL that
 * is wrong. */
QUERN_NODISCARD quern_status qn_endpoint_init(struct qn_endpoint *endpoint,
                                              const struct qn_url *url, quern_error *err);
void qn_endpoint_finish(struct qn_endpoint *endpoint);

/* What a broker sets for all its endpoints. */
struct qn_endpoint_terms {
    int64_t connect_timeout_ms;         /* 0: 5 s */
    int64_t timeout_ms;                 /* of an answer; 0: 10 s */
    const _Atomic int64_t *patience_ms; /* see net/peer.h; NULL: none */
};
/* On the heap, with one reference, the caller's. Errors as qn_endpoint_init. */
QUERN_NODISCARD quern_status qn_endpoint_new(const struct qn_url *url,
                                             const struct qn_endpoint_terms *terms,
                                             struct qn_endpoint **ret_endpoint, quern_error *err);
/* The user and settings of `model`, but at this host and port: what a sentinel or a node of a
 * cluster names. Host "": at the socket of the model. */
QUERN_NODISCARD quern_status qn_endpoint_at(const struct qn_endpoint *model, const char *host,
                                            const char *port, struct qn_endpoint **ret_endpoint,
                                            quern_error *err);
/* Another reference to it. Any thread. */
struct qn_endpoint *qn_endpoint_ref(struct qn_endpoint *endpoint);
/* The last one frees it. NULL is fine. */
void qn_endpoint_unref(struct qn_endpoint *endpoint);

#endif
