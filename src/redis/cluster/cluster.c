/* SPDX-License-Identifier: MIT */
/* cluster.c - the nodes, the map, and how a newer map is had.
 *
 * One thread asks, on a connection of its own, which it closes: one node after the other, first the
 * one that is likely to know best, then the masters of the present map, then all others that were
 * ever named, until one answers with a map. The others wait for that. */
#include "redis/cluster/cluster.h"

#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "redis/connection.h"
#include "redis/open.h"
#include "redis/server_error.h"

#define ASK_MS 2000   /* one node, until the next is asked */
#define FORMER_MAX 16 /* nodes that are in no map any more: one of them may know a newer one */

/* --- Nodes -------------------------------------------------------------------------- */

static struct qn_cluster_node *make_node(const struct qn_endpoint *model,
                                         const struct qn_slot_place *place)
{
    struct qn_cluster_node *node = qn_alloc_zero(1, sizeof *node);
    if (node == NULL) {
        return NULL;
    }
    node->place = *place;
    if (qn_endpoint_at(model, node->place.host, node->place.port, &node->endpoint, NULL) !=
        QUERN_OK) {
        qn_free(node);
        return NULL;
    }
    return node;
}

static void free_node(struct qn_cluster_node *node)
{
    qn_endpoint_unref(node->endpoint);
    qn_free(node);
}

/* With mutex held. */
static void mark_owners(const struct qn_cluster *cluster, bool owns[QN_SLOT_NODES_MAX])
{
    memset(owns, 0, QN_SLOT_NODES_MAX * sizeof *owns);
    for (size_t slot = 0; slot < QN_SLOT_COUNT; slot++) {
        if (cluster->owners[slot] >= 0) {
            owns[cluster->owners[slot]] = true;
        }
    }
}

/* With mutex held. Whether a node is needed but as an owner of slots. */
static bool is_used(const struct qn_cluster *cluster, size_t number)
{
    const struct qn_cluster_node *node = cluster->nodes[number];
    return node->holds > 0 || node->is_silent || node->named == atomic_load(&cluster->read_count);
}

/* With mutex held. Where there is no other room, an owner in the map of which a newer one that does
 * not name it is being read: a cluster may have replaced all its nodes at once. */
static int replaced_owner(const struct qn_cluster *cluster)
{
    size_t number = cluster->seed_count;
    while (number < cluster->node_count && is_used(cluster, number)) {
        number++;
    }
    return number < cluster->node_count && !QN_BUG(OLD_OWNERS_KEPT) ? (int)number : -1;
}

/* With mutex held: the number of a node that can be forgotten, that which was named longest ago.
 * -1: there is none. */
static int forgettable(const struct qn_cluster *cluster)
{
    bool owns[QN_SLOT_NODES_MAX];
    size_t count = 0;
    int oldest = -1;
    mark_owners(cluster, owns);
    for (size_t i = cluster->seed_count; i < cluster->node_count; i++) {
        const struct qn_cluster_node *node = cluster->nodes[i];
        bool is_free = !owns[i] && !is_used(cluster, i);
        count += is_free ? 1 : 0;
        if (is_free && (oldest < 0 || node->named < cluster->nodes[oldest]->named)) {
            oldest = (int)i;
        }
    }
    bool is_full = cluster->node_count == QN_SLOT_NODES_MAX;
    if (is_full && oldest < 0) {
        return replaced_owner(cluster);
    }
    return count > FORMER_MAX || is_full ? oldest : -1;
}

/* With mutex held. */
static int add_node(struct qn_cluster *cluster, const struct qn_slot_place *place)
{
    int number = forgettable(cluster);
    if (number < 0 && cluster->node_count == QN_SLOT_NODES_MAX) {
        return -1;
    }
    struct qn_cluster_node *node = make_node(cluster->model, place);
    if (node == NULL) {
        return -1;
    }
    node->named = atomic_load(&cluster->read_count);
    if (number < 0) {
        number = (int)cluster->node_count++;
    } else {
        free_node(cluster->nodes[number]);
    }
    cluster->nodes[number] = node;
    return number;
}

