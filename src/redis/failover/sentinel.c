/* SPDX-License-Identifier: MIT */
/* sentinel.c - asks sentinels where the master is, and for further sentinels (sentinel_list.h).
 *
 * All of them are asked, one after the other: during a failover only the sentinel that leads it
 * knows the new master, and that with a new epoch, while the others agree on the old one. One that
 * is gone costs ASK_MS at most, and is asked last the next time. An answer of an older epoch than
 * was seen before is refused, unless more than half of them give it: then they were reset. While
 * one of them replaces the master, no server is: all that the old one stores would be lost. */
#include "redis/failover/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "redis/cluster/slots.h"
#include "redis/encode.h"
#include "redis/open.h"
#include "redis/password_file.h"

#define ASK_MS 700
#define ASK_MS_REST 200 /* once most of them agree */
#define CANDIDATES_MAX 8
#define DEFAULT_PORT "26379"
#define LIST_SIZE (QN_SLOT_HOST_SIZE + QN_SLOT_PORT_SIZE + sizeof "[]:")
#define PARAM_DB "db"
#define PARAM_PASSWORD_FILE "password_file"
#define PARAM_SENTINEL_PASSWORD_FILE "sentinel_password_file"

/* --- The URL -------------------------------------------------------------------------- */

/* The URL of a single server there. */
static struct qn_url url_of(const struct qn_url *url, const struct qn_slot_place *place,
                            bool is_sentinel)
{
    struct qn_url made = *url;
    made.memory = NULL;
    made.scheme = url->scheme[strlen("redis")] == 's' ? "rediss" : "redis";
    made.host = place->host;
    made.port = place->port;
    if (is_sentinel) {
        made.path = "";
        made.param_count = 0;
        for (size_t i = 0; i < url->param_count; i++) {
            const char *name = url->params[i].name;
            if (strcmp(name, PARAM_DB) != 0 && strcmp(name, PARAM_PASSWORD_FILE) != 0) {
                made.params[made.param_count] = url->params[i];
                bool is_login = strcmp(name, PARAM_SENTINEL_PASSWORD_FILE) == 0;
                made.params[made.param_count++].name = is_login ? PARAM_PASSWORD_FILE : name;
            }
        }
    }
    return made;
}

static quern_status add_nodes(struct qn_sentinels *sentinels, const char *hosts,
                              const struct qn_url *login, const struct qn_endpoint_terms *terms,
                              quern_error *err)
{
    quern_status status = QUERN_OK;
    for (const char *at = hosts; status == QUERN_OK && at != NULL;) {
        struct qn_slot_place place;
        size_t size = strcspn(at, ",");
        if (qn_sentinel_list_count(&sentinels->list) == QN_SENTINELS_MAX ||
            !qn_slots_place(at, size, DEFAULT_PORT, &place) || place.host[0] == '\0') {
            return qn_error_set(err, QUERN_E_INVALID,
                                "redis: sentinels are written host:port,host:port, %d at most",
                                QN_SENTINELS_MAX);
        }
        struct qn_url one = url_of(login, &place, true);
        struct qn_endpoint *endpoint = NULL;
        status = qn_endpoint_new(&one, terms, &endpoint, err);
        if (status == QUERN_OK) {
            endpoint->mode = QN_SERVER_SENTINEL;
            qn_sentinel_list_add(&sentinels->list, endpoint);
        }
        at = at[size] == ',' ? at + size + 1 : NULL;
    }
    return status;
}

/* The hosts as a list: where there is only one, its port is apart, and an IPv6 address bare. */
static const char *list_of(const struct qn_url *url, char list[LIST_SIZE])
{
    bool is_ipv6 = strchr(url->host, ':') != NULL;
    if (strchr(url->host, ',') != NULL) {
        return url->host;
    }
    (void)snprintf(list, LIST_SIZE, "%s%.255s%s%s%s", is_ipv6 ? "[" : "", url->host,
                   is_ipv6 ? "]" : "", url->port[0] != '\0' ? ":" : "", url->port);
    return list;
}

