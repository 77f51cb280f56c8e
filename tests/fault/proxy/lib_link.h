/* SPDX-License-Identifier: MIT */
/* lib_link.h - one client of a proxy and its connection to the server, and what is on the way
 * between them. For lib_proxy.c, whose thread alone uses it. */
#ifndef TESTS_FAULT_PROXY_LIB_LINK_H
#define TESTS_FAULT_PROXY_LIB_LINK_H

#include "lib_plan.h"

#include <poll.h>
#include <stdio.h>

/* A request whose reply is still to come. */
struct proxy_flight {
    struct proxy_deed deed;
    size_t replies; /* SUBSCRIBE has one for each channel */
    char words[64]; /* of the request, for the log */
};

/* Bytes on their way to one end. */
struct proxy_lane {
    struct resp_bytes bytes;
    size_t slow; /* of them, the first ones, go one by one */
    int64_t not_before_ms;
};

struct proxy_link {
    int client_fd;
    int server_fd; /* -1: the server is not there */
    uint64_t number;
    char name[PROXY_NAME_SIZE]; /* as CLIENT SETNAME has it; "tls": the bytes cannot be read */
    bool is_tls;
    bool swallows;              /* nothing gets through any more */
    bool ends;                  /* when what it still has to send is gone ... */
    bool resets;                /* ... or at once, with a RST */
    int64_t take_not_before_ms; /* the next bytes of the client */
    struct resp_bytes from_client;
    struct resp_bytes from_server;
    struct resp_scan client_scan;
    struct resp_scan server_scan;
    struct proxy_lane to_client;
    struct proxy_lane to_server;
    struct proxy_flight *flights; /* the oldest first */
    size_t flight_count;
    size_t flight_room;
    uint64_t requests;
};

/* What a link needs of its proxy. */
struct proxy_links {
    struct proxy_plan *plan;
    _Atomic size_t *counts; /* of each fault */
    FILE *log;              /* NULL: none */
    int64_t began_ms;
};

void proxy_link_free(struct proxy_link *link);
/* The events that it waits for, at the client and at the server; earlier than *wake_ms if it has to
 * do something by itself. */
void proxy_link_events(const struct proxy_link *link, struct pollfd fds[2], int64_t *wake_ms);
/* After the poll. False: it has ended, and is to be freed. */
bool proxy_link_serve(struct proxy_links *links, struct proxy_link *link,
                      const struct pollfd fds[2]);
/* From now on nothing gets through. gone: even its kernel answers nothing (TCP). */
void proxy_link_swallow(struct proxy_link *link, bool gone);
/* The kernel discards all that comes for this TCP socket, and acknowledges nothing. */
void proxy_vanish(int fd);

#endif