/* With mutex held. */
static int number_of(struct qn_cluster *cluster, const struct qn_slot_place *place)
{
    for (size_t i = 0; i < cluster->node_count; i++) {
        const struct qn_slot_place *known = &cluster->nodes[i]->place;
        if (strcmp(known->host, place->host) == 0 && strcmp(known->port, place->port) == 0) {
            cluster->nodes[i]->named = atomic_load(&cluster->read_count);
            return (int)i;
        }
    }
    return add_node(cluster, place);
}

/* A place without a host is on that of the one who named it. */
static int number_beside(struct qn_cluster *cluster, const struct qn_slot_place *place, int beside)
{
    struct qn_slot_place whole = *place;
    if (whole.host[0] == '\0' && beside >= 0) {
        memcpy(whole.host, cluster->nodes[beside]->place.host, sizeof whole.host);
    }
    return number_of(cluster, &whole);
}

int qn_cluster_node_at(struct qn_cluster *cluster, const struct qn_slot_place *place, int beside)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    int node = number_beside(cluster, place, beside);
    (void)pthread_mutex_unlock(&cluster->mutex);
    return node;
}

struct qn_endpoint *qn_cluster_hold(struct qn_cluster *cluster, int node)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    struct qn_endpoint *endpoint = cluster->nodes[node]->endpoint;
    cluster->nodes[node]->holds++;
    (void)pthread_mutex_unlock(&cluster->mutex);
    return endpoint;
}

void qn_cluster_release(struct qn_cluster *cluster, int node)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    cluster->nodes[node]->holds--;
    (void)pthread_mutex_unlock(&cluster->mutex);
}

struct qn_endpoint *qn_cluster_endpoint_ref(struct qn_cluster *cluster, int node)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    struct qn_endpoint *endpoint = qn_endpoint_ref(cluster->nodes[node]->endpoint);
    (void)pthread_mutex_unlock(&cluster->mutex);
    return endpoint;
}

/* --- The beginning and the end ------------------------------------------------------ */

static quern_status add_seeds(struct qn_cluster *cluster, const char *hosts, quern_error *err)
{
    const char *at = hosts;
    while (true) {
        size_t size = strcspn(at, ",");
        struct qn_slot_place place;
        if (size == 0 || !qn_slots_place(at, size, "6379", &place) || place.host[0] == '\0') {
            return qn_error_set(err, QUERN_E_INVALID,
                                "redis: a cluster is written redis-cluster://host:port,host:port, "
                                "not with \"%.*s\"",
                                size < 40 ? (int)size : 40, at);
        }
        if (cluster->node_count == QN_CLUSTER_SEEDS_MAX) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "redis: the URL names more than %d nodes: a few are enough",
                                QN_CLUSTER_SEEDS_MAX);
        }
        if (number_of(cluster, &place) < 0) {
            return qn_error_nomem(err);
        }
        cluster->seed_count = cluster->node_count;
        if (at[size] == '\0') {
            return QUERN_OK;
        }
        at += size + 1;
    }
}

quern_status qn_cluster_init(struct qn_cluster *cluster, struct qn_endpoint *model,
                             quern_error *err)
{
    *cluster = (struct qn_cluster){.model = qn_endpoint_ref(model)};
    (void)pthread_mutex_init(&cluster->mutex, NULL);
    qn_cond_init(&cluster->refreshed);
    qn_cond_init(&cluster->silence.changed);
    for (size_t slot = 0; slot < QN_SLOT_COUNT; slot++) {
        cluster->owners[slot] = -1;
    }
    return add_seeds(cluster, strstr(model->peer.address, "://") + strlen("://"), err);
}

void qn_cluster_finish(struct qn_cluster *cluster)
{
    for (size_t i = 0; i < cluster->node_count; i++) {
        free_node(cluster->nodes[i]);
    }
    qn_endpoint_unref(cluster->model);
    (void)pthread_cond_destroy(&cluster->refreshed);
    (void)pthread_cond_destroy(&cluster->silence.changed);
    (void)pthread_mutex_destroy(&cluster->mutex);
}

/* --- The map ------------------------------------------------------------------------ */

