/* SPDX-License-Identifier: MIT */
/* room.c - waits for room in queues that have as many tasks as they may have (max_pending).
 *
 * A request goes through the queue of callers like any other (combine.c). If the limit of a queue
 * keeps some of its tasks out, these are requests of their own after a pause, in their order, until
 * all are stored or the time is up. No client is notified when a queue has room, so this thread
 * asks, first after some milliseconds and then less often; while it waits it holds up no other
 * caller. Without a time to wait, which is the default, nothing here happens but one comparison. */
#include "client/room.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/random.h"

#define PAUSE_MS_FIRST 4
#define PAUSE_MS_MAX 250

int64_t qn_room_until_mono_ns(const quern_client *client)
{
    return client->room_wait_ms == 0 ? 0 : qn_clock_mono_ns() + client->room_wait_ms * QN_NS_PER_MS;
}

/* A random part of a time that doubles; not beyond the end. Returns whether time was left. */
static bool rest(struct qn_random *random, unsigned attempt, int64_t until_mono_ns)
{
    int64_t left_ms = (until_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS;
    int64_t limit_ms = attempt < 6 ? PAUSE_MS_FIRST << attempt : PAUSE_MS_MAX;
    limit_ms = limit_ms < left_ms ? limit_ms : left_ms;
    if (limit_ms <= 0) {
        return false;
    }
    uint64_t wait_ms = 1 + qn_random_below(random, (uint64_t)limit_ms);
    (void)poll(NULL, 0, (int)wait_ms); /* an interrupted wait is only shorter */
    return true;
}

/* The tasks from `first` on that were kept out, up to one that was not. */
static size_t run_length(const struct qn_request *request, size_t first)
{
    size_t length = 1;
    while (first + length < request->count &&
           request->results[first + length].status == QUERN_E_FULL) {
        length++;
    }
    return length;
}

/* Tries this part of the request once more. Returns how many of it are through. */
static size_t try_part(quern_client *client, struct qn_request *request, size_t first, size_t count)
{
    struct qn_request part = {
        .tasks = (const char *)request->tasks + first * request->task_size,
        .task_size = request->task_size,
        .count = count,
        .payload_bytes = request->payload_bytes,
        .results = request->results == NULL ? NULL : request->results + first,
        .wants_info = request->wants_info,
        .began = request->began,
    };
    qn_combine_request(client, &part);
    request->info = part.info;
    memcpy(request->holder, part.holder, sizeof request->holder);
    if (part.failed) {
        qn_request_fail(request, first + part.failed_index, &part.error);
    }
    request->broker_status = part.broker_status;
    request->limited = part.limited;
    if (part.limited) {
        request->limited_index = first + part.limited_index;
        request->limit = part.limit;
    }
    return part.limited ? part.limited_index : count;
}

/* The next task behind `first` that is kept out; request->count: none. */
static size_t next_limited(const struct qn_request *request, size_t first)
{
    while (first < request->count && request->results[first].status != QUERN_E_FULL) {
        first++;
    }
    return first;
}

static void wait_for_room(quern_client *client, struct qn_request *request, int64_t until_mono_ns)
{
    struct qn_random random;
    unsigned attempt = 0;
    bool untried = false; /* the part that comes next: its queue may have room */
    qn_random_init(&random);
    while (request->limited && request->broker_status == QUERN_OK &&
           (untried || rest(&random, attempt, until_mono_ns))) {
        size_t first = request->limited_index;
        size_t count = request->count == 1 ? 1 : run_length(request, first);
        size_t through = try_part(client, request, first, count);
        size_t next = request->limited ? request->count : first + count;
        next = next < request->count ? next_limited(request, next) : next;
        attempt = through > 0 ? 0 : attempt + 1;
        untried = next < request->count;
        if (untried) {
            request->limited = true;
            request->limited_index = next;
        }
    }
}

void qn_room_request(quern_client *client, struct qn_request *request, int64_t until_mono_ns)
{
    quern_enqueue_result *own = NULL;
    if (until_mono_ns != 0 && request->results == NULL && request->count > 1) {
        own = qn_alloc_zero(request->count, sizeof *own);
        if (own == NULL) {
            quern_error error;
            request->broker_status = qn_error_nomem(&error);
            qn_request_fail(request, 0, &error);
            return;
        }
        request->results = own;
    }
    qn_combine_request(client, request);
    if (request->limited && until_mono_ns != 0) {
        wait_for_room(client, request, until_mono_ns);
    }
    if (request->limited && request->broker_status == QUERN_OK) {
        request->broker_status = QUERN_E_FULL;
        qn_request_fail(request, request->limited_index, &request->limit);
    }
    if (own != NULL) {
        request->results = NULL;
        qn_free(own);
    }
}
