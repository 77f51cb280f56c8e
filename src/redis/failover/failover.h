/* SPDX-License-Identifier: MIT */
/* failover.h - which server the connections of one broker use.
 *
 * All connections of a broker share one struct qn_failover: its endpoints (one, those of a list of
 * URLs, or the master that the sentinels name), and which of them is current. A connection takes
 * the current one when it opens (open.h). When that fails, the next one becomes current, at once
 * and for all; only after a whole cycle does the attempt fail, and its caller waits before the next
 * one. Each switch is a new generation: connections of an older one are closed when they are next
 * used, and waits in progress on them end within a tenth of a second.
 *
 * Nothing here connects. Any thread. */
#ifndef QN_REDIS_FAILOVER_FAILOVER_H
#define QN_REDIS_FAILOVER_FAILOVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "quern/status.h"
#include "redis/endpoint.h"

#define QN_FAILOVER_ADDRESS_SIZE 256
#define QN_FAILOVER_ENDPOINTS_MAX 32 /* URLs of a list; a cycle through more takes too long */

enum qn_failover_strategy {
    QN_FAILOVER_ROUND_ROBIN, /* the next one of the list */
    QN_FAILOVER_SHUFFLE      /* any of those that were not tried in this cycle */
};

/* What happens to the link, for logs and callbacks. The texts are borrowed. */
enum qn_link_event_kind {
    QN_LINK_FAILED,  /* an attempt to connect or to log in; status and text are set */
    QN_LINK_SWITCHED /* another server is current now */
};
struct qn_link_event {
    enum qn_link_event_kind kind;
    const char *address; /* of the server that failed, or that is current now */
    quern_status status;
    const char *text;
    uint32_t attempts;      /* that failed in a row, this one included */
    int64_t failing_for_ms; /* since the first of them */
};

/* Given once, before connections are opened; may be all zero. Callbacks run on the thread that
 * connects, without a lock, and must not use the broker. */
struct qn_failover_rules {
    enum qn_failover_strategy strategy;
    /* Replaces the strategy: the index of the endpoint to use after `current` failed. */
    size_t (*choose)(size_t count, size_t current, void *user);
    /* Of the program, called with `user`, too. */
    void (*on_failure)(const quern_link_failure *failure, void *user);
    void *user;
    void (*on_event)(const struct qn_link_event *event, void *event_user);
    void *event_user;
};

struct qn_server_choice {
    struct qn_endpoint *endpoint; /* a reference of the caller's */
    uint64_t generation;
};

struct qn_failover {
    char address[QN_FAILOVER_ADDRESS_SIZE]; /* for texts */
    pthread_mutex_t mutex;                  /* guards the rest */
    pthread_cond_t switched;                /* there is a new generation */
    struct qn_failover_rules rules;
    struct qn_endpoint *endpoints[QN_FAILOVER_ENDPOINTS_MAX]; /* references */
    size_t count;
    size_t current;               /* 0 is the preferred one */
    struct qn_endpoint *answered; /* the latest that did; a reference, NULL: none yet */
    _Atomic uint64_t generation;  /* from 1 on */
    uint32_t tried;               /* bits of those that failed in this cycle */
    uint32_t attempts;            /* failed in a row */
    int64_t failing_since_mono_ns;
    struct qn_random random;
    /* Asks a source that names the server, as sentinels do; NULL: the endpoints are a list. */
    quern_status (*find)(void *source, int64_t deadline_mono_ns, quern_error *err);
    void *source;
    _Atomic int64_t lost_link_mono_ns; /* when a link was found dead; 0: never */
    bool doubted;                      /* ask the source before the next connection is opened */
};

/* takes the reference of each endpoint; count >= 1. */
void qn_failover_init(struct qn_failover *failover, struct qn_endpoint *const *take_endpoints,
                      size_t count);
void qn_failover_finish(struct qn_failover *failover);
/* From now on `find` is asked before a connection opens, unless the server is known; it calls
 * qn_failover_set. Before any connection opens. */
void qn_failover_ask(struct qn_failover *failover,
                     quern_status (*find)(void *source, int64_t deadline_mono_ns, quern_error *err),
                     void *source);
/* Of the preferred endpoint, for texts; valid until finish. */
const char *qn_failover_address(const struct qn_failover *failover);

/* The server to connect to. Fails only where a source has to be asked: QUERN_E_CONNECT, ... */
QUERN_NODISCARD quern_status qn_failover_choose(struct qn_failover *failover,
                                                int64_t deadline_mono_ns,
                                                struct qn_server_choice *ret_choice,
                                                quern_error *err);
/* The one that is current, without asking a source. */
struct qn_server_choice qn_failover_current(struct qn_failover *failover);
/* An endpoint of its own for the preferred server, which is never abandoned; NULL: out of memory.
 */
struct qn_endpoint *qn_failover_preferred_copy(struct qn_failover *failover);
/* Whether the preferred one is current. */
bool qn_failover_is_preferred(struct qn_failover *failover);
/* How many servers one attempt to connect goes through. */
size_t qn_failover_cycle(struct qn_failover *failover);
/* The server of this choice could not be used: from now on another one is current. */
void qn_failover_fail(struct qn_failover *failover, const struct qn_server_choice *choice,
                      const quern_error *error);
/* It refuses us (a wrong password, another kind of server): reported in the same way, but no other
 * server may hide that mistake, so it stays current. */
void qn_failover_refuse(struct qn_failover *failover, const struct qn_server_choice *choice,
                        const quern_error *error);
/* It answers. */
void qn_failover_answer(struct qn_failover *failover, uint64_t generation);
/* It answers on an open connection that it is not the one to use (any more): another is chosen
 * before the next connection is opened. */
void qn_failover_doubt(struct qn_failover *failover, uint64_t generation);
bool qn_failover_is_current(const struct qn_failover *failover, uint64_t generation);
/* Waits for a server of another generation, at most until that moment. */
void qn_failover_wait(struct qn_failover *failover, uint64_t generation, int64_t until_mono_ns);
/* A connection was found dead whose server is not. Others may be, too: so for some time. */
void qn_failover_note_lost_link(struct qn_failover *failover);
bool qn_failover_has_lost_link(const struct qn_failover *failover);
/* Makes endpoints[index] current. */
void qn_failover_switch_to(struct qn_failover *failover, size_t index);
/* For a source: this endpoint, whose reference it takes, is the only one now. */
void qn_failover_set(struct qn_failover *failover, struct qn_endpoint *take_endpoint);

#endif
