/* SPDX-License-Identifier: MIT */
/* store.c - one batch: its tasks prepared, sent, sent again with the same stamp, and their results.
 *
 * A lost reply (QUERN_E_UNKNOWN), a locked file (QUERN_E_BUSY) and a server that is absent
 * (QUERN_E_CONNECT, while it restarts) are tried again with the same stamp until the deadline; the
 * stamp makes that harmless. (With no_wait only the lost reply is, and max_retries bounds both.) On
 * a cluster an attempt may settle some tasks and leave others open: what was settled once stays so,
 * whatever comes later, and what is open at the end has its own error. */
#include "client/store.h"

#include <poll.h>
#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "broker/block.h"

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

/* Fills store->prepared from the request; tasks that are not valid fail and are left out. */
static void prepare_request(struct qn_store *store, struct qn_request *request)
{
    quern_client *client = store->client;
    for (size_t i = 0; i < request->count; i++) {
        const struct qn_bytes task = {(const char *)request->tasks + i * request->task_size,
                                      request->task_size};
        struct qn_task *prepared = &store->prepared[store->prepared_count];
        quern_error error;
        quern_status status = qn_request_prepare(client, task, &store->arena, prepared, &error);
        if (status == QUERN_OK) {
            status = make_info(client, prepared, request, &error);
        }
        if (status != QUERN_OK) {
            qn_request_set_result(request->results, i, status, NULL);
            qn_request_fail(request, i, &error);
            continue;
        }
        qn_request_set_result(request->results, i, QUERN_OK, prepared->id);
        store->origins[store->prepared_count] = (struct qn_origin){request, i};
        store->prepared_count++;
    }
}

/* Waits before the next try: a random part of a doubling time, so that several processes which
 * meet a locked file do not meet again. */
