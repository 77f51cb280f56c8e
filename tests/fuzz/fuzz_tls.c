/* SPDX-License-Identifier: MIT */
/* fuzz_tls.c - what a peer sends in a TLS handshake, and after it.
 *
 * The first byte chooses the name that is wanted, the rest is sent by the peer, which then closes.
 * The seeds are the first flights of servers of TLS 1.2, whose certificates are not encrypted, so
 * that the explanations of tls_reason.c are reached with names, dates and issuers of any shape. No
 * input may open a connection: that would take the key of a certificate which is trusted. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib_fuzz.h"
#include "net/tls.h"
#include "net/tls_link.h"

static struct qn_tls *make_tls(void)
{
    struct qn_tls *tls = NULL;
    const struct qn_tls_options options = {.server_name = NULL};
    if (qn_tls_new(&options, &tls, NULL) != QUERN_OK) {
        abort();
    }
    return tls;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "::1", "a.example"};
    static struct qn_tls *tls;
    struct qn_tls_link *link = NULL;
    quern_error err = {0};
    int fds[2];
    if (tls == NULL) {
        tls = make_tls();
    }
    if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
        return 0;
    }
    const struct qn_peer peer = {.host = hosts[data[0] % 4],
                                 .port = "1",
                                 .path = "",
                                 .address = "fuzz",
                                 .connect_timeout_ms = 1000,
                                 .timeout_ms = 1000,
                                 .tls = tls};
    ssize_t sent = send(fds[1], data + 1, size - 1, MSG_NOSIGNAL);
    (void)sent;
    (void)shutdown(fds[1], SHUT_WR);
    int64_t deadline_mono_ns = qn_clock_mono_ns() + 1000 * QN_NS_PER_MS;
    quern_status status = qn_tls_link_open(&peer, fds[0], deadline_mono_ns, &link, &err);
    if (status == QUERN_OK || err.text[0] == '\0') {
        abort();
    }
    for (const char *at = err.text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e) {
            abort(); /* names of a certificate are shown as plain text */
        }
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
    return 0;
}
