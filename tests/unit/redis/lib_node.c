/* SPDX-License-Identifier: MIT */
/* lib_node.c - see lib_node.h. */
#include "lib_node.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib_test.h"

void node_bind(struct node *node)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    node->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(node->fd, (const struct sockaddr *)(const void *)&address, size), 0);
    assert_int_equal(getsockname(node->fd, (struct sockaddr *)(void *)&address, &size), 0);
    assert_int_equal(listen(node->fd, NODE_LINKS_MAX), 0);
    node->port = ntohs(address.sin_port);
}

void node_put(int fd, const char *text)
{
    ssize_t count = send(fd, text, strlen(text), MSG_NOSIGNAL);
    (void)count;
}

static void *serve_link(void *user)
{
    const struct node_link *link = user;
    char data[4096];
    redisReader *reader = redisReaderCreate(); /* a request looks like a reply */
    for (ssize_t size = recv(link->fd, data, sizeof data, 0); size > 0;
         size = recv(link->fd, data, sizeof data, 0)) {
        void *request = NULL;
        (void)redisReaderFeed(reader, data, (size_t)size);
        while (redisReaderGetReply(reader, &request) == REDIS_OK && request != NULL) {
            link->node->answer(link->node, link->fd, request);
            freeReplyObject(request);
        }
    }
    redisReaderFree(reader);
    return NULL;
}

static void *serve(void *user)
{
    struct node *node = user;
    for (int fd = accept(node->fd, NULL, NULL);
         fd >= 0 && atomic_load(&node->link_count) < NODE_LINKS_MAX;
         fd = accept(node->fd, NULL, NULL)) {
        struct node_link *link = &node->links[atomic_fetch_add(&node->link_count, 1)];
        *link = (struct node_link){.node = node, .fd = fd};
        (void)pthread_create(&link->thread, NULL, serve_link, link);
    }
    return NULL;
}

void node_start(struct node *node)
{
    node_bind(node);
    assert_int_equal(pthread_create(&node->thread, NULL, serve, node), 0);
}

void node_stop(struct node *node)
{
    (void)shutdown(node->fd, SHUT_RDWR);
    assert_int_equal(pthread_join(node->thread, NULL), 0);
    for (size_t i = 0; i < atomic_load(&node->link_count); i++) {
        (void)shutdown(node->links[i].fd, SHUT_RDWR);
        assert_int_equal(pthread_join(node->links[i].thread, NULL), 0);
        (void)close(node->links[i].fd);
    }
    (void)close(node->fd);
}
