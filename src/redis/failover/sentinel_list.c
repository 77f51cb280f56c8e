/* SPDX-License-Identifier: MIT */
/* sentinel_list.c - learns sentinels from others, and forgets them; see sentinel_list.h.
 *
 * A sentinel lists all others that it has ever met until it is reset, by their addresses, with a
 * flag for those that it finds down. So one that the URL names by its host is learned once more.
 * One that was just reset lists none for some seconds: so who is in no list is only forgotten where
 * most of the others have answered. */
#include "redis/failover/sentinel_list.h"

#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/text/str.h"
#include "redis/cluster/slots.h"

void qn_sentinel_list_init(struct qn_sentinel_list *list)
{
    *list = (struct qn_sentinel_list){.count = 0};
    (void)pthread_mutex_init(&list->mutex, NULL);
}

void qn_sentinel_list_finish(struct qn_sentinel_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        qn_endpoint_unref(list->sentinels[i].endpoint);
    }
    list->count = 0;
    (void)pthread_mutex_destroy(&list->mutex);
}

bool qn_sentinel_list_add(struct qn_sentinel_list *list, struct qn_endpoint *take_endpoint)
{
    (void)pthread_mutex_lock(&list->mutex);
    bool has_room = list->count < QN_SENTINELS_MAX;
    if (has_room) {
        list->sentinels[list->count++] = (struct qn_sentinel){.endpoint = take_endpoint};
    }
    (void)pthread_mutex_unlock(&list->mutex);
    return has_room;
}

/* With the mutex held. What two names of one sentinel have in common. Before the first connection
 * it is known if the host is one. */
static const char *address_of(const struct qn_sentinel *sentinel)
{
    return sentinel->address[0] != '\0' ? sentinel->address : sentinel->endpoint->peer.host;
}

/* The less, the rather it is asked. */
static int rank_of(const struct qn_sentinel *sentinel)
{
    return (sentinel->failing_since_mono_ns != 0 ? 2 : 0) + (sentinel->is_learned ? 1 : 0);
}

/* With the mutex held. Whether the index-th is known by another name, too, and is asked by that: it
 * need not be asked, nor counted. The name of the URL comes first until it fails: where names are
 * no longer resolved the addresses have to do. */
static bool is_twin(const struct qn_sentinel_list *list, size_t index)
{
    const struct qn_sentinel *sentinel = &list->sentinels[index];
    for (size_t i = 0; !QN_BUG(TWIN_COUNTS) && i < list->count; i++) {
        const struct qn_sentinel *other = &list->sentinels[i];
        int more = rank_of(sentinel) - rank_of(other);
        if (i != index && (sentinel->is_learned || other->is_learned) &&
            (more > 0 || (more == 0 && i < index)) &&
            strcmp(other->endpoint->peer.port, sentinel->endpoint->peer.port) == 0 &&
            strcmp(address_of(other), address_of(sentinel)) == 0) {
            return true;
        }
    }
    return false;
}

size_t qn_sentinel_list_count(struct qn_sentinel_list *list)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&list->mutex);
    for (size_t i = 0; i < list->count; i++) {
        count += is_twin(list, i) ? 0 : 1;
    }
    (void)pthread_mutex_unlock(&list->mutex);
    return count;
}

struct qn_endpoint *qn_sentinel_list_at(struct qn_sentinel_list *list, size_t index)
{
    struct qn_endpoint *endpoint = NULL;
    (void)pthread_mutex_lock(&list->mutex);
    for (size_t i = 0; endpoint == NULL && i < list->count; i++) {
        bool counts = !is_twin(list, i);
        endpoint = counts && index == 0 ? qn_endpoint_ref(list->sentinels[i].endpoint) : NULL;
        index -= counts ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&list->mutex);
    return endpoint;
}

/* With the mutex held: its index; the count if it is not there. */
static size_t index_of(const struct qn_sentinel_list *list, const struct qn_endpoint *node)
{
    size_t i = 0;
    while (i < list->count && list->sentinels[i].endpoint != node) {
        i++;
    }
    return i;
}

bool qn_sentinel_list_has(struct qn_sentinel_list *list, const struct qn_endpoint *node)
{
    (void)pthread_mutex_lock(&list->mutex);
    bool has = index_of(list, node) < list->count;
    (void)pthread_mutex_unlock(&list->mutex);
    return has;
}

/* --- Replies -------------------------------------------------------------------------- */

const char *qn_sentinel_list_field(const struct qn_reply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        if (strcmp(qn_reply_text(reply->items[i]), name) == 0) {
            return qn_reply_text(reply->items[i + 1]);
        }
    }
    return "";
}

bool qn_sentinel_list_is_place(const char *host, const char *port)
{
    return host[0] != '\0' && strlen(host) < QN_SLOT_HOST_SIZE && !qn_str_has_control(host) &&
           strchr(host, ' ') == NULL && port[0] != '\0' && strlen(port) < 6 &&
           strspn(port, "0123456789") == strlen(port);
}

/* --- A round -------------------------------------------------------------------------- */

