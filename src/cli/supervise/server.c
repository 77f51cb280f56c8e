/* SPDX-License-Identifier: MIT */
/* server.c - answers short HTTP requests; see server.h.
 *
 * libmicrohttpd parses the requests. Its limit of time is one of silence, which a client that sends
 * a byte now and then never reaches; and at its limit of connections it accepts no more, so that a
 * probe would wait behind idle ones. So the connections are in a list by age here: those that are
 * too old, or too many, are shut down, and the library then finds their end. */
#include "cli/supervise/server.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/memory/list.h"

enum {
    CONNECTIONS_MAX = 32, /* that are left open */
    ACCEPTED_MAX = 128,   /* by the library, which accepts some before it closes others */
    REQUEST_SIZE_MAX = 8192,
    TIME_MS_MAX = 3000, /* of a connection, from its beginning */
    SILENCE_S_MAX = 3,
    LOOK_MS = 500
};

struct client {
    struct qn_list node;
    int fd;
    bool is_shut;
    int64_t since_mono_ns;
};

struct qn_server {
    struct MHD_Daemon *daemon;
    qn_server_answer *answer;
    void *user;
    struct qn_list clients; /* the oldest first */
    size_t open_count;      /* of these, not shut down */
};

static void shut(struct qn_server *server, struct client *client)
{
    client->is_shut = true;
    server->open_count--;
    (void)shutdown(client->fd, SHUT_RDWR);
}

/* By age, or because there are more than CONNECTIONS_MAX. */
static void shut_old(struct qn_server *server)
{
    int64_t oldest_mono_ns = qn_clock_mono_ns() - TIME_MS_MAX * QN_NS_PER_MS;
    for (struct qn_list *node = server->clients.next; node != &server->clients; node = node->next) {
        struct client *client = QN_CONTAINER_OF(node, struct client, node);
        bool is_old = client->since_mono_ns < oldest_mono_ns;
        if (!is_old && server->open_count <= CONNECTIONS_MAX) {
            return;
        }
        if (!client->is_shut) {
            shut(server, client);
        }
    }
}

static void on_connection(void *user, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct qn_server *server = user;
    struct client *client = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (client != NULL) {
            server->open_count -= client->is_shut ? 0 : 1;
            qn_list_remove(&client->node);
            qn_free(client);
        }
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    client = info != NULL ? qn_alloc_zero(1, sizeof *client) : NULL;
    if (client == NULL) { /* without its place in the list only the limits of the library hold */
        return;
    }
    client->fd = info->connect_fd;
    client->since_mono_ns = qn_clock_mono_ns();
    qn_list_append(&server->clients, &client->node);
    server->open_count++;
    *socket_context = client;
    shut_old(server);
}

/* take_body: from malloc. */
static enum MHD_Result respond(struct MHD_Connection *connection, unsigned code, char *take_body)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(take_body), take_body, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(take_body);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "Connection", "close");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(response, "Allow", "GET, HEAD");
    }
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    const struct qn_server *server = user;
    bool ok = false;
    char *body = NULL;
    unsigned code = MHD_HTTP_METHOD_NOT_ALLOWED;
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)request;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
        body = server->answer(path, &ok, server->user);
        code = body == NULL ? MHD_HTTP_NOT_FOUND : ok ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    }
    if (body == NULL) {
        body = strdup(code == MHD_HTTP_NOT_FOUND ? "{\"error\":\"no such page\"}\n"
                                                 : "{\"error\":\"GET or HEAD only\"}\n");
    }
    return body == NULL ? MHD_NO : respond(connection, code, body);
}

struct qn_server *qn_server_new(int fd, qn_server_answer *answer, void *user)
{
    struct qn_server *server = qn_alloc_zero(1, sizeof *server);
    int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (server == NULL || copy_fd < 0) {
        goto fail;
    }
    server->answer = answer;
    server->user = user;
    qn_list_init(&server->clients);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, copy_fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)ACCEPTED_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SILENCE_S_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_SIZE_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    if (server->daemon == NULL) {
        goto fail;
    }
    return server;

fail:
    if (copy_fd >= 0) {
        (void)close(copy_fd);
    }
    qn_free(server);
    return NULL;
}

void qn_server_free(struct qn_server *server)
{
    if (server != NULL) {
        MHD_stop_daemon(server->daemon);
        qn_free(server);
    }
}

int qn_server_fd(const struct qn_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info == NULL ? -1 : info->epoll_fd;
}

int64_t qn_server_work(struct qn_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    (void)MHD_run(server->daemon);
    shut_old(server);
    if (MHD_get_timeout(server->daemon, &timeout_ms) == MHD_YES && timeout_ms < LOOK_MS) {
        return (int64_t)timeout_ms;
    }
    return qn_list_empty(&server->clients) ? -1 : LOOK_MS;
}
