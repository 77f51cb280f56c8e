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
 * A lost reply (QUERN_E_UNKNOWN), a locked file (QUERN_E_BUSY) and a server that is absent
 * (QUERN_E_CONNECT, while it restarts) are tried again with the same stamp until the leader's
 * deadline, which is the earliest of the batch; the stamp makes that harmless. (With no_wait only
 * the lost reply is, and max_retries bounds both.) When a batch of
 * several callers is refused as a whole, each request is tried once more on its own, so that no
 * caller sees a failure caused by the task of another. A caller whose time is up before any leader
 * took its request leaves the list: nothing of it was stored. */
#include "client/combine.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"

#define BACKOFF_MS_FIRST 1
#define BACKOFF_MS_MAX 100

static struct qn_request *request_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct qn_request, node);
}

/* Makes the struct for ret_info before anything is stored: running out of memory must change
 * nothing. */
static quern_status make_info(const quern_client *client, const struct qn_task *task,
                              struct qn_request *request, quern_error *err)
{
    if (!request->wants_info) {
        return QUERN_OK;
    }
    quern_task_info_free(request->info); /* of a first try, which had another generated id */
    request->info = NULL;
    int64_t now_ms = qn_clock_wall_ms(client->clock);
    int64_t at_ms = 0;
    if (task->state == QUERN_TASK_SCHEDULED) {
        at_ms = task->process_at_ms;
    } else if (task->state == QUERN_TASK_AGGREGATING) {
        at_ms = now_ms;
    }
    const struct quern_task_info info = {
        .task = *task,
        .error = "",
        .at_ms = at_ms,
        .enqueued_at_ms = now_ms,
        .worker = "",
        .progress = -1,
        .progress_note = "",
    };
    request->info = qn_task_info_copy(&info);
    return request->info == NULL ? qn_error_nomem(err) : QUERN_OK;
}

/* Fills client->prepared from the request; tasks that are not valid fail and are left out. */
static void prepare_request(quern_client *client, struct qn_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        const struct qn_bytes task = {(const char *)request->tasks + i * request->task_size,
                                      request->task_size};
        struct qn_task *prepared = &client->prepared[client->prepared_count];
        quern_error error;
        quern_status status = qn_request_prepare(client, task, &client->arena, prepared, &error);
        if (status == QUERN_OK) {
            status = make_info(client, prepared, request, &error);
        }
        if (status != QUERN_OK) {
            qn_request_set_result(request->results, i, status, NULL);
            qn_request_fail(request, i, &error);
            continue;
        }
        qn_request_set_result(request->results, i, QUERN_OK, prepared->id);
        client->origins[client->prepared_count] = (struct qn_origin){request, i};
        client->prepared_count++;
    }
}

/* Waits before the next try: a random part of a doubling time, so that several processes which
 * meet a locked file do not meet again. */