static quern_status make_all(struct qn_sentinels *sentinels, const struct qn_url *url,
                             const struct qn_url_params *params,
                             const struct qn_endpoint_terms *terms, quern_error *err)
{
    char password[QN_PASSWORD_SIZE] = "";
    char list[LIST_SIZE];
    struct qn_slot_place place = {.host = "master", .port = "6379"};
    struct qn_url login = *url;
    struct qn_url data = url_of(url, &place, false);
    quern_status status = QUERN_OK;
    if (params->sentinel_password_file != NULL) { /* each node reads it: this is for the error */
        status = qn_password_file_read(PARAM_SENTINEL_PASSWORD_FILE, params->sentinel_password_file,
                                       password, err);
        explicit_bzero(password, sizeof password);
    }
    login.user = params->sentinel_user != NULL ? params->sentinel_user : "";
    login.password = "";
    if (status == QUERN_OK) {
        status = qn_endpoint_new(&data, terms, &sentinels->model, err);
    }
    if (status == QUERN_OK) {
        status = add_nodes(sentinels, list_of(url, list), &login, terms, err);
    }
    return status;
}

quern_status qn_sentinels_init(struct qn_sentinels *sentinels, const struct qn_url *url,
                               const struct qn_url_params *params,
                               const struct qn_endpoint_terms *terms, quern_error *err)
{
    *sentinels = (struct qn_sentinels){.status = QUERN_OK};
    if (params->master == NULL || params->master[0] == '\0' || url->host[0] == '\0') {
        return qn_error_set(err, QUERN_E_INVALID,
                            "redis: write redis-sentinel://host,host,host/0?master=NAME");
    }
    qn_sentinel_list_init(&sentinels->list);
    sentinels->master = qn_str_dup(params->master);
    quern_status status = sentinels->master == NULL ? qn_error_nomem(err)
                                                    : make_all(sentinels, url, params, terms, err);
    (void)pthread_mutex_init(&sentinels->mutex, NULL);
    qn_cond_init(&sentinels->asked);
    if (status != QUERN_OK) {
        qn_sentinels_finish(sentinels);
    }
    return status;
}

void qn_sentinels_finish(struct qn_sentinels *sentinels)
{
    qn_sentinel_list_finish(&sentinels->list);
    qn_endpoint_unref(sentinels->model);
    qn_free(sentinels->master);
    (void)pthread_cond_destroy(&sentinels->asked);
    (void)pthread_mutex_destroy(&sentinels->mutex);
    *sentinels = (struct qn_sentinels){.status = QUERN_OK};
}

static quern_status find(void *source, int64_t deadline_mono_ns, quern_error *err)
{
    return qn_sentinels_find(source, deadline_mono_ns, err);
}

void qn_sentinels_serve(struct qn_sentinels *sentinels, struct qn_failover *failover)
{
    sentinels->failover = failover;
    qn_failover_ask(failover, find, sentinels);
}

/* --- One sentinel --------------------------------------------------------------------- */

/* What some of them say. */
struct candidate {
    struct qn_slot_place place;
    uint64_t epoch;
    size_t votes;
    bool leaves; /* one of them is about to replace it */
};

struct poll {
    struct candidate candidates[CANDIDATES_MAX];
    size_t count;
    size_t answers;    /* of sentinels */
    size_t strangers;  /* of those that know no such master */
    quern_error error; /* of one that did not answer */
};

static void put_sentinel(char **at, const char *verb, const char *master)
{
    const char *words[] = {"SENTINEL", verb, master};
    const size_t sizes[] = {strlen("SENTINEL"), strlen(verb), strlen(master)};
    qn_encode(at, words, sizes, 3);
}

static void vote(struct poll *poll, const struct candidate *candidate)
{
    for (size_t i = 0; i < poll->count; i++) {
        struct candidate *at = &poll->candidates[i];
        if (at->epoch == candidate->epoch && strcmp(at->place.host, candidate->place.host) == 0 &&
            strcmp(at->place.port, candidate->place.port) == 0) {
            at->votes++;
            at->leaves = at->leaves || candidate->leaves;
            return;
        }
    }
    if (poll->count < CANDIDATES_MAX) {
        poll->candidates[poll->count++] = *candidate;
    }
}

enum { ADDRESS, MASTER, SENTINELS, REPLY_COUNT };