uint64_t qn_cluster_epoch(const struct qn_cluster *cluster)
{
    return atomic_load(&cluster->epoch);
}

uint64_t qn_cluster_owners(struct qn_cluster *cluster, const uint16_t *slots, int *ret_nodes,
                           size_t count)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    uint64_t epoch = atomic_load(&cluster->epoch);
    for (size_t i = 0; i < count; i++) {
        ret_nodes[i] = cluster->owners[slots[i]];
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return epoch;
}

bool qn_cluster_owning(struct qn_cluster *cluster, uint64_t *read_count,
                       bool owns[QN_SLOT_NODES_MAX])
{
    if (atomic_load(&cluster->read_count) == *read_count) {
        return false;
    }
    (void)pthread_mutex_lock(&cluster->mutex);
    *read_count = atomic_load(&cluster->read_count);
    mark_owners(cluster, owns);
    (void)pthread_mutex_unlock(&cluster->mutex);
    return true;
}

size_t qn_cluster_masters(struct qn_cluster *cluster, int *ret_nodes, size_t max)
{
    bool owns[QN_SLOT_NODES_MAX];
    size_t count = 0;
    (void)pthread_mutex_lock(&cluster->mutex);
    mark_owners(cluster, owns);
    for (size_t i = 0; i < cluster->node_count && count < max; i++) {
        if (owns[i]) {
            ret_nodes[count++] = (int)i;
        }
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return count;
}

/* --- A newer one -------------------------------------------------------------------- */

/* A map that is being read. */
struct draft {
    struct qn_cluster *cluster;
    int asked; /* the node, held */
    int16_t owners[QN_SLOT_COUNT];
};

/* With mutex held. */
static int take_number(const struct qn_slot_place *place, void *user)
{
    struct draft *draft = user;
    return number_beside(draft->cluster, place, draft->asked);
}

static quern_status take_map(struct draft *draft, const char *address, const struct qn_reply *reply,
                             quern_error *err)
{
    struct qn_cluster *cluster = draft->cluster;
    if (reply->type == QN_REPLY_ERROR) {
        return qn_server_error(address, reply, &(struct qn_server_call){.command = "CLUSTER SLOTS"},
                               err);
    }
    (void)pthread_mutex_lock(&cluster->mutex);
    atomic_fetch_add(&cluster->read_count, 1);
    const char *wrong = qn_slots_read(reply, draft->owners, take_number, draft);
    if (wrong == NULL) {
        bool differs = memcmp(cluster->owners, draft->owners, sizeof cluster->owners) != 0;
        memcpy(cluster->owners, draft->owners, sizeof cluster->owners);
        cluster->answer_count++;
        if (differs || atomic_load(&cluster->epoch) == 0) {
            atomic_fetch_add(&cluster->epoch, 1);
        }
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return wrong == NULL
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_BROKER,
                              "%s: the reply to CLUSTER SLOTS cannot be used: %s", address, wrong);
}

static quern_status ask_node(struct draft *draft, int64_t deadline_mono_ns, quern_error *err)
{
    static const char request[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
    struct qn_connection connection;
    struct qn_arena arena = {0};
    struct qn_reply *reply = NULL;
    int64_t until_ns = qn_clock_mono_ns() + ASK_MS * INT64_C(1000000);
    int64_t end_ns = until_ns < deadline_mono_ns ? until_ns : deadline_mono_ns;
    qn_connection_init_at(&connection, qn_cluster_hold(draft->cluster, draft->asked));
    connection.role = "slots";
    quern_status status = qn_open_connection(&connection, end_ns, err);
    if (status == QUERN_OK) {
        qn_connection_limit(&connection, QN_REPLY_ROWS_MAX);
        status = qn_connection_send(&connection, request, sizeof request - 1, end_ns, err);
    }
    if (status == QUERN_OK) {
        status = qn_connection_receive(&connection, &arena, end_ns, &reply, err);
    }
    if (status == QUERN_OK) {
        status = take_map(draft, connection.endpoint->peer.address, reply, err);
    }
    qn_connection_finish(&connection);
    qn_cluster_release(draft->cluster, draft->asked);
    qn_arena_finish(&arena);
    return status;
}

/* With mutex held. When to ask a node: a lower rank goes first, the seeds first in each. */
static int rank_of(const struct qn_cluster *cluster, const struct qn_cluster_fault *fault, int node)
{
    return cluster->nodes[node]->is_silent ? 2 : node == fault->worse ? 1 : 0;
}

/* All nodes in the order in which to ask them, those that are likely to be down last. Returns how
 * many. */
static size_t plan_order(struct qn_cluster *cluster, const struct qn_cluster_fault *fault,
                         int *order)
{
    size_t count = 0;
    bool planned[QN_SLOT_NODES_MAX] = {false};
    int masters[QN_SLOT_NODES_MAX];
    size_t master_count = qn_cluster_masters(cluster, masters, QN_SLOT_NODES_MAX);
    if (fault->better >= 0) {
        order[count++] = fault->better;
        planned[fault->better] = true;
    }
    (void)pthread_mutex_lock(&cluster->mutex);
    for (size_t i = 0; i < master_count; i++) {
        if (!planned[masters[i]] && rank_of(cluster, fault, masters[i]) == 0) {
            order[count++] = masters[i];
            planned[masters[i]] = true;
        }
    }
    for (int rank = 0; rank <= 2; rank++) {
        for (size_t i = 0; i < cluster->node_count; i++) {
            if (!planned[i] && rank_of(cluster, fault, (int)i) == rank) {
                order[count++] = (int)i;
                planned[i] = true;
            }
        }
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return count;
}

static quern_status ask_nodes(struct qn_cluster *cluster, const struct qn_cluster_fault *fault,
                              int64_t deadline_mono_ns, quern_error *err)
{
    int order[QN_SLOT_NODES_MAX];
    struct draft draft = {.cluster = cluster};
    size_t count = plan_order(cluster, fault, order);
    quern_status first = QUERN_OK;
    for (size_t i = 0; i < count; i++) {
        draft.asked = order[i];
        quern_error *to = first == QUERN_OK ? err : NULL;
        quern_status status = ask_node(&draft, deadline_mono_ns, to);
        if (status == QUERN_OK) {
            return QUERN_OK;
        }
        first = first == QUERN_OK ? status : first;
        if (qn_clock_mono_ns() >= deadline_mono_ns) {
            break;
        }
    }
    return first;
}

quern_status qn_cluster_refresh(struct qn_cluster *cluster, const struct qn_cluster_fault *fault,
                                int64_t deadline_mono_ns, quern_error *err)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    bool waited = false;
    uint64_t answered = cluster->answer_count;
    while (cluster->is_refreshing && atomic_load(&cluster->epoch) == fault->epoch) {
        waited = true;
        if (!qn_cond_wait_until(&cluster->refreshed, &cluster->mutex, deadline_mono_ns)) {
            (void)pthread_mutex_unlock(&cluster->mutex);
            return qn_error_set(err, QUERN_E_TIMEOUT,
                                "%s: no node has said in time which slots are where",
                                cluster->model->peer.address);
        }
    }
    if (waited || atomic_load(&cluster->epoch) != fault->epoch) {
        /* Also where that thread got none: who asks again at once would get none, either. */
        bool known =
            atomic_load(&cluster->epoch) != fault->epoch || cluster->answer_count != answered;
        quern_error refusal = cluster->refusal;
        (void)pthread_mutex_unlock(&cluster->mutex);
        return known ? QUERN_OK : qn_error_set(err, QUERN_E_CONNECT, "%s", refusal.text);
    }
    cluster->is_refreshing = true;
    (void)pthread_mutex_unlock(&cluster->mutex);
    quern_error error = {0};
    quern_status status = ask_nodes(cluster, fault, deadline_mono_ns, &error);
    (void)pthread_mutex_lock(&cluster->mutex);
    cluster->refusal = error;
    cluster->is_refreshing = false;
    (void)pthread_cond_broadcast(&cluster->refreshed);
    (void)pthread_mutex_unlock(&cluster->mutex);
    if (status != QUERN_OK && err != NULL) {
        *err = error;
    }
    return status;
}
