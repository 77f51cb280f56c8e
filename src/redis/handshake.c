/* SPDX-License-Identifier: MIT */
/* handshake.c - login and the server's identity, in one round trip.
 *
 * HELLO sends user, password and the name of the connection, and returns version, role and mode; a
 * user without any right may still send it. SELECT follows where another database than 0 is wanted.
 * Both go out in one write. A server that does not know HELLO is older than 6.0.
 *
 * A password_file is read at each login, so that a password that was changed is used without a
 * restart; while it cannot be read, the one that was read before is.
 *
 * The password goes into one block, which is wiped. A server may quote the request in its error, so
 * the error is not repeated if it contains the password. */
#include "redis/handshake.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "redis/encode.h"
#include "redis/password_file.h"
#include "redis/server_error.h"

#define VERSION_MIN 602 /* 6.2 */
#define NAME_SIZE 64
#define NUMBER_SIZE 24
#define FRAME_SIZE 256 /* the bytes around the arguments of the greeting */

/* Writes these words as one command. */
static void put_command(char **at, const char **words, size_t count)
{
    size_t sizes[8];
    QN_ASSERT(count <= sizeof sizes / sizeof *sizes);
    for (size_t i = 0; i < count; i++) {
        sizes[i] = strlen(words[i]);
    }
    qn_encode(at, words, sizes, count);
}

struct login {
    const char *password;
    char from_file[QN_PASSWORD_SIZE];
};

static void find_password(const struct qn_endpoint *endpoint, struct login *login)
{
    login->password = endpoint->password;
    if (endpoint->password_file[0] != '\0' &&
        qn_password_file_read("password_file", endpoint->password_file, login->from_file, NULL) ==
            QUERN_OK) {
        login->password = login->from_file;
    }
}

/* The login: the name of the connection, user and password, and the number of the database. */
static void write_greeting(const struct qn_connection *connection, const struct login *login,
                           char **at)
{
    const struct qn_endpoint *endpoint = connection->endpoint;
    bool known = endpoint->user[0] != '\0' || login->password[0] != '\0';
    char name[NAME_SIZE];
    char db[NUMBER_SIZE];
    (void)snprintf(name, sizeof name, "%s%s%s", endpoint->name,
                   connection->role[0] == '\0' ? "" : "-", connection->role);
    (void)snprintf(db, sizeof db, "%lld", (long long)endpoint->db);
    const char *hello[] = {"HELLO",        "2",
                           "SETNAME",      name,
                           "AUTH",         endpoint->user[0] == '\0' ? "default" : endpoint->user,
                           login->password};
    const char *select[] = {"SELECT", db};
    put_command(at, hello, known ? 7 : 4);
    if (endpoint->db != 0) {
        put_command(at, select, 2);
    }
}

static quern_status send_greeting(struct qn_connection *connection, const struct login *login,
                                  int64_t deadline_mono_ns, quern_error *err)
{
    size_t out_size =
        FRAME_SIZE + NAME_SIZE + strlen(connection->endpoint->user) + strlen(login->password);
    char *out = qn_alloc(out_size);
    if (out == NULL) {
        return qn_error_nomem(err);
    }
    char *at = out;
    write_greeting(connection, login, &at);
    quern_status status =
        qn_connection_send(connection, out, (size_t)(at - out), deadline_mono_ns, err);
    explicit_bzero(out, out_size);
    qn_free(out);
    return status;
}

static quern_status refuse_server(const struct qn_connection *connection, const struct login *login,
                                  const struct qn_reply *reply, quern_error *err)
{
    const char *address = connection->endpoint->peer.address;
    const char *password = login->password;
    if (strncmp(reply->data, "ERR unknown command", 19) == 0) {
        return qn_error_set(
            err, QUERN_E_UNSUPPORTED,
            "%s: this server is too old (it has no HELLO): Redis 6.2 or newer is required",
            address);
    }
    if (password[0] != '\0' && strstr(reply->data, password) != NULL) {
        return qn_error_set(
            err, QUERN_E_DENIED,
            "%s: login refused; the server's reply is not shown, as it contains the password",
            address);
    }
    return qn_server_error(connection->endpoint->peer.address, reply,
                           &(struct qn_server_call){.command = "HELLO"}, err);
}

/* The value of a field of the answer, which is a list of names and values. */
static const char *field(const struct qn_reply *hello, const char *name)
{
    for (size_t i = 0; i + 1 < hello->count; i += 2) {
        if (strcmp(qn_reply_text(hello->items[i]), name) == 0) {
            return qn_reply_text(hello->items[i + 1]);
        }
    }
    return "";
}

