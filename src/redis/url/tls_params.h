/* SPDX-License-Identifier: MIT */
/* tls_params.h - the parameters of a broker URL that are about TLS: one URL, one qn_tls, which all
 * nodes of that URL share. */
#ifndef QN_REDIS_URL_TLS_PARAMS_H
#define QN_REDIS_URL_TLS_PARAMS_H

#include <stdbool.h>

#include "base/text/url.h"
#include "net/tls.h"
#include "quern/status.h"

/* For the text of an error that lists the parameters of a URL. */
#define QN_TLS_PARAMS "ca, cert, key, servername"

/* Whether a parameter of this name is one of TLS, in our spelling or that of redis-py and Kombu:
 * ca (ssl_ca_certs), cert (ssl_certfile), key (ssl_keyfile), servername, and ssl_cert_reqs and
 * ssl_check_hostname, whose values must ask for what we always do. */
bool qn_tls_params_has(const char *name);
/* is_tls: the scheme of the URL is one with TLS. Without TLS *ret_tls is NULL, and a parameter of
 * TLS is refused. QUERN_E_INVALID. The reference is the caller's. */
QUERN_NODISCARD quern_status qn_tls_params_read(const struct qn_url *url, bool is_tls,
                                                struct qn_tls **ret_tls, quern_error *err);

#endif
