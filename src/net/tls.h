/* SPDX-License-Identifier: MIT */
/* tls.h - TLS for the connections to one peer, or to the nodes of one cluster: who is trusted, and
 * who we are.
 *
 * A peer with one of these (peer.h) is spoken to by TLS only: qn_connect shakes hands, and there is
 * no way back to a plain connection. TLS 1.2 and later, the certificate of the peer is always
 * checked, for its name, too. The latest session of each peer is kept and resumed.
 *
 * Any thread may use it, and several at once. */
#ifndef QN_NET_TLS_H
#define QN_NET_TLS_H

#include "quern/status.h"

/* Paths of PEM files; NULL or "" where there is none. */
struct qn_tls_options {
    const char *ca;          /* certificates to trust instead of the system's */
    const char *cert;        /* ours, with those between it and the CA */
    const char *key;         /* that of cert; none: it is in that file, too */
    const char *server_name; /* in the certificate of the peer; none: the name we connect to */
};

struct qn_tls;
/* Reads the files; the texts are copied. With one reference, the caller's. QUERN_E_INVALID: the
 * text names the file and the fault. */
QUERN_NODISCARD quern_status qn_tls_new(const struct qn_tls_options *options,
                                        struct qn_tls **ret_tls, quern_error *err);
/* Another reference to it. NULL is fine, here and below. */
struct qn_tls *qn_tls_ref(struct qn_tls *tls);
/* The last one frees it: after the last connection that uses it. */
void qn_tls_unref(struct qn_tls *tls);
/* Reads the files again, for connections that are made from now on; those that are open stay, and
 * kept sessions are forgotten. If it fails, all is as before. */
QUERN_NODISCARD quern_status qn_tls_reload(struct qn_tls *tls, quern_error *err);

/* --- For tls_link.c ------------------------------------------------------------------------ */

struct ssl_st; /* OpenSSL's SSL */
struct qn_tls_user;
/* The name to check for a peer that was connected to as `host`. */
const char *qn_tls_server_name(const struct qn_tls *tls, const char *host);
/* A new SSL with the present settings and, if there is one, the latest session of user->place; user
 * stays with it to its end. NULL: out of memory. */
QUERN_NODISCARD struct ssl_st *qn_tls_ssl_new(struct qn_tls *tls, struct qn_tls_user *user);

#endif
