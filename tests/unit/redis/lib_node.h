/* SPDX-License-Identifier: MIT */
/* lib_node.h - a server of the test on a TCP port: each request is given to a function of the test,
 * which answers it. One thread for each connection. */
#ifndef TESTS_LIB_NODE_H
#define TESTS_LIB_NODE_H

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define NODE_LINKS_MAX 64
/* What a server of this kind says to HELLO: "$8\r\nsentinel\r\n", ... */
#define NODE_HELLO(mode)                                                                           \
    "*6\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nmode\r\n" mode

struct node {
    /* Set by the test; fd: where the reply goes (node_put). */
    void (*answer)(struct node *node, int fd, const redisReply *request);
    int fd; /* it listens */
    int port;
    pthread_t thread;
    _Atomic size_t link_count; /* connections so far */
    struct node_link {
        struct node *node;
        int fd;
        pthread_t thread;
    } links[NODE_LINKS_MAX];
};

/* Listens, but accepts nothing: the kernel does, so connections are open and silent. */
void node_bind(struct node *node);
/* Answers from now on, until stop. */
void node_start(struct node *node);
void node_stop(struct node *node);
/* The other end may be gone. */
void node_put(int fd, const char *text);

#endif
