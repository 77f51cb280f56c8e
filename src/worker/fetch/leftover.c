/* SPDX-License-Identifier: MIT */
/* leftover.c - keeps what was not answered, by queue.
 *
 * A leftover is a request of its own: the outcomes and starts of its queue, and the lease that may
 * have been given. That is asked for again too, with the same stamp: the broker gives the same
 * runs, or, if it has never seen the request, others. */
#include "worker/fetch/leftover.h"

#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/memory/alloc.h"
#include "worker/internal.h"

enum { RETRY_MS_MIN = 20, RETRY_DOUBLINGS = 4 };

void qn_leftovers_init(struct qn_leftovers *leftovers)
{
    qn_list_init(&leftovers->kept);
}

static void free_leftover(struct qn_leftover *leftover)
{
    qn_request_finish(&leftover->request);
    qn_free(leftover);
}

void qn_leftovers_finish(struct qn_leftovers *leftovers)
{
    while (leftovers->first != NULL) {
        struct qn_leftover *leftover = leftovers->first;
        leftovers->first = leftover->next;
        free_leftover(leftover);
    }
}

/* --- Splitting ------------------------------------------------------------------------ */

/* The queue of the first outcome or start without an answer; NULL: all have one. */
static const char *first_unanswered(const struct qn_exchange_request *request)
{
    const struct qn_exchange *exchange = &request->exchange;
    for (size_t i = 0; i < exchange->outcome_count; i++) {
        if (request->unanswered[i]) {
            return request->outcomes[i].run->task.queue;
        }
    }
    for (size_t i = 0; i < exchange->start_count; i++) {
        if (request->unanswered[exchange->outcome_count + i]) {
            return request->starts[i]->task.queue;
        }
    }
    return NULL;
}

static size_t index_of(const struct quern_worker *worker, const char *queue)
{
    size_t i = 0;
    while (i < worker->queue_count && strcmp(worker->queue_names[i], queue) != 0) {
        i++;
    }
    return i;
}

static void move_outcomes(struct qn_exchange_request *from, struct qn_exchange_request *to,
                          const char *queue)
{
    size_t left = 0;
    size_t *moved = &to->exchange.outcome_count;
    for (size_t i = 0; i < from->exchange.outcome_count; i++) {
        bool moves = strcmp(from->outcomes[i].run->task.queue, queue) == 0;
        struct qn_exchange_request *target = moves ? to : from;
        size_t at = moves ? (*moved)++ : left++;
        target->outcomes[at] = from->outcomes[i];
        target->ended[at] = from->ended[i];
        target->returned[at] = from->returned[i];
        target->applied[at] = from->applied[i];
        target->unanswered[at] = from->unanswered[i];
    }
    from->exchange.outcome_count = left;
}

static void move_starts(struct qn_exchange_request *from, struct qn_exchange_request *to,
                        const char *queue)
{
    size_t left = 0;
    size_t *moved = &to->exchange.start_count;
    for (size_t i = 0; i < from->exchange.start_count; i++) {
        bool moves = strcmp(from->starts[i]->task.queue, queue) == 0;
        struct qn_exchange_request *target = moves ? to : from;
        size_t at = moves ? (*moved)++ : left++;
        target->starts[at] = from->starts[i];
        target->starting[at] = from->starting[i];
    }
    from->exchange.start_count = left;
}

/* The lease of the queue, as this request alone asks for it. */
static void ask_again(const struct quern_worker *worker, const struct qn_exchange_request *from,
                      struct qn_exchange_request *to, size_t index)
{
    bool asks = index < worker->queue_count && from->queues[index].unanswered;
    uint32_t quota = !asks                   ? 0
                     : from->exchange.strict ? from->exchange.room
                                             : from->queues[index].quota;
    to->exchange.room = quota;
    to->exchange.queues = to->queues;
    to->exchange.queue_count = asks ? worker->queue_count : 0;
    to->exchange.strict = false;
    to->exchange.start_count_now =
        quota < from->exchange.start_count_now ? quota : from->exchange.start_count_now;
    for (size_t i = 0; i < worker->queue_count; i++) {
        to->queues[i] = from->queues[i];
        to->queues[i].skip = i != index;
        to->queues[i].quota = i == index ? quota : 0;
    }
    for (size_t i = 0; i < QN_BATCH_MAX; i++) {
        to->order[i] = (uint16_t)index;
    }
}

