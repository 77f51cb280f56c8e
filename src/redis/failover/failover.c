/* SPDX-License-Identifier: MIT */
/* failover.c - the list of endpoints, and the choice among them.
 *
 * Only a failure of the current generation counts: a connection that was opened before a switch may
 * fail after it, and must not switch again. An endpoint that is left is marked as abandoned, which
 * ends the waits on its connections (net/peer.h). */
#include "redis/failover/failover.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/cond.h"

#define SUSPICION_MS 10000 /* all links of a process go through the same firewall */

void qn_failover_init(struct qn_failover *failover, struct qn_endpoint *const *take_endpoints,
                      size_t count)
{
    QN_ASSERT(count >= 1);
    QN_ASSERT(count <= QN_FAILOVER_ENDPOINTS_MAX);
    *failover = (struct qn_failover){.count = count};
    memcpy(failover->endpoints, take_endpoints, count * sizeof *take_endpoints);
    (void)snprintf(failover->address, sizeof failover->address, "%s",
                   take_endpoints[0]->peer.address);
    atomic_store(&failover->generation, 1);
    qn_random_init(&failover->random);
    (void)pthread_mutex_init(&failover->mutex, NULL);
    qn_cond_init(&failover->switched);
}

void qn_failover_finish(struct qn_failover *failover)
{
    for (size_t i = 0; i < failover->count; i++) {
        qn_endpoint_unref(failover->endpoints[i]);
    }
    qn_endpoint_unref(failover->answered);
    failover->count = 0;
    (void)pthread_cond_destroy(&failover->switched);
    (void)pthread_mutex_destroy(&failover->mutex);
}

void qn_failover_ask(struct qn_failover *failover,
                     quern_status (*find)(void *source, int64_t deadline_mono_ns, quern_error *err),
                     void *source)
{
    failover->find = find;
    failover->source = source;
    failover->doubted = true;
}

struct qn_endpoint *qn_failover_preferred_copy(struct qn_failover *failover)
{
    const struct qn_peer *peer = &failover->endpoints[0]->peer; /* of a list: it never changes */
    struct qn_endpoint *copy = NULL;
    quern_status status =
        qn_endpoint_at(failover->endpoints[0], peer->host, peer->port, &copy, NULL);
    return status == QUERN_OK ? copy : NULL;
}

bool qn_failover_is_preferred(struct qn_failover *failover)
{
    (void)pthread_mutex_lock(&failover->mutex);
    bool is_preferred = failover->current == 0;
    (void)pthread_mutex_unlock(&failover->mutex);
    return is_preferred;
}

const char *qn_failover_address(const struct qn_failover *failover)
{
    return failover->address;
}

/* --- Choosing ------------------------------------------------------------------------- */

struct qn_server_choice qn_failover_current(struct qn_failover *failover)
{
    (void)pthread_mutex_lock(&failover->mutex);
    const struct qn_server_choice choice = {
        .endpoint = qn_endpoint_ref(failover->endpoints[failover->current]),
        .generation = atomic_load(&failover->generation)};
    (void)pthread_mutex_unlock(&failover->mutex);
    return choice;
}

quern_status qn_failover_choose(struct qn_failover *failover, int64_t deadline_mono_ns,
                                struct qn_server_choice *ret_choice, quern_error *err)
{
    (void)pthread_mutex_lock(&failover->mutex);
    bool asks = failover->doubted && failover->find != NULL;
    (void)pthread_mutex_unlock(&failover->mutex);
    quern_status status = asks ? failover->find(failover->source, deadline_mono_ns, err) : QUERN_OK;
    if (status == QUERN_OK) {
        *ret_choice = qn_failover_current(failover);
    }
    return status;
}

size_t qn_failover_cycle(struct qn_failover *failover)
{
    return failover->find != NULL ? 1 : failover->count;
}

bool qn_failover_is_current(const struct qn_failover *failover, uint64_t generation)
{
    return atomic_load(&failover->generation) == generation;
}

/* --- Switching ------------------------------------------------------------------------ */

/* With the mutex held. */
static void begin_generation(struct qn_failover *failover)
{
    atomic_fetch_add(&failover->generation, 1);
    (void)pthread_cond_broadcast(&failover->switched);
}

/* With the mutex held. */
static void make_current(struct qn_failover *failover, size_t index)
{
    atomic_store(&failover->endpoints[failover->current]->abandoned, true);
    failover->current = index;
    atomic_store(&failover->endpoints[index]->abandoned, false);
    begin_generation(failover);
}

/* With the mutex held: one of those that this cycle has not tried, and not the same again. */
static size_t any_untried(struct qn_failover *failover)
{
    uint32_t out = failover->tried | (uint32_t)1 << failover->current;
    size_t left = 0;
    for (size_t i = 0; i < failover->count; i++) {
        left += (out >> i & 1) == 0 ? 1 : 0;
    }
    size_t nth = left == 0 ? 0 : (size_t)qn_random_below(&failover->random, left);
    for (size_t i = 0; i < failover->count && left > 0; i++) {
        if ((out >> i & 1) == 0 && nth-- == 0) {
            return i;
        }
    }
    return failover->current;
}

