/* SPDX-License-Identifier: MIT */
/* tls_reason.h - why TLS with a peer failed, in words for people. */
#ifndef QN_NET_TLS_REASON_H
#define QN_NET_TLS_REASON_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>

#define QN_TLS_REASON_SIZE 200

/* What is known about one connection. */
struct qn_tls_reason {
    const char *server_name; /* the name that the certificate must have; borrowed */
    bool has_certificate;    /* we have one to show */
    bool was_asked_for_one;
    bool is_renegotiating;         /* the peer asked for it, and it was refused */
    bool has_received;             /* a byte of the peer */
    bool is_plain;                 /* the first byte of the peer is none of TLS */
    bool is_open;                  /* the handshake is done */
    char text[QN_TLS_REASON_SIZE]; /* "": none yet */
};

/* The callback of OpenSSL that judges each certificate of the chain, for an SSL whose app data
 * begin with a struct qn_tls_reason: refuses what OpenSSL refuses, and notes why. */
int qn_tls_reason_verify(int ok, X509_STORE_CTX *chain);
/* Sets the text, unless there is one, from `code` of SSL_get_error, errno and the errors of this
 * thread, which are then forgotten. False: memory is out. */
bool qn_tls_reason_set(struct qn_tls_reason *reason, int code, int saved_errno);
/* The words of OpenSSL for its latest error in this thread, which are then forgotten: for files. */
void qn_tls_reason_words(char *out, size_t size);

#endif
