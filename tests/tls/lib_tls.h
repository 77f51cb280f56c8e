/* SPDX-License-Identifier: MIT */
/* lib_tls.h - certificates made for a test, and a TLS server that behaves well or badly.
 *
 * All helpers assert that they succeed. */
#ifndef TESTS_LIB_TLS_H
#define TESTS_LIB_TLS_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib_test.h"

/* Writes DIR/NAME.pem and DIR/NAME.key: a CA that is called `name`. */
void test_tls_make_ca(const char *dir, const char *name);

struct test_tls_terms {
    const char *names;    /* as in openssl.cnf: "DNS:localhost,IP:127.0.0.1"; NULL: none */
    int from_days;        /* before now */
    int to_days;          /* after now; 0: 1; negative: it has expired */
    const char *ca;       /* the name of its CA; NULL: self-signed */
    const char *password; /* of the key; NULL: none */
};
/* The same for a certificate. */
void test_tls_make_cert(const char *dir, const char *name, const struct test_tls_terms *terms);

enum test_tls_manner {
    TEST_TLS_ECHO,        /* answers each piece with the same */
    TEST_TLS_PLAIN,       /* answers in plain text */
    TEST_TLS_MUTE,        /* never sends a byte */
    TEST_TLS_GARBAGE,     /* an echo whose records are damaged after the handshake */
    TEST_TLS_TRUNCATE,    /* half an echo, and closes without a goodbye */
    TEST_TLS_GOODBYE,     /* no echo, but a goodbye */
    TEST_TLS_RENEGOTIATE, /* asks for a renegotiation after the first piece; TLS 1.2 */
    TEST_TLS_KEY_UPDATE,  /* new keys before each echo; TLS 1.3 */
    TEST_TLS_TICKETS      /* after the first piece only tickets, without end; TLS 1.3 */
};

struct test_tls_server_options {
    const char *dir;
    const char *cert;      /* its name, made above */
    const char *client_ca; /* the name of the CA of clients; NULL: no certificate is wanted */
    int version_max;       /* of OpenSSL; 0: the newest */
    enum test_tls_manner manner;
    size_t cut_after; /* bytes, sent in all; then it closes; 0: never */
    bool dribbles;    /* byte by byte */
};

struct test_tls_server {
    struct test_tls_server_options options;
    struct ssl_ctx_st *context;
    char port[8];
    int listen_fd;
    int stop_fds[2];
    pthread_t thread;
    _Atomic int resumed_count; /* of its connections */
    _Atomic int opened_count;
};
void test_tls_server_start(struct test_tls_server *server,
                           const struct test_tls_server_options *options);
void test_tls_server_stop(struct test_tls_server *server);

#endif