/* With the mutex held, but not in the callback. */
static size_t next_index(struct qn_failover *failover)
{
    const struct qn_failover_rules rules = failover->rules;
    size_t current = failover->current;
    uint32_t all = failover->count == 32 ? UINT32_MAX : ((uint32_t)1 << failover->count) - 1;
    failover->tried |= (uint32_t)1 << current;
    failover->tried = failover->tried == all ? 0 : failover->tried;
    if (rules.choose != NULL) {
        (void)pthread_mutex_unlock(&failover->mutex);
        size_t chosen = rules.choose(failover->count, current, rules.user);
        (void)pthread_mutex_lock(&failover->mutex);
        return chosen < failover->count ? chosen : (current + 1) % failover->count;
    }
    return rules.strategy == QN_FAILOVER_SHUFFLE ? any_untried(failover)
                                                 : (current + 1) % failover->count;
}

/* With the mutex held, unless the callback of the user is asked. */
static void leave(struct qn_failover *failover, uint64_t generation)
{
    if (failover->find != NULL) {
        failover->doubted = true;
    } else if (failover->count > 1) {
        size_t index = next_index(failover);
        if (qn_failover_is_current(failover, generation)) {
            make_current(failover, index);
        }
    }
}

static void report(struct qn_failover *failover, const struct qn_link_event *event)
{
    const struct qn_failover_rules *rules = &failover->rules;
    if (event->kind == QN_LINK_FAILED && rules->on_failure != NULL) {
        const quern_link_failure failure = {.address = event->address,
                                            .error = event->text,
                                            .status = (int32_t)event->status,
                                            .attempts = event->attempts,
                                            .failing_ms = event->failing_for_ms};
        rules->on_failure(&failure, rules->user);
    }
    if (rules->on_event != NULL) {
        rules->on_event(event, rules->event_user);
    }
}

static void note_failure(struct qn_failover *failover, const struct qn_server_choice *choice,
                         const quern_error *error, bool leaves)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    (void)pthread_mutex_lock(&failover->mutex);
    if (failover->attempts++ == 0) {
        failover->failing_since_mono_ns = now_mono_ns;
    }
    const struct qn_link_event event = {
        .kind = QN_LINK_FAILED,
        .address = choice->endpoint->peer.address,
        .status = error->code,
        .text = error->text,
        .attempts = failover->attempts,
        .failing_for_ms = (now_mono_ns - failover->failing_since_mono_ns) / QN_NS_PER_MS};
    if (leaves && qn_failover_is_current(failover, choice->generation)) {
        leave(failover, choice->generation);
    }
    (void)pthread_mutex_unlock(&failover->mutex);
    report(failover, &event);
}

void qn_failover_fail(struct qn_failover *failover, const struct qn_server_choice *choice,
                      const quern_error *error)
{
    note_failure(failover, choice, error, true);
}

void qn_failover_refuse(struct qn_failover *failover, const struct qn_server_choice *choice,
                        const quern_error *error)
{
    note_failure(failover, choice, error, false);
}

void qn_failover_answer(struct qn_failover *failover, uint64_t generation)
{
    struct qn_link_event event = {.kind = QN_LINK_SWITCHED};
    struct qn_endpoint *before = NULL;
    struct qn_endpoint *now = NULL;
    (void)pthread_mutex_lock(&failover->mutex);
    if (qn_failover_is_current(failover, generation)) {
        failover->attempts = 0;
        failover->tried = 0;
        if (failover->answered != failover->endpoints[failover->current]) {
            before = failover->answered;
            now = qn_endpoint_ref(failover->endpoints[failover->current]);
            failover->answered = qn_endpoint_ref(now);
        }
    }
    (void)pthread_mutex_unlock(&failover->mutex);
    if (before != NULL) { /* else it is the first of all */
        event.address = now->peer.address;
        report(failover, &event);
    }
    qn_endpoint_unref(before);
    qn_endpoint_unref(now);
}

void qn_failover_doubt(struct qn_failover *failover, uint64_t generation)
{
    (void)pthread_mutex_lock(&failover->mutex);
    if (qn_failover_is_current(failover, generation)) {
        leave(failover, generation);
    }
    (void)pthread_mutex_unlock(&failover->mutex);
}

void qn_failover_switch_to(struct qn_failover *failover, size_t index)
{
    (void)pthread_mutex_lock(&failover->mutex);
    if (failover->current != index) {
        failover->tried = 0;
        make_current(failover, index);
    }
    (void)pthread_mutex_unlock(&failover->mutex);
}

void qn_failover_set(struct qn_failover *failover, struct qn_endpoint *take_endpoint)
{
    (void)pthread_mutex_lock(&failover->mutex);
    struct qn_endpoint *before = failover->endpoints[0];
    failover->doubted = false;
    if (strcmp(before->peer.address, take_endpoint->peer.address) == 0) {
        qn_endpoint_unref(take_endpoint);
    } else {
        atomic_store(&before->abandoned, true);
        failover->endpoints[0] = take_endpoint;
        begin_generation(failover);
        qn_endpoint_unref(before);
    }
    (void)pthread_mutex_unlock(&failover->mutex);
}

void qn_failover_wait(struct qn_failover *failover, uint64_t generation, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&failover->mutex);
    bool in_time = true;
    while (in_time && qn_failover_is_current(failover, generation)) {
        in_time = qn_cond_wait_until(&failover->switched, &failover->mutex, until_mono_ns);
    }
    (void)pthread_mutex_unlock(&failover->mutex);
}

void qn_failover_note_lost_link(struct qn_failover *failover)
{
    atomic_store(&failover->lost_link_mono_ns, qn_clock_mono_ns());
}

bool qn_failover_has_lost_link(const struct qn_failover *failover)
{
    int64_t lost_mono_ns = atomic_load(&failover->lost_link_mono_ns);
    return lost_mono_ns != 0 && qn_clock_mono_ns() - lost_mono_ns < SUSPICION_MS * QN_NS_PER_MS;
}
