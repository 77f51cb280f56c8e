/* SPDX-License-Identifier: MIT */
/* combine.c - concurrent callers share one transaction.
 *
 * A transaction costs far more than a task in it. So every caller puts its request in a list, and
 * the first one leads: it takes as many requests from the list as fit into one batch, prepares and
 * stores them without the lock, and writes the results into each request. Requests that arrive
 * meanwhile are the next batch; no timer delays any caller. Leadership passes to the head of the
 * list after each batch, so the list is FIFO and no caller works for others longer than for itself.
 *
 * The broker decides how much fits (qn_broker_enqueue_max); on Redis it is several scripts.
 *
 * A batch is tried again until the leader's deadline, which is the earliest of the batch (store.c).
 * Where an attempt settles some tasks and leaves others open, because their server does not answer,
 * the requests that are settled are done, and another one leads, while this one goes on with the
 * rest. When a batch of several callers is refused as a whole, each request is tried once more on
 * its own, so that no caller sees a failure caused by the task of another. A caller whose time is
 * up before any leader took its request leaves the list: nothing of it was stored.
 */
#include "client/combine.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "client/store.h"

static struct qn_request *request_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct qn_request, node);
}

/* With the mutex held: moves the requests that fit into one transaction from the list to `batch`.
 * The first request always fits. */
static void take_batch(quern_client *client, struct qn_list *batch)
{
    size_t count = 0;
    size_t bytes = 0;
    while (!qn_list_empty(&client->waiting)) {
        struct qn_request *request = request_of(client->waiting.next);
        bool fits = count + request->count <= qn_broker_enqueue_max(client->broker) &&
                    bytes + request->payload_bytes <= QN_BATCH_BYTES_MAX;
        if (count > 0 && !fits) {
            return;
        }
        count += request->count;
        bytes += request->payload_bytes;
        request->phase = QN_REQUEST_TAKEN;
        qn_list_remove(&request->node);
        qn_list_append(batch, &request->node);
    }
}

/* Leadership stays here meanwhile, whatever a server does not answer: this is rare. */
static void store_one_by_one(struct qn_store *store, int64_t deadline_mono_ns)
{
    struct qn_list done;
    qn_list_init(&done);
    store->on_partial = NULL;
    for (struct qn_list *node = qn_list_shift(&store->batch); node != NULL;
         node = qn_list_shift(&store->batch)) {
        struct qn_list one;
        qn_list_init(&one);
        qn_list_append(&one, node);
        request_of(node)->failed = false;
        enum qn_store_end end = qn_store_run(store, &one, deadline_mono_ns);
        QN_ASSERT(end == QN_STORE_DONE);
        qn_list_remove(node);
        qn_list_append(&done, node);
    }
    for (struct qn_list *node = qn_list_shift(&done); node != NULL; node = qn_list_shift(&done)) {
        qn_list_append(&store->batch, node);
    }
}

/* With the mutex held. */
static void hand_over(quern_client *client)
{
    client->led = !qn_list_empty(&client->waiting);
    if (client->led) {
        struct qn_request *next = request_of(client->waiting.next);
        next->phase = QN_REQUEST_LEADING;
        pthread_cond_signal(&next->changed);
    }
}

/* With the mutex held. Afterwards its thread may be gone, and the request with it. */
static void finish(struct qn_request *request)
{
    request->phase = QN_REQUEST_DONE;
    pthread_cond_signal(&request->changed);
}

/* No caller waits for a server that its tasks do not need, nor does the leader: then the thread of
 * the first request that is still open goes on with the batch. */
static bool let_go(struct qn_store *store, void *user)
{
    quern_client *client = store->client;
    struct qn_request *own = user;
    bool is_alone = store->batch.next == store->batch.prev; /* something of it is open */
    pthread_mutex_lock(&client->mutex);
    for (struct qn_list *node = store->batch.next; !is_alone && node != &store->batch;) {
        struct qn_request *request = request_of(node);
        node = node->next;
        if (qn_store_settle(store, request)) {
            qn_list_remove(&request->node);
            finish(request);
        }
    }
    if (!store->is_apart) {
        qn_store_part(store);
        hand_over(client);
    }
    bool stays = own->phase != QN_REQUEST_DONE;
    if (!stays) {
        struct qn_request *heir = request_of(store->batch.next);
        heir->inherited = store;
        heir->phase = QN_REQUEST_LEADING;
        pthread_cond_signal(&heir->changed);
    }
    pthread_mutex_unlock(&client->mutex);
    return stays;
}