/* Is it the kind of server that the URL says, and the one that may write? */
static quern_status judge_place(const struct qn_connection *connection, const char *mode,
                                const char *role, quern_error *err)
{
    static const struct {
        const char *mode;
        const char *words;
    } wanted[] = {
        [QN_SERVER_STANDALONE] = {"standalone", "a standalone server"},
        [QN_SERVER_SENTINEL] = {"sentinel", "a sentinel"},
        [QN_SERVER_CLUSTER] = {"cluster", "a node of a cluster"},
    };
    const char *address = connection->endpoint->peer.address;
    enum qn_server_mode kind = connection->endpoint->mode;
    if (strcmp(mode, wanted[kind].mode) != 0) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED, "%s: runs in %.20s mode: %s is required",
                            address, mode, wanted[kind].words);
    }
    if (kind == QN_SERVER_STANDALONE && !QN_BUG(REPLICA_IS_MASTER) &&
        (strcmp(role, "replica") == 0 || strcmp(role, "slave") == 0)) {
        return qn_error_set(err, QUERN_E_BUSY,
                            "%s: this is a replica, and nothing can be stored here (READONLY)",
                            address);
    }
    return QUERN_OK;
}

static quern_status judge(const struct qn_connection *connection, const struct login *login,
                          const struct qn_reply *hello, quern_error *err)
{
    const char *address = connection->endpoint->peer.address;
    if (hello->type == QN_REPLY_ERROR) {
        return refuse_server(connection, login, hello, err);
    }
    const char *version = field(hello, "version");
    const char *mode = field(hello, "mode");
    int major = 0;
    int minor = 0;
    if (sscanf(version, "%3d.%3d", &major, &minor) != 2) {
        return qn_error_set(err, QUERN_E_BROKER, "%s: unexpected reply to HELLO", address);
    }
    if (major * 100 + minor < VERSION_MIN) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "%s: this is version %.20s: Redis 6.2 or newer is required", address,
                            version);
    }
    return judge_place(connection, mode, field(hello, "role"), err);
}

static quern_status receive_answers(struct qn_connection *connection, const struct login *login,
                                    struct qn_arena *arena, int64_t deadline_mono_ns,
                                    quern_error *err)
{
    struct qn_reply *reply = NULL;
    quern_status status = qn_connection_receive(connection, arena, deadline_mono_ns, &reply, err);
    if (status == QUERN_OK) {
        status = judge(connection, login, reply, err);
    }
    if (status == QUERN_OK && connection->endpoint->db != 0) {
        status = qn_connection_receive(connection, arena, deadline_mono_ns, &reply, err);
        if (status == QUERN_OK && reply->type == QN_REPLY_ERROR) {
            status = qn_server_error(connection->endpoint->peer.address, reply,
                                     &(struct qn_server_call){.command = "SELECT"}, err);
        }
    }
    if (status == QUERN_OK) {
        status = qn_connection_expect_no_more(connection, err);
    }
    return status;
}

/* Redis' TLS port closes a connection that begins with our plain greeting without a word. So does
 * many a proxy, but not at a place that has answered us before. */
static bool may_be_tls(const struct qn_connection *connection)
{
    const struct qn_endpoint *endpoint = connection->endpoint;
    return endpoint->peer.tls == NULL && endpoint->peer.host[0] != '\0' &&
           connection->socket.was_closed && !connection->decoder.has_begun &&
           !atomic_load(&endpoint->has_answered);
}

quern_status qn_handshake(struct qn_connection *connection, int64_t deadline_mono_ns,
                          quern_error *err)
{
    struct qn_arena arena = {0};
    struct login login;
    int64_t begun_mono_ns = qn_clock_mono_ns();
    find_password(connection->endpoint, &login);
    quern_status status = send_greeting(connection, &login, deadline_mono_ns, err);
    if (status == QUERN_OK) {
        status = receive_answers(connection, &login, &arena, deadline_mono_ns, err);
    }
    explicit_bzero(&login, sizeof login);
    qn_arena_finish(&arena);
    if (status == QUERN_E_TIMEOUT) {
        return qn_peer_too_slow(&connection->endpoint->peer, "connected, but no answer",
                                begun_mono_ns, err);
    }
    if (status == QUERN_E_CONNECT && may_be_tls(connection)) {
        qn_error_prefix(err, "closed before its first byte (if the port speaks TLS, write "
                             "rediss://)");
    }
    if (status == QUERN_OK) {
        atomic_store(&connection->endpoint->has_answered, true);
    }
    return status;
}
