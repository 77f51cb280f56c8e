/* SPDX-License-Identifier: MIT */
/* endpoint.h - the address of a Redis server and the user for it, parsed from a URL. */
#ifndef QN_REDIS_ENDPOINT_H
#define QN_REDIS_ENDPOINT_H

#include <stdint.h>

#include "base/text/url.h"
#include "net/peer.h"
#include "quern/status.h"

/* Owns its memory. The password is never part of an error or a log line. */
struct qn_endpoint {
    char *memory;         /* holds the strings; see secret.h */
    struct qn_peer peer;  /* its address: "redis://host:port/0", for people; without password */
    const char *user;     /* "": the default user */
    const char *password; /* "": none */
    const char *name;     /* for CLIENT SETNAME */
    int64_t db;
};
/* QUERN_E_INVALID: the text names the part of the URL that is wrong. */
QUERN_NODISCARD quern_status qn_endpoint_init(struct qn_endpoint *endpoint,
                                              const struct qn_url *url, quern_error *err);
void qn_endpoint_finish(struct qn_endpoint *endpoint);

#endif
