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
    LOOK_MS = 500,
    MS_PER_S = 1000
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
    uint32_t time_s;        /* of a connection, from its beginning; and of silence */
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
    int64_t time_ms_max = (int64_t)server->time_s * MS_PER_S;
    int64_t oldest_mono_ns = qn_clock_mono_ns() - time_ms_max * QN_NS_PER_MS;
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

/* Frees the body, now or later. */
static enum MHD_Result respond(struct MHD_Connection *connection, unsigned code,
                               const struct qn_server_page *page)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(page->size, page->body, page->free_body);
    if (response == NULL) {
        page->free_body(page->body);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", page->content_type);
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
    struct qn_server_page page = {.free_body = free, .content_type = "application/json"};
    unsigned code = MHD_HTTP_METHOD_NOT_ALLOWED;
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)request;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
        const struct qn_server_request wanted = {
            path, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept")};
        bool is_page = server->answer(&wanted, &page, server->user);
        code = !is_page ? MHD_HTTP_NOT_FOUND : page.ok ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    }
    if (code == MHD_HTTP_NOT_FOUND || code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        page.body = strdup(code == MHD_HTTP_NOT_FOUND ? "{\"error\":\"no such page\"}\n"
                                                      : "{\"error\":\"GET or HEAD only\"}\n");
        page.size = page.body != NULL ? strlen(page.body) : 0;
    }
    return page.body == NULL ? MHD_NO : respond(connection, code, &page);
}

struct qn_server *qn_server_new(int fd, uint32_t time_s, qn_server_answer *answer, void *user)
{
    struct qn_server *server = qn_alloc_zero(1, sizeof *server);
    int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (server == NULL || copy_fd < 0) {
        goto fail;
    }
    server->answer = answer;
    server->user = user;
    server->time_s = time_s;
    qn_list_init(&server->clients);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, copy_fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)ACCEPTED_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)time_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_SIZE_MAX,
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