static void take_answer(struct qn_reply *const *replies, struct poll *poll)
{
    const char *host = qn_reply_text(qn_reply_at(replies[ADDRESS], 0));
    const char *port = qn_reply_text(qn_reply_at(replies[ADDRESS], 1));
    poll->answers++;
    if (replies[ADDRESS]->type == QN_REPLY_ERROR) {
        (void)qn_error_set(&poll->error, QUERN_E_BROKER, "%.200s", replies[ADDRESS]->data);
        return;
    }
    if (!qn_sentinel_list_is_place(host, port)) {
        poll->strangers++;
        return;
    }
    struct candidate candidate = {
        .epoch = strtoull(qn_sentinel_list_field(replies[MASTER], "config-epoch"), NULL, 10),
        .votes = 1};
    (void)snprintf(candidate.place.host, QN_SLOT_HOST_SIZE, "%s", host);
    (void)snprintf(candidate.place.port, QN_SLOT_PORT_SIZE, "%s", port);
    candidate.leaves =
        strstr(qn_sentinel_list_field(replies[MASTER], "flags"), "failover_in_progress") != NULL &&
        strcmp(qn_sentinel_list_field(replies[MASTER], "ip"), host) == 0 &&
        strcmp(qn_sentinel_list_field(replies[MASTER], "port"), port) == 0;
    vote(poll, &candidate);
}

/* The connection to one of them. */
struct visit {
    struct qn_connection connection;
    struct qn_arena arena;
    int64_t deadline_mono_ns;
};

/* Opens the connection, and asks on it. */
static quern_status exchange(struct qn_sentinels *sentinels, struct visit *visit, struct poll *poll,
                             quern_error *err)
{
    static const char *const verbs[REPLY_COUNT] = {
        [ADDRESS] = "GET-MASTER-ADDR-BY-NAME", [MASTER] = "MASTER", [SENTINELS] = "SENTINELS"};
    struct qn_reply *replies[REPLY_COUNT];
    size_t size_max = REPLY_COUNT * (128 + strlen(sentinels->master));
    char *out = qn_arena_alloc(&visit->arena, size_max);
    char *at = out;
    if (out == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < REPLY_COUNT; i++) {
        put_sentinel(&at, verbs[i], sentinels->master);
    }
    quern_status status = qn_open_connection(&visit->connection, visit->deadline_mono_ns, err);
    if (status == QUERN_OK) {
        status = qn_connection_send(&visit->connection, out, (size_t)(at - out),
                                    visit->deadline_mono_ns, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < REPLY_COUNT; i++) {
        status = qn_connection_receive(&visit->connection, &visit->arena, visit->deadline_mono_ns,
                                       &replies[i], err);
    }
    if (status == QUERN_OK) {
        char address[QN_SOCKET_ADDRESS_SIZE];
        qn_socket_address(&visit->connection.socket, address);
        take_answer(replies, poll);
        qn_sentinel_list_answer(&sentinels->list, visit->connection.endpoint, address,
                                replies[SENTINELS]);
    }
    return status;
}

/* Whether it answered. */
static bool ask_one(struct qn_sentinels *sentinels, struct qn_endpoint *node,
                    int64_t deadline_mono_ns, struct poll *poll)
{
    struct visit visit = {.deadline_mono_ns = deadline_mono_ns};
    quern_error error = {0};
    qn_connection_init_at(&visit.connection, node);
    quern_status status = exchange(sentinels, &visit, poll, &error);
    if (status != QUERN_OK && poll->error.code != QUERN_E_DENIED) {
        poll->error = error;
    }
    qn_connection_finish(&visit.connection);
    qn_arena_finish(&visit.arena);
    return status == QUERN_OK;
}

/* --- All of them ---------------------------------------------------------------------- */

static const struct candidate *best_of(const struct poll *poll)
{
    const struct candidate *best = NULL;
    for (size_t i = 0; i < poll->count; i++) {
        const struct candidate *at = &poll->candidates[i];
        if (best == NULL || at->epoch > best->epoch ||
            (at->epoch == best->epoch && at->votes > best->votes)) {
            best = at;
        }
    }
    return best;
}

static bool is_agreed(struct qn_sentinels *sentinels, const struct poll *poll)
{
    const struct candidate *best = best_of(poll);
    return best != NULL && best->epoch >= sentinels->epoch &&
           2 * best->votes > qn_sentinel_list_count(&sentinels->list);
}

/* Asks those that are known now; what it learns of others is of use the next time. */
static void ask_all(struct qn_sentinels *sentinels, int64_t deadline_mono_ns, struct poll *poll)
{
    struct qn_endpoint *nodes[QN_SENTINELS_MAX];
    size_t count = 0;
    while (count < QN_SENTINELS_MAX) {
        nodes[count] = qn_sentinel_list_at(&sentinels->list, count);
        if (nodes[count] == NULL) {
            break;
        }
        count++;
    }
    qn_sentinel_list_begin(&sentinels->list);
    for (size_t i = 0; i < count; i++) {
        int64_t patience_ms = is_agreed(sentinels, poll) ? ASK_MS_REST : ASK_MS;
        int64_t until_ns = qn_clock_mono_ns() + patience_ms * QN_NS_PER_MS;
        until_ns = until_ns < deadline_mono_ns ? until_ns : deadline_mono_ns;
        if (!ask_one(sentinels, nodes[i], until_ns, poll)) {
            qn_sentinel_list_fail(&sentinels->list, nodes[i], qn_clock_mono_ns());
        }
        qn_endpoint_unref(nodes[i]);
    }
    qn_sentinel_list_end(&sentinels->list, qn_clock_mono_ns());
}

/* From the answers to the master. */
static quern_status decide(struct qn_sentinels *sentinels, const struct poll *poll,
                           quern_error *err)
{
    const struct candidate *best = best_of(poll);
    struct qn_endpoint *endpoint = NULL;
    if (best == NULL && poll->strangers > 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "redis: the sentinels know no master of the name %.60s",
                            sentinels->master);
    }
    if (best == NULL) {
        quern_status status = poll->error.code == QUERN_E_DENIED ? QUERN_E_DENIED : QUERN_E_CONNECT;
        return qn_error_set(err, status, "none of %zu sentinels answers, the last: %.180s",
                            qn_sentinel_list_count(&sentinels->list), poll->error.text);
    }
    if (best->epoch < sentinels->epoch &&
        2 * best->votes <= qn_sentinel_list_count(&sentinels->list)) {
        return qn_error_set(err, QUERN_E_BUSY,
                            "redis: the sentinels that answer know only an older master, %s:%s",
                            best->place.host, best->place.port);
    }
    if (best->leaves &&
        !QN_BUG(LEAVING_MASTER_USED)) { /* were it back now, what it stores would be lost */
        return qn_error_set(err, QUERN_E_BUSY,
                            "redis: the sentinels are about to replace the master %s:%s",
                            best->place.host, best->place.port);
    }
    quern_status status =
        qn_endpoint_at(sentinels->model, best->place.host, best->place.port, &endpoint, err);
    if (status == QUERN_OK) {
        sentinels->epoch = best->epoch;
        qn_failover_set(sentinels->failover, endpoint);
    }
    return status;
}

