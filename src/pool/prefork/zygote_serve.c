/* SPDX-License-Identifier: MIT */
/* zygote_serve.c - the side of the executed program: finds the socket, answers, and serves.
 *
 * Descriptor 3 may be anything in a program that was started by another one. So nothing is read
 * from it before it has shown to be a socket of the right type, with our mark in its first packet.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "pool/prefork/zygote.h"
#include "pool/prefork/zygote_internal.h"
#include "pool/prefork/zygote_main.h"
#include "pool/prefork/zygote_wire.h"

static bool has_option(int name, int value)
{
    int found = 0;
    socklen_t size = sizeof found;
    return getsockopt(QN_ZYGOTE_SERVE_FD, SOL_SOCKET, name, &found, &size) == 0 && found == value;
}

static bool is_ours(void)
{
    uint64_t mark = 0;
    return has_option(SO_DOMAIN, AF_UNIX) && has_option(SO_TYPE, SOCK_SEQPACKET) &&
           recv(QN_ZYGOTE_SERVE_FD, &mark, sizeof mark, MSG_PEEK | MSG_DONTWAIT) ==
               (ssize_t)sizeof mark &&
           mark == QN_ZYGOTE_MARK;
}

/* The hello as a file. -1: there is no memory. */
static int store_hello(struct qn_bytes hello)
{
    int fd = memfd_create("quern-hello", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, hello.data, hello.size) != (ssize_t)hello.size) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static quern_status answer(const struct qn_zygote_program *program, uint64_t token,
                           quern_error *err)
{
    struct qn_zygote_handshake packet = {
        .mark = QN_ZYGOTE_MARK, .token = token, .hello_size = program->hello.size};
    struct qn_zygote_fds fds = {.count = 0};
    struct qn_bytes bytes = {.data = &packet, .size = sizeof packet};
    if (program->hello.size > QN_ZYGOTE_HELLO_SIZE_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "the zygote has too much to announce");
    }
    if (program->hello.size > 0) {
        fds.items[fds.count++] = store_hello(program->hello);
        if (fds.items[0] < 0) {
            return qn_error_set(err, QUERN_E_FULL, "no memory to answer the worker: %s",
                                strerror(errno));
        }
    }
    int error_number = qn_zygote_wire_send(QN_ZYGOTE_SERVE_FD, bytes, &fds);
    qn_zygote_wire_close(&fds);
    if (error_number != 0) {
        return qn_error_set(err, QUERN_E_CLOSED, "the worker is gone: %s", strerror(error_number));
    }
    return QUERN_OK;
}

quern_status qn_zygote_serve(const struct qn_zygote_program *program, quern_error *err)
{
    struct qn_zygote_handshake first;
    struct qn_zygote_fds fds = {.count = 0};
    if (!is_ours()) {
        return qn_error_set(err, QUERN_E_STATE, "this process was not started as a zygote");
    }
    quern_status status = qn_zygote_check_threads(err);
    if (status != QUERN_OK) {
        return status;
    }
    ssize_t size = qn_zygote_wire_receive(QN_ZYGOTE_SERVE_FD, QN_ROOM_OF(first), &fds);
    if (size != (ssize_t)sizeof first || fds.count < 1 || fds.count > 2) {
        qn_zygote_wire_close(&fds);
        return qn_error_set(err, QUERN_E_STATE, "the worker has another version");
    }
    (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0); /* after the answer that thread may end */
    status = answer(program, first.token, err);
    if (status != QUERN_OK) {
        qn_zygote_wire_close(&fds);
        return status;
    }
    if (fds.count == 2) { /* until now it was a pipe */
        (void)dup2(fds.items[1], STDERR_FILENO);
    }
    if (qn_zygote_main(program, QN_ZYGOTE_SERVE_FD, fds.items[0]) != 0) {
        status = qn_error_set(err, QUERN_E_FULL, "cannot serve as a zygote: %s", strerror(errno));
    }
    return status;
}