static void split_queue(struct quern_worker *worker, struct qn_exchange_request *request,
                        const char *queue, struct qn_leftover *take_leftover)
{
    struct qn_leftovers *leftovers = &worker->pump.leftovers;
    struct qn_leftover *leftover = take_leftover;
    size_t index = index_of(worker, queue);
    struct qn_exchange_request *own = &leftover->request;
    leftover->queue = index < worker->queue_count ? worker->queue_names[index] : queue;
    own->stamp = request->stamp;
    own->exchange = request->exchange;
    own->exchange.outcomes = own->outcomes;
    own->exchange.starts = own->starts;
    own->exchange.outcome_count = 0;
    own->exchange.start_count = 0;
    own->exchange.solo = QN_SOLO_NONE;
    own->exchange.again = true;
    for (size_t i = 0; i < sizeof own->exchange.isolation.held / sizeof(uint32_t); i++) {
        own->exchange.isolation.held[i] = own->exchange.isolation.slots; /* none is charged */
    }
    own->reply = (struct qn_exchange_reply){
        .applied = own->applied, .runs = own->leased, .unanswered = own->unanswered};
    own->sent_at_boot_ms = request->sent_at_boot_ms;
    own->open = own->in_doubt = true;
    ask_again(worker, request, own, index);
    move_outcomes(request, own, queue);
    move_starts(request, own, queue);
    if (index < worker->queue_count) {
        request->queues[index].unanswered = false;
        request->queues[index].skip = true; /* nothing is known of it */
    }
    leftover->next = leftovers->first;
    leftovers->first = leftover;
    qn_leftovers_put_off(worker, leftover);
}

/* Another one is found first each time, as those that were split are gone. */
static const char *next_queue(const struct quern_worker *worker,
                              const struct qn_exchange_request *request)
{
    const char *queue = first_unanswered(request);
    for (size_t i = 0; queue == NULL && i < worker->queue_count; i++) {
        queue = request->queues[i].unanswered ? worker->queue_names[i] : NULL;
    }
    return queue;
}

/* As many as there may be queues without an answer; false: out of memory. */
static bool make_spares(const struct quern_worker *worker,
                        const struct qn_exchange_request *request, struct qn_leftover **spares)
{
    size_t count = 0;
    for (size_t i = 0; i < worker->queue_count; i++) {
        count += request->queues[i].unanswered ? 1 : 0;
    }
    for (size_t i = 0; i < request->exchange.outcome_count + request->exchange.start_count; i++) {
        bool is_start = i >= request->exchange.outcome_count;
        const struct qn_leased *run = is_start
                                          ? request->starts[i - request->exchange.outcome_count]
                                          : request->outcomes[i].run;
        bool is_served = index_of(worker, run->task.queue) < worker->queue_count;
        count += request->unanswered[i] && !is_served ? 1 : 0;
    }
    for (; count > 0; count--) {
        struct qn_leftover *spare = qn_alloc_zero(1, sizeof *spare);
        if (spare == NULL) {
            return false;
        }
        spare->next = *spares;
        *spares = spare;
        if (qn_request_init(worker, &spare->request, NULL) != QUERN_OK) {
            return false;
        }
    }
    return true;
}

