/* SPDX-License-Identifier: MIT */
/* tls_context.h - from files to OpenSSL's settings for new connections. */
#ifndef QN_NET_TLS_CONTEXT_H
#define QN_NET_TLS_CONTEXT_H

#include <stdint.h>

#include <openssl/ssl.h>

#include "net/tls.h"
#include "net/tls_reason.h"
#include "quern/status.h"

/* What the callbacks of one connection know: the "app data" of its SSL. */
struct qn_tls_user {
    struct qn_tls_reason reason;
    struct qn_tls *tls;
    const char *place;   /* the key of its sessions; borrowed */
    uint64_t generation; /* of the settings: tls.c */
};

/* The caller frees it with SSL_CTX_free. QUERN_E_INVALID. */
QUERN_NODISCARD quern_status qn_tls_context_new(const struct qn_tls_options *options,
                                                SSL_CTX **ret_context, quern_error *err);

#endif
