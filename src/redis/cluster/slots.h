/* SPDX-License-Identifier: MIT */
/* slots.h - which slot of a cluster a key lies in, and what a server reports about slots. No I/O.
 *
 * What a server reports is not trusted: the texts are checked, and every count has a limit. */
#ifndef QN_REDIS_CLUSTER_SLOTS_H
#define QN_REDIS_CLUSTER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/reply.h"

#define QN_SLOT_COUNT 16384
#define QN_SLOT_HOST_SIZE 256 /* with its NUL */
#define QN_SLOT_PORT_SIZE 6
#define QN_SLOT_NODES_MAX 1024 /* of one cluster, as Redis recommends it */

/* Where a node listens. */
struct qn_slot_place {
    char host[QN_SLOT_HOST_SIZE]; /* "": where the one who reports it listens */
    char port[QN_SLOT_PORT_SIZE];
};

/* The slot of a key: CRC16 of what is between its first '{' and the next '}', if that is not empty,
 * else of all of it. */
uint16_t qn_slots_of(const void *key, size_t size);

/* What an error reply asks for. */
enum qn_slot_advice {
    QN_SLOT_FINE,  /* it is no error of a cluster */
    QN_SLOT_MOVED, /* the slot is at another node */
    QN_SLOT_WAIT,  /* the slot is being moved, or its node cannot answer now: later */
    QN_SLOT_BAD    /* it names no place where a node could be */
};
/* *ret_place: only after QN_SLOT_MOVED. */
enum qn_slot_advice qn_slots_advice(const struct qn_reply *error, struct qn_slot_place *ret_place);

/* Reads "host:port", also with an IPv6 host, in brackets or without. `port`: used where the text
 * has none; NULL: it must have one. */
bool qn_slots_place(const char *text, size_t size, const char *port,
                    struct qn_slot_place *ret_place);

/* Takes a place, returns a number for it below QN_SLOT_NODES_MAX; -1: that is too many, or memory
 * is out. */
typedef int (*qn_slot_number_fn)(const struct qn_slot_place *place, void *user);
/* Reads the reply to CLUSTER SLOTS: owners[slot] = the number of its master, or -1. NULL: it is
 * sound; else what is wrong with it. */
const char *qn_slots_read(const struct qn_reply *reply, int16_t owners[QN_SLOT_COUNT],
                          qn_slot_number_fn number, void *user);

#endif
