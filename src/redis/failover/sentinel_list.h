/* SPDX-License-Identifier: MIT */
/* sentinel_list.h - the sentinels that are known: those of the URL, and those that others name.
 *
 * One of the URL stays for ever. One that was learned is forgotten when no other one lists it any
 * more (SENTINEL RESET), or when it has not answered for a minute and no other one takes it for up.
 * Else those that are gone would be asked for ever, and after some replacements of hosts there
 * would be no room for new ones. Others name a sentinel of the URL by its address, whatever the URL
 * calls it; then it is known twice, as twins, of which one is asked: the one of the URL, and once
 * that has failed the other one, until that fails. Nothing here connects. Any thread. */
#ifndef QN_REDIS_FAILOVER_SENTINEL_LIST_H
#define QN_REDIS_FAILOVER_SENTINEL_LIST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/socket.h"
#include "redis/endpoint.h"
#include "redis/reply.h"

#define QN_SENTINELS_MAX 32
#define QN_SENTINEL_SILENT_MS 60000 /* until one that was learned may be forgotten */

struct qn_sentinel {
    struct qn_endpoint *endpoint;         /* a reference */
    char address[QN_SOCKET_ADDRESS_SIZE]; /* of its latest connection; "": there was none */
    bool is_learned;
    bool gave_list;                /* of the others in this round, as the next two */
    bool is_listed;                /* by another one */
    bool is_up;                    /* another one says so */
    int64_t failing_since_mono_ns; /* 0: it answered when it was last asked */
};

struct qn_sentinel_list {
    pthread_mutex_t mutex; /* guards the rest */
    size_t count;
    struct qn_sentinel sentinels[QN_SENTINELS_MAX]; /* those that did not answer come last */
};

void qn_sentinel_list_init(struct qn_sentinel_list *list);
void qn_sentinel_list_finish(struct qn_sentinel_list *list);
/* One of the URL: takes the reference if there is room. */
bool qn_sentinel_list_add(struct qn_sentinel_list *list, struct qn_endpoint *take_endpoint);
/* How many there are; of twins only one counts. */
size_t qn_sentinel_list_count(struct qn_sentinel_list *list);
/* The index-th of these, with a reference for the caller; NULL: there are fewer. */
struct qn_endpoint *qn_sentinel_list_at(struct qn_sentinel_list *list, size_t index);
bool qn_sentinel_list_has(struct qn_sentinel_list *list, const struct qn_endpoint *node);

/* A round asks all of them, on one thread at a time. Between its begin and its end the answer or
 * the failure of each is noted. Learns from a reply to SENTINEL SENTINELS those that are up; a node
 * that failed is asked last from now on. The end forgets. address: that it answered from. */
void qn_sentinel_list_begin(struct qn_sentinel_list *list);
void qn_sentinel_list_answer(struct qn_sentinel_list *list, const struct qn_endpoint *node,
                             const char *address, const struct qn_reply *others);
void qn_sentinel_list_fail(struct qn_sentinel_list *list, const struct qn_endpoint *node,
                           int64_t now_mono_ns);
void qn_sentinel_list_end(struct qn_sentinel_list *list, int64_t now_mono_ns);

/* The value of a field of a reply that is a list of names and values; "": it has none. */
const char *qn_sentinel_list_field(const struct qn_reply *reply, const char *name);
/* Whether a sentinel may name such a place. */
bool qn_sentinel_list_is_place(const char *host, const char *port);

#endif
