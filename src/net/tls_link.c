/* SPDX-License-Identifier: MIT */
/* tls_link.c - one TLS connection.
 *
 * OpenSSL reads and writes through a BIO of ours: send with MSG_NOSIGNAL, and a buffer in front of
 * recv, which saves a call for each record and whose contents we know: OpenSSL itself holds no
 * bytes that it has not looked at, so has_bytes is exact and no poll waits for what is here.
 *
 * A peer can keep OpenSSL busy with records that carry nothing for us. So the BIO receives at most
 * RECEIVE_MAX times for one call of ours and then says "not now": the caller reads the clock. */
#include "net/tls_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "net/tls_context.h"

#define IN_SIZE 32768 /* nearly two records of the largest size */
#define RECEIVE_MAX 8
#define RECORD_TYPE_FIRST 20 /* of the first byte of a record: change cipher spec ... */
#define RECORD_TYPE_LAST 23  /* ... to application data */

struct qn_tls_link {
    struct qn_tls_user user; /* first: the app data of the SSL */
    char *place;             /* of user */
    int fd;
    SSL *ssl;
    BIO_METHOD *method;
    short read_events; /* what the latest read and write waited for; 0: nothing */
    short write_events;
    bool failed;
    bool is_at_end;   /* the peer has closed */
    int saved_errno;  /* of the socket's failure */
    int receive_left; /* in this call */
    uint64_t received;
    size_t in_at; /* the unread bytes of `in` */
    size_t in_end;
    char in[IN_SIZE];
};

/* --- Below OpenSSL ------------------------------------------------------------------ */

static int bio_write(BIO *bio, const char *data, int size)
{
    struct qn_tls_link *link = BIO_get_data(bio);
    ssize_t count = -1;
    BIO_clear_retry_flags(bio);
    do {
        count = send(link->fd, data, (size_t)size, MSG_NOSIGNAL);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && errno == EAGAIN) {
        BIO_set_retry_write(bio);
    } else if (count < 0) {
        link->saved_errno = errno;
    }
    return (int)count;
}

/* Fills the empty buffer. False: nothing came. */
static bool fill(struct qn_tls_link *link, BIO *bio)
{
    if (link->receive_left == 0) {
        BIO_set_retry_read(bio);
        return false;
    }
    link->receive_left--;
    ssize_t count = recv(link->fd, link->in, sizeof link->in, 0);
    if (count > 0 && !link->user.reason.has_received) {
        unsigned char first = (unsigned char)link->in[0];
        link->user.reason.is_plain = first < RECORD_TYPE_FIRST || first > RECORD_TYPE_LAST;
        link->user.reason.has_received = true;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_read(bio);
    } else if (count < 0) {
        link->saved_errno = errno;
    }
    link->is_at_end = link->is_at_end || count == 0;
    link->in_at = 0;
    link->in_end = count > 0 ? (size_t)count : 0;
    link->received += link->in_end;
    return count > 0;
}

static int bio_read(BIO *bio, char *out, int size)
{
    struct qn_tls_link *link = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (link->in_at == link->in_end && !fill(link, bio)) {
        return link->is_at_end ? 0 : -1;
    }
    size_t left = link->in_end - link->in_at;
    size_t taken = left < (size_t)size ? left : (size_t)size;
    memcpy(out, link->in + link->in_at, taken);
    link->in_at += taken;
    return (int)taken;
}

static long bio_control(BIO *bio, int command, long number, void *data)
{
    (void)bio;
    (void)number;
    (void)data;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* Puts our BIO below the SSL, which then owns it. */
static bool put_bio(struct qn_tls_link *link)
{
    link->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "quern socket");
    if (link->method == NULL || BIO_meth_set_write(link->method, bio_write) != 1 ||
        BIO_meth_set_read(link->method, bio_read) != 1 ||
        BIO_meth_set_ctrl(link->method, bio_control) != 1) {
        return false;
    }
    BIO *bio = BIO_new(link->method);
    if (bio == NULL) {
        return false;
    }
    BIO_set_data(bio, link);
    BIO_set_init(bio, 1);
    SSL_set_bio(link->ssl, bio, bio);
    return true;
}