static void back_off(quern_client *client, unsigned attempt, int64_t deadline_mono_ns)
{
    static const struct qn_pace quick = {.start_ms = BACKOFF_MS_FIRST, .max_ms = BACKOFF_MS_MAX};
    const struct qn_pace *pace = qn_pace_has_pauses(&client->pace) ? &client->pace : &quick;
    int64_t wait_ms = qn_pace_next_ms(pace, attempt, &client->random);
    int64_t left_ms = (deadline_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS + 1;
    wait_ms = wait_ms < left_ms ? wait_ms : left_ms;
    (void)poll(NULL, 0, (int)wait_ms); /* an interrupted wait is only shorter */
}

/* One transaction for all that is prepared, tried again with one stamp while its fate is open. */
static quern_status store_prepared(quern_client *client, int64_t deadline_mono_ns, quern_error *err)
{
    bool in_doubt = false;
    client->stamp.sequence++;
    const struct qn_enqueue enqueue = {.stamp = client->stamp,
                                       .tasks = client->prepared,
                                       .count = client->prepared_count,
                                       .results = client->statuses,
                                       .ret_limited = &client->limited,
                                       .holders = client->holders,
                                       .arena = &client->arena};
    client->limited = false;
    for (unsigned attempt = 0;; attempt++) {
        quern_status status = qn_broker_enqueue(client->broker, &enqueue, err);
        in_doubt = in_doubt || status == QUERN_E_UNKNOWN;
        if (status == QUERN_OK) {
            return QUERN_OK;
        }
        bool may_come = !client->no_wait && qn_broker_may_recover(client->broker, status);
        bool again = in_doubt || may_come;
        if (!again || qn_clock_mono_ns() >= deadline_mono_ns ||
            qn_pace_ends(&client->pace, attempt + 1)) {
            return in_doubt ? QUERN_E_UNKNOWN : status;
        }
        back_off(client, attempt, deadline_mono_ns);
    }
}

/* Marks every prepared task: the whole batch failed. */
static void spread_failure(quern_client *client, quern_status status, const quern_error *error)
{
    for (size_t i = 0; i < client->prepared_count; i++) {
        const struct qn_task *task = &client->prepared[i];
        struct qn_origin origin = client->origins[i];
        quern_error text;
        if (status == QUERN_E_UNKNOWN) {
            qn_error_set(&text, status, "task %s in queue %s may be stored or not: %s", task->id,
                         task->queue, error->text);
        } else {
            qn_error_set(&text, status, "enqueue to %s: %s", task->queue, error->text);
        }
        qn_request_set_result(origin.request->results, origin.index, status, task->id);
        qn_request_fail(origin.request, origin.index, &text);
        origin.request->broker_status = status;
    }
}

/* The first one; it is no failure yet, see room.c. */
static void note_limited(struct qn_request *request, size_t index, const struct qn_task *task)
{
    if (!request->limited) {
        request->limited = true;
        request->limited_index = index;
        qn_request_refuse_limited(task, &request->limit);
    }
}

static void spread_results(quern_client *client)
{
    for (size_t i = 0; i < client->prepared_count; i++) {
        struct qn_origin origin = client->origins[i];
        const char *holder = client->holders[i];
        if (client->statuses[i] == QUERN_OK && holder == NULL) {
            continue;
        }
        qn_request_set_holder(origin.request, holder);
        qn_request_set_stored(origin.request->results, origin.index, client->statuses[i],
                              (struct qn_stored_ids){client->prepared[i].id, holder});
        if (client->statuses[i] == QUERN_OK) {
            continue;
        }
        quern_error error;
        if (client->statuses[i] == QUERN_E_FULL && client->limited) {
            note_limited(origin.request, origin.index, &client->prepared[i]);
            continue;
        }
        qn_request_refuse(&client->prepared[i], client->statuses[i], &error);
        qn_request_fail(origin.request, origin.index, &error);
        if (client->statuses[i] == QUERN_E_FULL) {
            origin.request->broker_status = QUERN_E_FULL; /* a part of it found no room */
        }
    }
}

/* The arrays for all tasks of the batch. */
static bool make_room(quern_client *client, const struct qn_list *batch)
{
    size_t count = 0;
    for (struct qn_list *node = batch->next; node != batch; node = node->next) {
        count += request_of(node)->count;
    }
    qn_arena_reset(&client->arena);
    client->prepared_count = 0;
    client->prepared = qn_arena_alloc(&client->arena, count * sizeof *client->prepared);
    client->origins = qn_arena_alloc(&client->arena, count * sizeof *client->origins);
    client->statuses = qn_arena_alloc(&client->arena, count * sizeof *client->statuses);
    client->holders = qn_arena_alloc(&client->arena, count * sizeof *client->holders);
    return client->prepared != NULL && client->origins != NULL && client->statuses != NULL &&
           client->holders != NULL;
}

static void fail_nomem(const struct qn_list *batch)
{
    quern_error error;
    quern_status status = qn_error_nomem(&error);
    for (struct qn_list *node = batch->next; node != batch; node = node->next) {
        struct qn_request *request = request_of(node);
        for (size_t i = 0; i < request->count; i++) {
            qn_request_set_result(request->results, i, status, NULL);
        }
        qn_request_fail(request, 0, &error);
        request->broker_status = status;
    }
}

/* Stores the requests of `batch`. Returns false when the broker refused them as a whole for a
 * reason that one of them may have brought in; no result is written then. */
static bool store(quern_client *client, struct qn_list *batch, int64_t deadline_mono_ns, bool alone)
{
    if (!make_room(client, batch)) {
        fail_nomem(batch);
        return true;
    }
    for (struct qn_list *node = batch->next; node != batch; node = node->next) {
        prepare_request(client, request_of(node));
    }
    if (client->prepared_count == 0) {
        return true;
    }
    quern_error error = {0};
    quern_status status = store_prepared(client, deadline_mono_ns, &error);
    if (status == QUERN_OK) {
        spread_results(client);
        return true;
    }
    if (!alone &&
        (status == QUERN_E_BROKER || status == QUERN_E_FULL || status == QUERN_E_UNSUPPORTED)) {
        return false;
    }
    spread_failure(client, status, &error);
    return true;
}

static void store_one_by_one(quern_client *client, struct qn_list *batch, int64_t deadline_mono_ns)
{
    struct qn_list done;
    qn_list_init(&done);
    for (struct qn_list *node = qn_list_shift(batch); node != NULL; node = qn_list_shift(batch)) {
        struct qn_list one;
        qn_list_init(&one);
        qn_list_append(&one, node);
        request_of(node)->failed = false;
        (void)store(client, &one, deadline_mono_ns, true);
        qn_list_remove(node);
        qn_list_append(&done, node);
    }
    for (struct qn_list *node = qn_list_shift(&done); node != NULL; node = qn_list_shift(&done)) {
        qn_list_append(batch, node);
    }
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

/* With the mutex held; leaves it while storing. */
static void lead(quern_client *client, struct qn_request *own)
{
    struct qn_list batch;
    qn_list_init(&batch);
    take_batch(client, &batch);
    QN_ASSERT(own->phase == QN_REQUEST_TAKEN);
    pthread_mutex_unlock(&client->mutex);

    bool alone = batch.next == batch.prev;
    if (!store(client, &batch, own->deadline_mono_ns, alone)) {
        store_one_by_one(client, &batch, own->deadline_mono_ns);
    }

    pthread_mutex_lock(&client->mutex);
    for (struct qn_list *node = qn_list_shift(&batch); node != NULL; node = qn_list_shift(&batch)) {
        struct qn_request *request = request_of(node);
        request->phase = QN_REQUEST_DONE;
        pthread_cond_signal(&request->changed);
    }
    client->led = !qn_list_empty(&client->waiting);
    if (client->led) {
        struct qn_request *next = request_of(client->waiting.next);
        next->phase = QN_REQUEST_LEADING;
        pthread_cond_signal(&next->changed);
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
    while (request->phase == QN_REQUEST_TAKEN) {
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