quern_status qn_leftovers_split(struct quern_worker *worker, struct qn_exchange_request *request,
                                const quern_error *why)
{
    struct qn_leftovers *leftovers = &worker->pump.leftovers;
    bool begins = leftovers->first == NULL;
    struct qn_leftover *spares = NULL;
    bool has_memory = make_spares(worker, request, &spares);
    const char *first = next_queue(worker, request);
    const char *queue = first;
    while (has_memory && queue != NULL && spares != NULL) {
        struct qn_leftover *spare = spares;
        spares = spare->next;
        split_queue(worker, request, queue, spare);
        queue = next_queue(worker, request);
    }
    while (spares != NULL) {
        struct qn_leftover *spare = spares;
        spares = spare->next;
        free_leftover(spare);
    }
    if (begins && leftovers->first != NULL) {
        leftovers->since_mono_ns = qn_clock_mono_ns();
        QN_LOG(&worker->log, QUERN_LOG_WARN, "some queues get no answer, the others go on",
               QN_LOG_TEXT("queue", first), QN_LOG_TEXT("error", why->text));
    }
    return has_memory ? QUERN_OK : QUERN_E_NOMEM;
}

/* --- Sending again -------------------------------------------------------------------- */

struct qn_leftover *qn_leftovers_due(const struct qn_leftovers *leftovers, int64_t now_mono_ns)
{
    struct qn_leftover *leftover = QN_BUG(LEFTOVER_NOT_SENT) ? NULL : leftovers->first;
    while (leftover != NULL && leftover->retry_at_mono_ns > now_mono_ns) {
        leftover = leftover->next;
    }
    return leftover;
}

int64_t qn_leftovers_moment(const struct qn_leftovers *leftovers)
{
    int64_t moment = INT64_MAX;
    for (const struct qn_leftover *leftover = leftovers->first; leftover != NULL;
         leftover = leftover->next) {
        moment = qn_earlier(moment, leftover->retry_at_mono_ns);
    }
    return moment;
}

void qn_leftovers_put_off(struct quern_worker *worker, struct qn_leftover *leftover)
{
    uint32_t doublings =
        leftover->failures < RETRY_DOUBLINGS ? leftover->failures : RETRY_DOUBLINGS;
    uint64_t max_ms = (uint64_t)RETRY_MS_MIN << doublings;
    int64_t delay_ms = 1 + (int64_t)qn_random_below(&worker->pump.unknown.random, max_ms);
    leftover->failures++;
    leftover->retry_at_mono_ns = qn_clock_mono_ns() + delay_ms * QN_NS_PER_MS;
}

/* The runs of this queue that have ended meanwhile are reported now. */
static void give_kept(struct quern_worker *worker, const char *queue)
{
    struct qn_list others;
    qn_list_init(&others);
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *kept = &worker->pump.leftovers.kept;
    struct qn_list *node = qn_list_shift(kept);
    while (node != NULL) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, phase_node);
        if (strcmp(run->leased->task.queue, queue) == 0 && !QN_BUG(KEPT_RUNS_STAY)) {
            qn_run_table_put_back(&worker->run_table, run);
        } else {
            qn_list_append(&others, node);
        }
        node = qn_list_shift(kept);
    }
    node = qn_list_shift(&others);
    while (node != NULL) {
        qn_list_append(kept, node);
        node = qn_list_shift(&others);
    }
    worker->look = true;
    (void)pthread_mutex_unlock(&worker->mutex);
}

void qn_leftovers_drop(struct quern_worker *worker, struct qn_leftover *take_leftover)
{
    struct qn_leftovers *leftovers = &worker->pump.leftovers;
    struct qn_leftover **at = &leftovers->first;
    char queue[QN_SERVED_NAME_SIZE_MAX + 1];
    while (*at != take_leftover) {
        at = &(*at)->next;
    }
    *at = take_leftover->next;
    (void)snprintf(queue, sizeof queue, "%s", take_leftover->queue);
    free_leftover(take_leftover);
    if (!qn_leftovers_has(leftovers, queue)) {
        give_kept(worker, queue);
    }
    if (leftovers->first == NULL) {
        int64_t after_ms = (qn_clock_mono_ns() - leftovers->since_mono_ns) / QN_NS_PER_MS;
        QN_LOG(&worker->log, QUERN_LOG_INFO, "all queues are answered again",
               QN_LOG_NUMBER("after_ms", after_ms));
    }
}
