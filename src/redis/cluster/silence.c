/* SPDX-License-Identifier: MIT */
/* silence.c - the nodes that do not answer, and the thread that looks after them.
 *
 * The thread exists from the first silence until the cluster is closed, and sleeps while no node is
 * silent. It gives a node a short time to greet at first, as the map matters more: a replica may
 * take over. Where that is too short for the link the time grows, so that no node stays silent that
 * is only slow. */
#include "redis/cluster/silence.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/thread.h"
#include "redis/connection.h"
#include "redis/open.h"

enum {
    LOOK_MS = 100,     /* until the second look; grows by as much with each */
    LOOK_MS_MAX = 500, /* many processes look, each on a new connection */
    MAP_MS = 1000,     /* for a newer map */
    GREET_MS = 250,    /* for the first look at a node; grows by as much with each */
    GREET_MS_MAX = 2000
};

/* With mutex held. That it took too long is no reason of its own, and probes have little time. */
static void keep_reason(struct qn_cluster_node *node, const quern_error *error)
{
    if (error->code != QUERN_E_TIMEOUT) {
        node->reason = *error;
    }
}

/* Whether it answers at all; what it answers is for the next request to find out. */
static bool answers(struct qn_cluster *cluster, int node, int64_t timeout_ms)
{
    quern_error error = {0};
    struct qn_connection connection;
    int64_t deadline_mono_ns = qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS;
    qn_connection_init_at(&connection, qn_cluster_hold(cluster, node));
    connection.role = "probe";
    quern_status status = qn_open_connection(&connection, deadline_mono_ns, &error);
    qn_connection_finish(&connection);
    qn_cluster_release(cluster, node);
    if (status == QUERN_E_CONNECT) {
        (void)pthread_mutex_lock(&cluster->mutex);
        keep_reason(cluster->nodes[node], &error);
        (void)pthread_mutex_unlock(&cluster->mutex);
    }
    return status != QUERN_E_CONNECT && status != QUERN_E_TIMEOUT;
}

static bool owns_slots(struct qn_cluster *cluster, int node)
{
    int masters[QN_SLOT_NODES_MAX];
    size_t count = qn_cluster_masters(cluster, masters, QN_SLOT_NODES_MAX);
    for (size_t i = 0; i < count; i++) {
        if (masters[i] == node) {
            return true;
        }
    }
    return false;
}

static void forget(struct qn_cluster *cluster, int node)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    cluster->nodes[node]->is_silent = false;
    cluster->nodes[node]->reason = (quern_error){0};
    cluster->silence.count--;
    (void)pthread_mutex_unlock(&cluster->mutex);
}

/* The next silent node from this number on; -1: there is none. */
static int next_silent(struct qn_cluster *cluster, int from)
{
    int found = -1;
    (void)pthread_mutex_lock(&cluster->mutex);
    for (size_t i = (size_t)from; found < 0 && i < cluster->node_count; i++) {
        found = cluster->nodes[i]->is_silent ? (int)i : -1;
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return found;
}

static int64_t grown(int64_t step_ms, uint32_t looks, int64_t max_ms)
{
    int64_t ms = step_ms * looks;
    return ms < max_ms ? ms : max_ms;
}

static void look(struct qn_cluster *cluster, uint32_t looks)
{
    const struct qn_cluster_fault fault = {
        .epoch = qn_cluster_epoch(cluster), .better = -1, .worse = -1};
    int64_t deadline_mono_ns = qn_clock_mono_ns() + MAP_MS * QN_NS_PER_MS;
    int64_t greet_ms = grown(GREET_MS, looks, GREET_MS_MAX);
    quern_status status = qn_cluster_refresh(cluster, &fault, deadline_mono_ns, NULL);
    (void)status; /* the next look asks again */
    for (int node = next_silent(cluster, 0); node >= 0; node = next_silent(cluster, node + 1)) {
        if (!owns_slots(cluster, node) || answers(cluster, node, greet_ms)) {
            forget(cluster, node);
        }
    }
}

/* With mutex held. */
static void sleep_between(struct qn_cluster *cluster, uint32_t *looks)
{
    struct qn_silence *silence = &cluster->silence;
    int64_t pause_ms = grown(LOOK_MS, *looks, LOOK_MS_MAX);
    int64_t until_mono_ns = qn_clock_mono_ns() + pause_ms * QN_NS_PER_MS;
    while (!silence->stops && silence->count > 0 &&
           qn_cond_wait_until(&silence->changed, &cluster->mutex, until_mono_ns)) {
    }
    while (!silence->stops && silence->count == 0) {
        *looks = 0;
        (void)pthread_cond_wait(&silence->changed, &cluster->mutex);
    }
}

static void *run(void *user)
{
    struct qn_cluster *cluster = user;
    uint32_t looks = 0;
    (void)pthread_mutex_lock(&cluster->mutex);
    while (!cluster->silence.stops) {
        (void)pthread_mutex_unlock(&cluster->mutex);
        look(cluster, ++looks);
        (void)pthread_mutex_lock(&cluster->mutex);
        sleep_between(cluster, &looks);
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return NULL;
}

/* With mutex held. */
static bool start(struct qn_cluster *cluster)
{
    struct qn_silence *silence = &cluster->silence;
    silence->runs =
        silence->runs || qn_thread_start_small(&silence->thread, "quern-silence", run, cluster);
    return silence->runs;
}

void qn_silence_note(struct qn_cluster *cluster, int node, const quern_error *error)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    if (!cluster->nodes[node]->is_silent && start(cluster)) {
        cluster->nodes[node]->is_silent = true;
        keep_reason(cluster->nodes[node], error);
        cluster->silence.count++;
        (void)pthread_cond_signal(&cluster->silence.changed);
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
}

bool qn_silence_is(struct qn_cluster *cluster, int node)
{
    if (node < 0) {
        return false;
    }
    (void)pthread_mutex_lock(&cluster->mutex);
    bool is_silent = cluster->nodes[node]->is_silent;
    (void)pthread_mutex_unlock(&cluster->mutex);
    return is_silent;
}

quern_status qn_silence_reason(struct qn_cluster *cluster, int node, quern_error *err)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    const struct qn_cluster_node *silent = cluster->nodes[node];
    if (silent->reason.text[0] != '\0') {
        (void)qn_error_set(err, QUERN_E_CONNECT, "%s", silent->reason.text);
    } else {
        (void)qn_error_set(err, QUERN_E_CONNECT, "%s: the node does not answer",
                           silent->endpoint->peer.address);
    }
    (void)pthread_mutex_unlock(&cluster->mutex);
    return QUERN_E_CONNECT;
}

void qn_silence_stop(struct qn_cluster *cluster)
{
    (void)pthread_mutex_lock(&cluster->mutex);
    bool runs = cluster->silence.runs;
    cluster->silence.stops = true;
    for (size_t i = 0; runs && i < cluster->node_count; i++) {
        atomic_store(&cluster->nodes[i]->endpoint->abandoned, true); /* ends a wait for it */
    }
    (void)pthread_cond_signal(&cluster->silence.changed);
    (void)pthread_mutex_unlock(&cluster->mutex);
    if (runs) {
        (void)pthread_join(cluster->silence.thread, NULL);
    }
}