/* With the mutex held: waits for the thread that asks. False: it takes too long. */
static bool wait_for_answer(struct qn_sentinels *sentinels, int64_t deadline_mono_ns)
{
    uint64_t answer = sentinels->answer;
    bool in_time = true;
    while (in_time && sentinels->answer == answer) {
        in_time = qn_cond_wait_until(&sentinels->asked, &sentinels->mutex, deadline_mono_ns);
    }
    return sentinels->answer != answer;
}

quern_status qn_sentinels_find(struct qn_sentinels *sentinels, int64_t deadline_mono_ns,
                               quern_error *err)
{
    struct poll poll = {.count = 0};
    quern_error error = {0};
    (void)pthread_mutex_lock(&sentinels->mutex);
    if (sentinels->asking) {
        quern_status status =
            wait_for_answer(sentinels, deadline_mono_ns) ? sentinels->status : QUERN_E_TIMEOUT;
        error = sentinels->error;
        (void)pthread_mutex_unlock(&sentinels->mutex);
        return status == QUERN_OK
                   ? status
                   : qn_error_set(err, status, "%s",
                                  error.text[0] != '\0' ? error.text
                                                        : "the sentinels take too long to answer");
    }
    sentinels->asking = true;
    (void)pthread_mutex_unlock(&sentinels->mutex);
    ask_all(sentinels, deadline_mono_ns, &poll);
    quern_status status = decide(sentinels, &poll, &error);
    (void)pthread_mutex_lock(&sentinels->mutex);
    sentinels->asking = false;
    sentinels->answer++;
    sentinels->status = status;
    sentinels->error = error;
    (void)pthread_cond_broadcast(&sentinels->asked);
    (void)pthread_mutex_unlock(&sentinels->mutex);
    return status == QUERN_OK ? status : qn_error_set(err, status, "%s", error.text);
}
