/* SPDX-License-Identifier: MIT */
/* lib_tls_bench.h - a client of TLS and its server, with all the certificates that they need. */
#ifndef TESTS_UNIT_NET_LIB_TLS_BENCH_H
#define TESTS_UNIT_NET_LIB_TLS_BENCH_H

#include "lib_test.h"
#include "lib_tls.h"
#include "net/connect.h"
#include "net/tls.h"

#define PATH_SIZE (TEST_DIR_SIZE + 80)

/* A client and its server. */
struct bench {
    struct test_tls_server server;
    char address[64];
    struct qn_peer peer;
    struct qn_socket socket;
    quern_error err;
};

struct client {
    const char *ca; /* names of certificates; NULL: none */
    const char *cert;
    const char *server_name;
};
extern const struct client tls_usual;
extern char tls_dir[TEST_DIR_SIZE]; /* of the certificates; "": not made yet */

int64_t tls_in_ms(int64_t ms);
/* Makes the certificates, once. */
void tls_make_files(void);
/* NAME.END in that directory; NULL for no name. */
const char *tls_path_of(char path[PATH_SIZE], const char *name, const char *end);
/* Starts the server, by default with the certificate "good"; the client is not connected. */
void tls_begin(struct bench *bench, const struct test_tls_server_options *options,
               const struct client *client);
void tls_end(struct bench *bench);
quern_status tls_connect(struct bench *bench);
void tls_connect_ok(struct bench *bench);
quern_status tls_send(struct bench *bench, const char *data, size_t size);
/* Receives until there are `size` bytes, or it fails. */
quern_status tls_receive(struct bench *bench, char *out, size_t size);
void tls_echo(struct bench *bench, const char *text);
/* Of the latest error: it has these words, and the address. */
void tls_assert_says(const struct bench *bench, const char *words);
/* The main of a program with these tests. */
int tls_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

#endif