/* With the mutex held: a new batch. NULL: out of memory. */
static struct qn_store *begin(quern_client *client)
{
    struct qn_store *store = qn_alloc_zero(1, sizeof *store);
    if (store != NULL) {
        qn_store_begin(store, client);
        take_batch(client, &store->batch);
    }
    return store;
}

/* With the mutex held. */
static void fail_own(struct qn_request *own)
{
    struct qn_list one;
    qn_list_init(&one);
    qn_list_remove(&own->node);
    qn_list_append(&one, &own->node);
    qn_store_fail_nomem(&one);
    qn_list_remove(&own->node);
    own->phase = QN_REQUEST_DONE;
}

/* Without the mutex. Returns false when another thread has the batch now. */
static bool run(struct qn_store *store, struct qn_request *own)
{
    bool inherited = own->inherited != NULL;
    store->on_partial = let_go;
    store->user = own;
    enum qn_store_end end = inherited ? qn_store_go_on(store, own->deadline_mono_ns)
                                      : qn_store_run(store, &store->batch, own->deadline_mono_ns);
    if (end == QN_STORE_REFUSED) {
        store_one_by_one(store, own->deadline_mono_ns);
    }
    return end != QN_STORE_LEFT;
}

/* With the mutex held; leaves it while storing. */
static void lead(quern_client *client, struct qn_request *own)
{
    struct qn_store *store = own->inherited != NULL ? own->inherited : begin(client);
    if (store == NULL) {
        fail_own(own);
        hand_over(client);
        return;
    }
    own->phase = QN_REQUEST_TAKEN;
    pthread_mutex_unlock(&client->mutex);
    bool stays = run(store, own);
    pthread_mutex_lock(&client->mutex);
    if (!stays) {
        return;
    }
    bool is_leader = !store->is_apart;
    qn_store_finish(store);
    for (struct qn_list *node = qn_list_shift(&store->batch); node != NULL;
         node = qn_list_shift(&store->batch)) {
        finish(request_of(node));
    }
    qn_free(store);
    if (is_leader) {
        hand_over(client);
    }
}

/* With the mutex held: until the request has to lead, is done, or has left the list because its
 * time is up. */
static void wait_for_turn(quern_client *client, struct qn_request *request)
{
    while (request->phase == QN_REQUEST_WAITING) {
        if (qn_cond_wait_until(&request->changed, &client->mutex, request->deadline_mono_ns) ||
            request->phase != QN_REQUEST_WAITING) {
            continue;
        }
        qn_list_remove(&request->node);
        request->phase = QN_REQUEST_DONE;
        request->broker_status = QUERN_E_TIMEOUT;
        request->failed = true;
        qn_error_set(&request->error, QUERN_E_TIMEOUT,
                     "waited %lld ms behind other calls of this client",
                     (long long)client->command_timeout_ms);
        for (size_t i = 0; i < request->count; i++) {
            qn_request_set_result(request->results, i, QUERN_E_TIMEOUT, NULL);
        }
    }
    while (request->phase == QN_REQUEST_TAKEN) { /* until done, or left the batch to lead it */
        pthread_cond_wait(&request->changed, &client->mutex);
    }
}

void qn_combine_request(quern_client *client, struct qn_request *request)
{
    QN_ASSERT(request->count > 0 && request->count <= qn_broker_enqueue_max(client->broker));
    QN_ASSERT(!request->wants_info || request->count == 1);
    qn_cond_init(&request->changed);
    request->deadline_mono_ns = qn_clock_mono_ns() + client->command_timeout_ms * QN_NS_PER_MS;

    pthread_mutex_lock(&client->mutex);
    request->phase = client->led ? QN_REQUEST_WAITING : QN_REQUEST_LEADING;
    client->led = true;
    qn_list_append(&client->waiting, &request->node);
    wait_for_turn(client, request);
    if (request->phase == QN_REQUEST_LEADING) {
        lead(client, request);
    }
    QN_ASSERT(request->phase == QN_REQUEST_DONE);
    pthread_mutex_unlock(&client->mutex);

    pthread_cond_destroy(&request->changed);
    bool stored = request->failed && request->error.code == QUERN_E_NOT_REPLICATED;
    if ((request->failed && !stored) || request->limited) {
        quern_task_info_free(request->info);
        request->info = NULL;
    }
}