void qn_sentinel_list_begin(struct qn_sentinel_list *list)
{
    (void)pthread_mutex_lock(&list->mutex);
    for (size_t i = 0; i < list->count; i++) {
        list->sentinels[i].gave_list = false;
        list->sentinels[i].is_listed = false;
        list->sentinels[i].is_up = false;
    }
    (void)pthread_mutex_unlock(&list->mutex);
}

/* With the mutex held. */
static struct qn_sentinel *find(struct qn_sentinel_list *list, const char *host, const char *port)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct qn_peer *peer = &list->sentinels[i].endpoint->peer;
        if (strcmp(peer->host, host) == 0 && strcmp(peer->port, port) == 0) {
            return &list->sentinels[i];
        }
    }
    return NULL;
}

/* With the mutex held: it has the user and the settings of the others. NULL: there is no room. */
static struct qn_sentinel *learn(struct qn_sentinel_list *list, const char *host, const char *port)
{
    struct qn_endpoint *endpoint = NULL;
    if (list->count == QN_SENTINELS_MAX ||
        qn_endpoint_at(list->sentinels[0].endpoint, host, port, &endpoint, NULL) != QUERN_OK) {
        return NULL;
    }
    struct qn_sentinel *learned = &list->sentinels[list->count++];
    *learned = (struct qn_sentinel){.endpoint = endpoint, .is_learned = true};
    return learned;
}

/* With the mutex held. */
static void take_other(struct qn_sentinel_list *list, const struct qn_reply *other)
{
    const char *host = qn_sentinel_list_field(other, "ip");
    const char *port = qn_sentinel_list_field(other, "port");
    bool is_up = strstr(qn_sentinel_list_field(other, "flags"), "s_down") == NULL;
    if (!qn_sentinel_list_is_place(host, port)) {
        return;
    }
    struct qn_sentinel *sentinel = find(list, host, port);
    if (sentinel == NULL && is_up) {
        sentinel = learn(list, host, port);
    }
    if (sentinel != NULL) {
        sentinel->is_listed = true;
        sentinel->is_up = sentinel->is_up || is_up;
    }
}

void qn_sentinel_list_answer(struct qn_sentinel_list *list, const struct qn_endpoint *node,
                             const char *address, const struct qn_reply *others)
{
    (void)pthread_mutex_lock(&list->mutex);
    size_t index = index_of(list, node);
    if (index < list->count) {
        list->sentinels[index].gave_list = others->type == QN_REPLY_ARRAY;
        list->sentinels[index].failing_since_mono_ns = 0;
        (void)snprintf(list->sentinels[index].address, QN_SOCKET_ADDRESS_SIZE, "%s", address);
    }
    for (size_t i = 0; others->type == QN_REPLY_ARRAY && i < others->count; i++) {
        take_other(list, others->items[i]);
    }
    (void)pthread_mutex_unlock(&list->mutex);
}

void qn_sentinel_list_fail(struct qn_sentinel_list *list, const struct qn_endpoint *node,
                           int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&list->mutex);
    size_t index = index_of(list, node);
    if (index < list->count) {
        struct qn_sentinel moved = list->sentinels[index];
        size_t behind = list->count - index - 1;
        if (moved.failing_since_mono_ns == 0) {
            moved.failing_since_mono_ns = now_mono_ns;
        }
        memmove(&list->sentinels[index], &list->sentinels[index + 1],
                behind * sizeof *list->sentinels);
        list->sentinels[list->count - 1] = moved;
    }
    (void)pthread_mutex_unlock(&list->mutex);
}

/* others: how many other ones gave their lists; count: how many there are in all. */
static bool is_gone(const struct qn_sentinel *sentinel, size_t others, size_t count,
                    int64_t now_mono_ns)
{
    bool is_silent =
        sentinel->failing_since_mono_ns != 0 &&
        now_mono_ns - sentinel->failing_since_mono_ns >= QN_SENTINEL_SILENT_MS * QN_NS_PER_MS;
    return sentinel->is_learned && !QN_BUG(SENTINEL_KEPT) &&
           ((is_silent && others > 0 && !sentinel->is_up) ||
            (!sentinel->is_listed && 2 * others > count));
}

void qn_sentinel_list_end(struct qn_sentinel_list *list, int64_t now_mono_ns)
{
    size_t lists = 0;
    size_t count = 0;
    size_t kept = 0;
    (void)pthread_mutex_lock(&list->mutex);
    for (size_t i = 0; i < list->count; i++) {
        lists += list->sentinels[i].gave_list ? 1 : 0;
        count += is_twin(list, i) ? 0 : 1;
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct qn_sentinel sentinel = list->sentinels[i];
        size_t others = lists - (sentinel.gave_list ? 1 : 0);
        if (is_gone(&sentinel, others, count, now_mono_ns)) {
            qn_endpoint_unref(sentinel.endpoint);
        } else {
            list->sentinels[kept++] = sentinel;
        }
    }
    list->count = kept;
    (void)pthread_mutex_unlock(&list->mutex);
}