static void back_off(struct qn_store *store, unsigned attempt, int64_t deadline_mono_ns)
{
    const quern_client *client = store->client;
    static const struct qn_pace quick = {.start_ms = BACKOFF_MS_FIRST, .max_ms = BACKOFF_MS_MAX};
    const struct qn_pace *pace = qn_pace_has_pauses(&client->pace) ? &client->pace : &quick;
    int64_t wait_ms = qn_pace_next_ms(pace, attempt, store->random);
    int64_t left_ms = (deadline_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS + 1;
    wait_ms = wait_ms < left_ms ? wait_ms : left_ms;
    (void)poll(NULL, 0, (int)wait_ms); /* an interrupted wait is only shorter */
}

/* --- One attempt after the other ------------------------------------------------------ */

/* An attempt may leave a part open; what is settled by now is not touched any more. */
static void note_fates(struct qn_store *store, quern_status status, bool partial)
{
    bool has_results = status == QUERN_OK || partial;
    for (size_t i = 0; i < store->prepared_count; i++) {
        struct qn_fate *fate = &store->fates[i];
        quern_status now = has_results ? store->statuses[i] : status;
        bool open = !has_results || (partial && (now == QUERN_E_BUSY || now == QUERN_E_UNKNOWN));
        if (!fate->is_final) {
            fate->is_final = !open;
            bool in_doubt = fate->status == QUERN_E_UNKNOWN && !QN_BUG(DOUBT_FORGOTTEN);
            fate->status = open && in_doubt ? QUERN_E_UNKNOWN : now;
            fate->holder = open ? NULL : store->holders[i];
        }
    }
}

static bool any_in_doubt(const struct qn_store *store)
{
    for (size_t i = 0; i < store->prepared_count; i++) {
        if (!store->fates[i].is_final && store->fates[i].status == QUERN_E_UNKNOWN) {
            return true;
        }
    }
    return false;
}

/* One transaction for all that is prepared, tried again with one stamp while its fate is open.
 * false: another thread has it now. */
static bool store_prepared(struct qn_store *store, int64_t deadline_mono_ns,
                           quern_status *ret_status, quern_error *err)
{
    const quern_client *client = store->client;
    bool partial = false;
    const struct qn_enqueue enqueue = {.stamp = store->stamp,
                                       .tasks = store->prepared,
                                       .count = store->prepared_count,
                                       .results = store->statuses,
                                       .ret_limited = &store->limited,
                                       .holders = store->holders,
                                       .arena = &store->arena,
                                       .ret_partial = &partial,
                                       .ret_few_replicas = &store->few_replicas,
                                       .deadline_mono_ns = deadline_mono_ns};
    while (true) {
        partial = false;
        quern_status status = qn_broker_enqueue(client->broker, &enqueue, err);
        note_fates(store, status, partial);
        store->is_partial = store->is_partial || partial;
        if (partial && store->on_partial != NULL && !store->on_partial(store, store->user)) {
            return false;
        }
        bool in_doubt = any_in_doubt(store);
        bool recovers = partial || qn_broker_may_recover(client->broker, status);
        bool again = in_doubt || (recovers && !client->no_wait);
        if (status == QUERN_OK || !again || qn_clock_mono_ns() >= deadline_mono_ns ||
            qn_pace_ends(&client->pace, store->attempts + 1)) {
            *ret_status = in_doubt ? QUERN_E_UNKNOWN : status;
            return true;
        }
        back_off(store, store->attempts, deadline_mono_ns);
        store->attempts++;
    }
}

/* --- The results ----------------------------------------------------------------------- */

/* It is not settled, or the whole batch failed. */
static void put_failure(struct qn_store *store, size_t i, const quern_error *error)
{
    const struct qn_task *task = &store->prepared[i];
    struct qn_origin origin = store->origins[i];
    quern_status status = store->fates[i].status;
    quern_error text;
    if (status == QUERN_E_UNKNOWN) {
        qn_error_set(&text, status, "task %s in queue %s may be stored or not: %s", task->id,
                     task->queue, error->text);
    } else {
        qn_error_set(&text, status, "enqueue to %s: %s", task->queue, error->text);
    }
    qn_request_trace(store->client, origin.request->began, task, status);
    qn_request_set_result(origin.request->results, origin.index, status, task->id);
    qn_request_fail(origin.request, origin.index, &text);
    origin.request->broker_status = status;
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

static void put_result(struct qn_store *store, size_t i)
{
    struct qn_origin origin = store->origins[i];
    const char *holder = store->fates[i].holder;
    quern_status status = store->fates[i].status;
    bool may_get_room = status == QUERN_E_FULL && store->limited && store->client->room_wait_ms > 0;
    if (!may_get_room) {
        qn_request_trace(store->client, origin.request->began, &store->prepared[i], status);
    }
    if (status == QUERN_OK && holder == NULL) {
        return;
    }
    qn_request_set_holder(origin.request, holder);
    qn_request_set_stored(origin.request->results, origin.index, status,
                          (struct qn_stored_ids){store->prepared[i].id, holder});
    if (status == QUERN_OK) {
        return;
    }
    quern_error error;
    if (status == QUERN_E_FULL && store->limited) {
        note_limited(origin.request, origin.index, &store->prepared[i]);
        return;
    }
    if (status == QUERN_E_NOT_REPLICATED) {
        qn_request_refuse_replicas(&store->prepared[i], &store->few_replicas, &error);
    } else {
        qn_request_refuse(&store->prepared[i], status, &error);
    }
    qn_request_fail(origin.request, origin.index, &error);
    if (status == QUERN_E_FULL) {
        origin.request->broker_status = QUERN_E_FULL; /* a part of it found no room */
    }
}

/* The next attempt sends the whole batch again, so that its stamp means the same, but the strings
 * of a task are its caller's, who may free them once it is told the result. */
static bool own_task(struct qn_store *store, struct qn_task *task)
{
    char *at = qn_arena_alloc(&store->arena, qn_block_task_size(task));
    if (at != NULL) {
        qn_block_put_task(&at, task);
    }
    return at != NULL;
}

bool qn_store_settle(struct qn_store *store, struct qn_request *request)
{
    for (size_t i = 0; i < store->prepared_count; i++) {
        bool is_its = store->origins[i].request == request;
        if (is_its && (!store->fates[i].is_final || !own_task(store, &store->prepared[i]))) {
            return false;
        }
    }
    for (size_t i = 0; i < store->prepared_count; i++) {
        if (store->origins[i].request == request) {
            put_result(store, i);
            store->origins[i].request = NULL;
        }
    }
    return true;
}

static void put_results(struct qn_store *store, const quern_error *error)
{
    for (size_t i = 0; i < store->prepared_count; i++) {
        if (store->origins[i].request != NULL && store->fates[i].is_final) {
            put_result(store, i);
        } else if (store->origins[i].request != NULL) {
            put_failure(store, i, error);
        }
    }
}

/* --- A batch --------------------------------------------------------------------------- */

/* The arrays for all tasks of the batch. */
static bool make_room(struct qn_store *store, const struct qn_list *batch)
{
    size_t count = 0;
    for (struct qn_list *node = batch->next; node != batch; node = node->next) {
        count += request_of(node)->count;
    }
    struct qn_arena *arena = &store->arena;
    qn_arena_reset(arena);
    store->limited = store->is_partial = false;
    store->prepared_count = 0;
    store->prepared = qn_arena_alloc(arena, count * sizeof *store->prepared);
    store->origins = qn_arena_alloc(arena, count * sizeof *store->origins);
    store->statuses = qn_arena_alloc(arena, count * sizeof *store->statuses);
    store->fates = qn_arena_alloc(arena, count * sizeof *store->fates);
    store->holders = qn_arena_alloc(arena, count * sizeof *store->holders);
    if (store->prepared == NULL || store->origins == NULL || store->statuses == NULL ||
        store->fates == NULL || store->holders == NULL) {
        return false;
    }
    memset(store->fates, 0, count * sizeof *store->fates);
    return true;
}

void qn_store_fail_nomem(const struct qn_list *batch)
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

enum qn_store_end qn_store_go_on(struct qn_store *store, int64_t deadline_mono_ns)
{
    quern_error error = {0};
    quern_status status = QUERN_OK;
    if (!store_prepared(store, deadline_mono_ns, &status, &error)) {
        return QN_STORE_LEFT;
    }
    bool as_a_whole =
        status == QUERN_E_BROKER || status == QUERN_E_FULL || status == QUERN_E_UNSUPPORTED;
    if (as_a_whole && !store->is_partial && !store->is_alone) {
        return QN_STORE_REFUSED;
    }
    put_results(store, &error);
    return QN_STORE_DONE;
}

enum qn_store_end qn_store_run(struct qn_store *store, struct qn_list *batch,
                               int64_t deadline_mono_ns)
{
    if (!make_room(store, batch)) {
        qn_store_fail_nomem(batch);
        return QN_STORE_DONE;
    }
    for (struct qn_list *node = batch->next; node != batch; node = node->next) {
        prepare_request(store, request_of(node));
    }
    if (store->prepared_count == 0) {
        return QN_STORE_DONE;
    }
    store->attempts = 0;
    store->is_alone = batch->next == batch->prev;
    store->stamp.sequence++;
    return qn_store_go_on(store, deadline_mono_ns);
}

void qn_store_begin(struct qn_store *store, quern_client *client)
{
    *store = (struct qn_store){.client = client,
                               .stamp = client->stamp,
                               .random = &client->random,
                               .arena = client->arena};
    client->arena = (struct qn_arena){0};
    qn_list_init(&store->batch);
}

void qn_store_finish(struct qn_store *store)
{
    if (store->is_apart) {
        qn_arena_finish(&store->arena);
        return;
    }
    store->client->stamp = store->stamp;
    store->client->arena = store->arena;
}

void qn_store_part(struct qn_store *store)
{
    quern_client *client = store->client;
    store->is_apart = true;
    qn_random_init(&store->own_random);
    store->random = &store->own_random;
    client->stamp = (struct qn_stamp){.session = qn_random_next(&client->random)};
}
