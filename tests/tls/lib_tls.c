/* SPDX-License-Identifier: MIT */
/* lib_tls.c - certificates, and a TLS server in a thread: one connection after the other.
 *
 * OpenSSL works on two blocks of memory here, so that the server has every byte in its hands that
 * it sends: it can cut, damage and dribble them. */
#include "lib_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define DAY_S 86400
#define PATH_SIZE (TEST_DIR_SIZE + 80)

/* --- Certificates ------------------------------------------------------------------- */

static FILE *open_file(const char *dir, const char *name, const char *end, const char *mode)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/%s.%s", dir, name, end);
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    return file;
}

static void write_pair(const char *dir, const char *name, X509 *certificate, EVP_PKEY *key,
                       const char *password)
{
    FILE *file = open_file(dir, name, "pem", "we");
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
    file = open_file(dir, name, "key", "we");
    const EVP_CIPHER *cipher = password == NULL ? NULL : EVP_aes_128_cbc();
    assert_int_equal(
        PEM_write_PrivateKey(file, key, cipher, NULL, 0, NULL, (void *)(uintptr_t)password), 1);
    assert_int_equal(fclose(file), 0);
}

static void add_extension(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *new_certificate(const char *name, const char *issuer, EVP_PKEY *key)
{
    static _Atomic long serial = 1;
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_NAME_new();
    X509_NAME *by = X509_NAME_new();
    assert_non_null(certificate);
    assert_int_equal(X509_set_version(certificate, X509_VERSION_3), 1);
    assert_int_equal(
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), atomic_fetch_add(&serial, 1)), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_int_equal(X509_NAME_add_entry_by_txt(by, "CN", MBSTRING_ASC,
                                                (const unsigned char *)issuer, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_subject_name(certificate, subject), 1);
    assert_int_equal(X509_set_issuer_name(certificate, by), 1);
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    X509_NAME_free(subject);
    X509_NAME_free(by);
    return certificate;
}

void test_tls_make_ca(const char *dir, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = new_certificate(name, name, key);
    (void)X509_gmtime_adj(X509_getm_notBefore(certificate), -DAY_S);
    (void)X509_gmtime_adj(X509_getm_notAfter(certificate), DAY_S);
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate, NID_key_usage, "critical,keyCertSign");
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    write_pair(dir, name, certificate, key, NULL);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void test_tls_make_cert(const char *dir, const char *name, const struct test_tls_terms *terms)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    EVP_PKEY *signer = key;
    if (terms->ca != NULL) {
        FILE *file = open_file(dir, terms->ca, "key", "re");
        signer = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        assert_non_null(signer);
        assert_int_equal(fclose(file), 0);
    }
    X509 *certificate = new_certificate(name, terms->ca == NULL ? name : terms->ca, key);
    int to_days = terms->to_days == 0 ? 1 : terms->to_days;
    (void)X509_gmtime_adj(X509_getm_notBefore(certificate), -(long)DAY_S * terms->from_days);
    (void)X509_gmtime_adj(X509_getm_notAfter(certificate), (long)DAY_S * to_days);
    if (terms->names != NULL) {
        add_extension(certificate, NID_subject_alt_name, terms->names);
    }
    assert_true(X509_sign(certificate, signer, EVP_sha256()) > 0);
    write_pair(dir, name, certificate, key, terms->password);
    X509_free(certificate);
    if (signer != key) {
        EVP_PKEY_free(signer);
    }
    EVP_PKEY_free(key);
}

/* --- One connection ----------------------------------------------------------------- */

struct call {
    struct test_tls_server *server;
    int fd;
    SSL *ssl;
    BIO *in;
    BIO *out;
    size_t sent;
    bool is_over;
};

/* Waits for the connection; false: the server is to stop. */
static bool wait_for(const struct call *call, short events)
{
    struct pollfd fds[] = {{.fd = call->fd, .events = events},
                           {.fd = call->server->stop_fds[0], .events = POLLIN}};
    while (poll(fds, 2, -1) < 0) {
    }
    return fds[1].revents == 0;
}

static void send_all(struct call *call, const char *data, size_t size)
{
    const struct test_tls_server_options *options = &call->server->options;
    while (size > 0 && !call->is_over) {
        size_t left = options->cut_after == 0 ? size : options->cut_after - call->sent;
        size_t piece = options->dribbles ? 1 : size;
        ssize_t sent =
            send(call->fd, data, piece < left ? piece : left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
            call->sent += (size_t)sent;
        } else if (errno != EAGAIN || !wait_for(call, POLLOUT)) {
            call->is_over = true;
        }
        call->is_over =
            call->is_over || (options->cut_after > 0 && call->sent >= options->cut_after);
    }
}

/* Sends what OpenSSL has made; damages it first if that is wanted. */
static void flush(struct call *call, bool damaged)
{
    char data[4096];
    int size = BIO_read(call->out, data, sizeof data);
    while (size > 0 && !call->is_over) {
        if (damaged) {
            data[size - 1] ^= 0x55;
        }
        send_all(call, data, (size_t)size);
        size = BIO_read(call->out, data, sizeof data);
    }
}

static void send_tickets(struct call *call)
{
    while (!call->is_over && SSL_new_session_ticket(call->ssl) == 1) {
        (void)SSL_do_handshake(call->ssl);
        flush(call, false);
    }
}

