/* SPDX-License-Identifier: MIT */
/* link.c - one connection: opening it with its handshake, sending, receiving.
 *
 * The socket never blocks; every wait is a poll with a deadline. The handshake is one write:
 * HELLO, which brings the password and the name and answers with version, role and mode, and SELECT
 * where another database than 0 is wanted. After any failure the link is closed, since what the
 * server still has to say belongs to nobody; the next use opens it again.
 *
 * Texts of errors: the address, then the server's or the kernel's words. */
#include "broker/redis/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "broker/redis/connect.h"
#include "broker/redis/reader.h"
#include "broker/redis/talk.h"

#define READ_SIZE 65536
#define VERSION_MIN 602 /* 6.2 */

void qn_link_init(struct qn_link *link, const struct qn_link_target *target)
{
    *link = (struct qn_link){.target = target, .fd = -1, .role = ""};
}

void qn_link_close(struct qn_link *link)
{
    if (link->fd >= 0) {
        (void)close(link->fd);
        link->fd = -1;
    }
    qn_reader_finish(link);
}

/* Closes it and passes the status on. */
static quern_status give_up(struct qn_link *link, quern_status status)
{
    qn_link_close(link);
    return status;
}

static quern_status lost(struct qn_link *link, const char *words, quern_error *err)
{
    return give_up(link, qn_error_set(err, QUERN_E_CONNECT, "%s: connection lost: %s",
                                      link->target->address, words));
}

static quern_status too_slow(struct qn_link *link, quern_error *err)
{
    return give_up(link, qn_error_set(err, QUERN_E_TIMEOUT, "%s: no answer within %lld ms",
                                      link->target->address,
                                      (long long)link->target->command_timeout_ms));
}

/* --- The handshake ------------------------------------------------------------------ */

static quern_status append_text(struct qn_buf *buf, const char *text)
{
    return qn_buf_printf(buf, "$%zu\r\n%s\r\n", strlen(text), text);
}

static quern_status write_hello(const struct qn_link *link, struct qn_buf *buf)
{
    const struct qn_link_target *target = link->target;
    char name[64];
    const char *dash = link->role[0] == '\0' ? "" : "-";
    (void)snprintf(name, sizeof name, "%s%s%s", target->name, dash, link->role);
    bool known = target->user[0] != '\0' || target->password[0] != '\0';
    quern_status status =
        qn_buf_printf(buf, "*%d\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$7\r\nSETNAME\r\n", known ? 7 : 4);
    if (status == QUERN_OK) {
        status = append_text(buf, name);
    }
    if (status == QUERN_OK && known) {
        status = qn_buf_append_text(buf, "$4\r\nAUTH\r\n");
        if (status == QUERN_OK) {
            status = append_text(buf, target->user[0] == '\0' ? "default" : target->user);
        }
        if (status == QUERN_OK) {
            status = append_text(buf, target->password);
        }
    }
    if (status == QUERN_OK && target->db != 0) {
        char db[24];
        (void)snprintf(db, sizeof db, "%lld", (long long)target->db);
        status = qn_buf_append_text(buf, "*2\r\n$6\r\nSELECT\r\n");
        if (status == QUERN_OK) {
            status = append_text(buf, db);
        }
    }
    return status;
}

/* The value of a field of the answer to HELLO, a list of names and values. */
static const char *hello_field(const struct qn_reply *hello, const char *name)
{
    for (size_t i = 0; i + 1 < hello->count; i += 2) {
        if (strcmp(qn_reply_text(hello->items[i]), name) == 0) {
            return qn_reply_text(hello->items[i + 1]);
        }
    }
    return "";
}

static quern_status judge_hello(struct qn_link *link, const struct qn_reply *hello,
                                quern_error *err)
{
    const char *address = link->target->address;
    if (hello->type == QN_REPLY_ERROR) {
        if (strncmp(hello->data, "ERR unknown command", 19) == 0) {
            return qn_error_set(err, QUERN_E_UNSUPPORTED,
                                "%s: this server is too old: Redis 6.2 or newer is needed",
                                address);
        }
        return qn_link_refused(link, hello, "HELLO", err);
    }
    const char *version = hello_field(hello, "version");
    int major = 0;
    int minor = 0;
    if (sscanf(version, "%d.%d", &major, &minor) != 2) {
        return qn_error_set(err, QUERN_E_BROKER, "%s: answered what it should not: HELLO", address);
    }
    if (major * 100 + minor < VERSION_MIN) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "%s: this is Redis %.20s: 6.2 or newer is needed", address, version);
    }
    return QUERN_OK;
}

static quern_status shake_hands(struct qn_link *link, int64_t deadline_mono_ns, quern_error *err)
{
    struct qn_buf buf;
    struct qn_arena arena = {0};
    struct qn_reply *reply = NULL;
    bool sent = false;
    qn_buf_init(&buf, 65536);
    quern_status status = write_hello(link, &buf);
    if (status != QUERN_OK) {
        status =
            qn_error_set(err, status, "%s: user name or password too long", link->target->address);
    }
    if (status == QUERN_OK) {
        status = qn_link_write(link, buf.data, buf.size, deadline_mono_ns, &sent, err);
    }
    if (status == QUERN_OK) {
        status = qn_link_read(link, &arena, deadline_mono_ns, &reply, err);
    }
    if (status == QUERN_OK) {
        status = judge_hello(link, reply, err);
    }
    if (status == QUERN_OK && link->target->db != 0) {
        status = qn_link_read(link, &arena, deadline_mono_ns, &reply, err);
        if (status == QUERN_OK && reply->type == QN_REPLY_ERROR) {
            status = qn_link_refused(link, reply, "SELECT", err);
        }
    }
    qn_arena_finish(&arena);
    qn_buf_finish(&buf); /* NEEDSWORK: wipe the password */
    return status;
}