/* --- Calls of OpenSSL --------------------------------------------------------------- */

static void begin_call(struct qn_tls_link *link)
{
    ERR_clear_error(); /* those of the program that we are in are not ours */
    link->receive_left = RECEIVE_MAX;
    link->saved_errno = 0;
}

static ssize_t fail(struct qn_tls_link *link, int code)
{
    bool has_memory = qn_tls_reason_set(&link->user.reason, code, link->saved_errno);
    link->failed = true;
    errno = has_memory ? EPROTO : ENOMEM;
    return -1;
}

/* After a call that did not succeed: notes what to wait for, or why it failed. */
static ssize_t end_call(struct qn_tls_link *link, int result, short *events)
{
    int code = SSL_get_error(link->ssl, result);
    bool waits = code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE;
    if (!waits || link->user.reason.is_renegotiating) {
        return fail(link, code);
    }
    *events = code == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    errno = EAGAIN;
    return -1;
}

/* --- Handshake ---------------------------------------------------------------------- */

static bool is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* The name that the certificate must have; a name, but no address, is also sent to the peer. */
static bool set_name(struct qn_tls_link *link)
{
    const char *name = link->user.reason.server_name;
    X509_VERIFY_PARAM *param = SSL_get0_param(link->ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (is_address(name)) {
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    }
    return X509_VERIFY_PARAM_set1_host(param, name, strlen(name)) == 1 &&
           SSL_set_tlsext_host_name(link->ssl, name) == 1;
}

static bool make_ssl(struct qn_tls_link *link, const struct qn_peer *peer)
{
    ERR_clear_error();
    link->place = qn_str_dup(peer->address);
    link->user.place = link->place;
    link->user.reason.server_name = qn_tls_server_name(peer->tls, peer->host);
    if (link->place == NULL) {
        return false;
    }
    link->ssl = qn_tls_ssl_new(peer->tls, &link->user);
    return link->ssl != NULL && put_bio(link) && set_name(link);
}

static quern_status too_slow(const struct qn_peer *peer, const struct qn_tls_link *link,
                             int64_t begun_mono_ns, quern_error *err)
{
    bool has_answered = link->user.reason.has_received;
    return qn_peer_too_slow(
        peer, has_answered ? "no TLS handshake" : "no answer to TLS (is this its plain port?)",
        begun_mono_ns, err);
}

static quern_status refuse(const struct qn_peer *peer, const struct qn_tls_link *link,
                           quern_error *err)
{
    if (errno == ENOMEM) {
        return qn_error_nomem(err);
    }
    return qn_error_set(err, QUERN_E_CONNECT, "%s: TLS: %s", peer->address, link->user.reason.text);
}

static quern_status shake_hands(struct qn_tls_link *link, const struct qn_peer *peer,
                                int64_t deadline_mono_ns, quern_error *err)
{
    int64_t begun_mono_ns = qn_clock_mono_ns();
    int result = 0;
    while (result != 1) {
        short events = 0;
        begin_call(link);
        result = SSL_connect(link->ssl);
        if (result != 1 && end_call(link, result, &events) < 0 && errno != EAGAIN) {
            return refuse(peer, link, err);
        }
        int sleep_ms = qn_peer_sleep_ms(peer, begun_mono_ns, deadline_mono_ns);
        if (result != 1 && sleep_ms == 0) {
            return too_slow(peer, link, begun_mono_ns, err);
        }
        bool is_here = events == POLLIN && link->in_at < link->in_end;
        if (result != 1 && !is_here) {
            struct pollfd poller = {.fd = link->fd, .events = events};
            (void)poll(&poller, 1, sleep_ms);
        }
    }
    link->user.reason.is_open = true;
    return QUERN_OK;
}

quern_status qn_tls_link_open(const struct qn_peer *peer, int fd, int64_t deadline_mono_ns,
                              struct qn_tls_link **ret_link, quern_error *err)
{
    struct qn_tls_link *link = qn_alloc_zero(1, sizeof *link);
    if (link == NULL) {
        return qn_error_nomem(err);
    }
    link->fd = fd;
    quern_status status = QUERN_OK;
    if (!make_ssl(link, peer)) {
        ERR_clear_error();
        status = qn_error_nomem(err);
    } else {
        status = shake_hands(link, peer, deadline_mono_ns, err);
    }
    if (status != QUERN_OK) {
        qn_tls_link_close(link);
        return status;
    }
    *ret_link = link;
    return QUERN_OK;
}

void qn_tls_link_close(struct qn_tls_link *link)
{
    if (link == NULL) {
        return;
    }
    if (link->ssl != NULL && link->user.reason.is_open) {
        begin_call(link);
        if (!link->failed) {
            (void)SSL_shutdown(link->ssl);
        }
        if (!link->failed || link->is_at_end || link->saved_errno != 0) {
            /* Nothing is wrong with its session. */
            SSL_set_shutdown(link->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        }
        ERR_clear_error();
    }
    SSL_free(link->ssl);
    BIO_meth_free(link->method);
    qn_free(link->place);
    qn_free(link);
}

/* --- Sending and receiving ---------------------------------------------------------- */

/* The peer may have sent the reason before it closed. */
static void look_for_alert(struct qn_tls_link *link)
{
    char byte;
    int failed_errno = link->saved_errno;
    begin_call(link);
    int result = SSL_read(link->ssl, &byte, 1);
    int code = result > 0 ? SSL_ERROR_NONE : SSL_get_error(link->ssl, result);
    link->saved_errno = failed_errno;
    if (code == SSL_ERROR_SSL) {
        (void)fail(link, code);
    }
}

ssize_t qn_tls_link_send(struct qn_tls_link *link, const void *data, size_t size)
{
    size_t sent = 0;
    if (link->failed) {
        errno = EPROTO;
        return -1;
    }
    begin_call(link);
    link->write_events = 0;
    int result = SSL_write_ex(link->ssl, data, size, &sent);
    if (result == 1) {
        return (ssize_t)sent;
    }
    if (link->saved_errno != 0) {
        look_for_alert(link);
    }
    return link->failed ? -1 : end_call(link, result, &link->write_events);
}

ssize_t qn_tls_link_receive(struct qn_tls_link *link, void *data, size_t size)
{
    size_t used = 0;
    int result = 1;
    if (link->failed) {
        errno = EPROTO;
        return -1;
    }
    begin_call(link);
    link->read_events = 0;
    do {
        size_t count = 0;
        result = SSL_read_ex(link->ssl, (char *)data + used, size - used, &count);
        used += result == 1 ? count : 0;
    } while (result == 1 && used < size && qn_tls_link_has_bytes(link));
    if (used > 0) {
        return (ssize_t)used; /* if it has failed, it will fail again */
    }
    if (SSL_get_error(link->ssl, result) == SSL_ERROR_ZERO_RETURN) {
        return 0;
    }
    return end_call(link, result, &link->read_events);
}

short qn_tls_link_events(const struct qn_tls_link *link, short events)
{
    short wanted = events == POLLIN ? link->read_events : link->write_events;
    return wanted != 0 ? wanted : events;
}

bool qn_tls_link_has_bytes(const struct qn_tls_link *link)
{
    bool is_blocked = link->read_events == POLLOUT;
    return !is_blocked && (link->in_at < link->in_end || SSL_pending(link->ssl) > 0);
}

uint64_t qn_tls_link_received(const struct qn_tls_link *link)
{
    return link->received;
}

bool qn_tls_link_is_stale(struct qn_tls_link *link)
{
    char byte;
    size_t count = 0;
    if (link->failed) {
        return true;
    }
    begin_call(link);
    link->read_events = 0;
    int result = SSL_peek_ex(link->ssl, &byte, 1, &count);
    if (result != 1) {
        (void)end_call(link, result, &link->read_events);
    }
    return result == 1 || errno != EAGAIN;
}

const char *qn_tls_link_why(const struct qn_tls_link *link)
{
    return link->user.reason.text[0] != '\0' ? link->user.reason.text : "TLS has failed";
}

bool qn_tls_link_is_resumed(const struct qn_tls_link *link)
{
    return SSL_session_reused(link->ssl) == 1;
}