/* Answers one piece. */
static void answer(struct call *call, const char *data, int size)
{
    switch (call->server->options.manner) {
    case TEST_TLS_TRUNCATE:
        (void)SSL_write(call->ssl, data, size / 2);
        flush(call, false);
        call->is_over = true;
        return;
    case TEST_TLS_GOODBYE:
        (void)SSL_shutdown(call->ssl);
        return;
    case TEST_TLS_RENEGOTIATE:
        (void)SSL_renegotiate(call->ssl);
        (void)SSL_do_handshake(call->ssl);
        return;
    case TEST_TLS_TICKETS:
        send_tickets(call);
        return;
    case TEST_TLS_KEY_UPDATE:
        assert_int_equal(SSL_key_update(call->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        (void)SSL_write(call->ssl, data, size);
        return;
    case TEST_TLS_GARBAGE:
        (void)SSL_write(call->ssl, data, size);
        flush(call, true);
        return;
    case TEST_TLS_ECHO:
    case TEST_TLS_PLAIN:
    case TEST_TLS_MUTE:
        (void)SSL_write(call->ssl, data, size);
    }
}

static void step(struct call *call)
{
    static const char refusal[] = "-ERR Protocol error: this is no TLS\r\n";
    char data[16384];
    enum test_tls_manner manner = call->server->options.manner;
    if (manner == TEST_TLS_MUTE) {
        return;
    }
    if (manner == TEST_TLS_PLAIN) {
        send_all(call, refusal, sizeof refusal - 1);
        return;
    }
    bool was_open = SSL_is_init_finished(call->ssl);
    if (!was_open && SSL_do_handshake(call->ssl) == 1) {
        atomic_fetch_add(&call->server->opened_count, 1);
        atomic_fetch_add(&call->server->resumed_count, SSL_session_reused(call->ssl));
    }
    int size = SSL_is_init_finished(call->ssl) ? SSL_read(call->ssl, data, sizeof data) : 0;
    while (size > 0 && !call->is_over) {
        answer(call, data, size);
        size = SSL_read(call->ssl, data, sizeof data);
    }
    flush(call, false);
    bool has_failed = size <= 0 && SSL_get_error(call->ssl, size) == SSL_ERROR_SSL;
    call->is_over = call->is_over || has_failed;
}

static bool serve_one(struct test_tls_server *server, int fd)
{
    struct call call = {.server = server,
                        .fd = fd,
                        .ssl = SSL_new(server->context),
                        .in = BIO_new(BIO_s_mem()),
                        .out = BIO_new(BIO_s_mem())};
    bool goes_on = true;
    SSL_set_bio(call.ssl, call.in, call.out);
    SSL_set_accept_state(call.ssl);
    while (goes_on && !call.is_over) {
        char data[16384];
        goes_on = wait_for(&call, POLLIN);
        ssize_t size = goes_on ? recv(fd, data, sizeof data, MSG_DONTWAIT) : 0;
        if (size > 0) {
            (void)BIO_write(call.in, data, (int)size);
            step(&call);
        } else {
            call.is_over = size == 0 || errno != EAGAIN;
        }
    }
    SSL_free(call.ssl);
    return goes_on;
}

/* --- The thread --------------------------------------------------------------------- */

static void *serve(void *argument)
{
    struct test_tls_server *server = argument;
    const struct call listener = {.server = server, .fd = server->listen_fd};
    while (wait_for(&listener, POLLIN)) {
        int on = 1;
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            (void)serve_one(server, fd);
            (void)close(fd);
        }
    }
    return NULL;
}

static void set_up_context(struct test_tls_server *server)
{
    const struct test_tls_server_options *options = &server->options;
    char path[PATH_SIZE];
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    assert_non_null(context);
    SSL_CTX_set_security_level(context, 0); /* for versions that are not safe */
    (void)SSL_CTX_set_session_id_context(context, (const unsigned char *)"test", 4);
    assert_int_equal(SSL_CTX_set_min_proto_version(context, TLS1_VERSION), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(context, options->version_max), 1);
    (void)snprintf(path, sizeof path, "%s/%s.pem", options->dir, options->cert);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, path), 1);
    (void)snprintf(path, sizeof path, "%s/%s.key", options->dir, options->cert);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM), 1);
    if (options->client_ca != NULL) {
        (void)snprintf(path, sizeof path, "%s/%s.pem", options->dir, options->client_ca);
        assert_int_equal(SSL_CTX_load_verify_locations(context, path, NULL), 1);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    server->context = context;
}

void test_tls_server_start(struct test_tls_server *server,
                           const struct test_tls_server_options *options)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    *server = (struct test_tls_server){.options = *options};
    set_up_context(server);
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->listen_fd >= 0);
    assert_int_equal(bind(server->listen_fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server->listen_fd, 16), 0);
    assert_int_equal(getsockname(server->listen_fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(server->port, sizeof server->port, "%d", ntohs(address.sin_port));
    assert_int_equal(pipe2(server->stop_fds, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

void test_tls_server_stop(struct test_tls_server *server)
{
    assert_int_equal(write(server->stop_fds[1], "x", 1), 1);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->stop_fds[0]);
    (void)close(server->stop_fds[1]);
    (void)close(server->listen_fd);
    SSL_CTX_free(server->context);
}
