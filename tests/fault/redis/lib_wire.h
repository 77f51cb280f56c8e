/* SPDX-License-Identifier: MIT */
/* lib_wire.h - a wire to a Redis server that is exact to the byte: it carries a given number of the
 * bytes that the server sends (WIRE_CUT_SENT: the client) and then ends or falls silent, or it
 * carries them one by one. A thread of the test program; one connection after the other. Without a
 * server it accepts and sends nothing, or a prepared reply. */
#ifndef TESTS_FAULT_LIB_WIRE_H
#define TESTS_FAULT_LIB_WIRE_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib_redis.h"

enum wire_kind { WIRE_WHOLE, WIRE_CUT, WIRE_CUT_SENT, WIRE_SILENT, WIRE_DRIBBLE };

struct wire {
    char dir[TEST_DIR_SIZE];
    char url[TEST_DIR_SIZE + 32];
    const char *server_path;    /* NULL: no server */
    const char *_Atomic canned; /* without a server: its reply when it receives something */
    int listen_fd;
    pthread_t thread;
    _Atomic int kind;
    _Atomic long limit;   /* bytes until it is cut or silent; read when a connection comes */
    _Atomic long carried; /* bytes of the server on the present connection */
    _Atomic long sent;    /* and of the client */
    _Atomic int cuts;     /* how often WIRE_CUT_SENT ended one */
    _Atomic bool stop;
};

void wire_start(struct wire *wire, const struct test_redis *redis);
void wire_stop(struct wire *wire);
/* For connections from now on. */
void wire_set(struct wire *wire, enum wire_kind kind, long limit);

#endif