quern_status qn_link_open(struct qn_link *link, int64_t deadline_mono_ns, quern_error *err)
{
    if (link->fd >= 0) {
        return QUERN_OK;
    }
    int64_t connect_by_ns = qn_clock_mono_ns() + link->target->connect_timeout_ms * 1000000;
    if (connect_by_ns > deadline_mono_ns) {
        connect_by_ns = deadline_mono_ns;
    }
    quern_status status = qn_connect(link->target, connect_by_ns, &link->fd, err);
    if (status == QUERN_OK) {
        status = qn_reader_init(link, err);
    }
    if (status == QUERN_OK) {
        link->opened_count++;
        status = shake_hands(link, connect_by_ns, err);
    }
    return status == QUERN_OK ? status : give_up(link, status);
}

/* --- Sending and receiving ---------------------------------------------------------- */

quern_status qn_link_write(struct qn_link *link, const void *data, size_t size,
                           int64_t deadline_mono_ns, bool *ret_sent, quern_error *err)
{
    size_t sent = 0;
    *ret_sent = false;
    while (sent < size) {
        ssize_t count = send(link->fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (count > 0) {
            sent += (size_t)count;
            *ret_sent = true;
        } else if (count < 0 && errno == EAGAIN) {
            if (!qn_connect_wait(link->fd, POLLOUT, deadline_mono_ns)) {
                return too_slow(link, err);
            }
        } else if (errno != EINTR) {
            return lost(link, strerror(errno), err);
        }
    }
    return QUERN_OK;
}

/* Feeds what is there. *ret_empty: nothing was. */
static quern_status receive(struct qn_link *link, bool *ret_empty, quern_error *err)
{
    char data[READ_SIZE];
    ssize_t count = recv(link->fd, data, sizeof data, 0);
    *ret_empty = count < 0 && (errno == EAGAIN || errno == EINTR);
    if (count > 0) {
        quern_status status = qn_reader_feed(link, data, (size_t)count, err);
        return status == QUERN_OK ? status : give_up(link, status);
    }
    if (*ret_empty) {
        return QUERN_OK;
    }
    return lost(link, count == 0 ? "closed by the server" : strerror(errno), err);
}

quern_status qn_link_try_read(struct qn_link *link, struct qn_arena *arena,
                              struct qn_reply **ret_reply, quern_error *err)
{
    struct qn_reply *reply = NULL;
    bool empty = false;
    while (true) {
        quern_status status = qn_reader_next(link, arena, &reply, err);
        if (status != QUERN_OK) {
            return give_up(link, status);
        }
        if (reply != NULL || empty) {
            *ret_reply = reply;
            return QUERN_OK;
        }
        status = receive(link, &empty, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
}

quern_status qn_link_read(struct qn_link *link, struct qn_arena *arena, int64_t deadline_mono_ns,
                          struct qn_reply **ret_reply, quern_error *err)
{
    while (true) {
        struct qn_reply *reply = NULL;
        quern_status status = qn_link_try_read(link, arena, &reply, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (reply != NULL) {
            *ret_reply = reply;
            return QUERN_OK;
        }
        if (!qn_connect_wait(link->fd, POLLIN, deadline_mono_ns)) {
            return too_slow(link, err);
        }
    }
}

bool qn_link_is_stale(const struct qn_link *link)
{
    char byte;
    ssize_t count = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* --- Refusals ----------------------------------------------------------------------- */

static bool has_code(const struct qn_reply *reply, const char *code)
{
    size_t size = strlen(code);
    return reply->size >= size && memcmp(reply->data, code, size) == 0 &&
           (reply->data[size] == ' ' || reply->data[size] == '\0');
}

static quern_status status_of(const struct qn_reply *reply)
{
    static const struct {
        const char *code;
        quern_status status;
    } codes[] = {
        {"OOM", QUERN_E_FULL},      {"MISCONF", QUERN_E_FULL},     {"LOADING", QUERN_E_BUSY},
        {"BUSY", QUERN_E_BUSY},     {"MASTERDOWN", QUERN_E_BUSY},  {"READONLY", QUERN_E_BUSY},
        {"TRYAGAIN", QUERN_E_BUSY}, {"CLUSTERDOWN", QUERN_E_BUSY}, {"WRONGTYPE", QUERN_E_CORRUPT},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (has_code(reply, codes[i].code)) {
            return codes[i].status;
        }
    }
    return QUERN_E_BROKER;
}

quern_status qn_link_refused(const struct qn_link *link, const struct qn_reply *reply,
                             const char *command, quern_error *err)
{
    return qn_error_set(err, status_of(reply), "%s: %s: %s", link->target->address, command,
                        reply->data);
}
