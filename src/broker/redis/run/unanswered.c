/* SPDX-License-Identifier: MIT */
/* unanswered.c - an exchange on a cluster of which some nodes have answered nothing.
 *
 * What concerns one queue is at one node, and is kept or repeated as a whole: where the script of
 * its outcomes, or one of its leases, has no answer, nothing of that queue is taken. The session of
 * each queue is its own (lib_session.lua), so the repeated part gets the answer that was lost. */
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/exchange.h"

/* The i-th of all runs in the request, the outcomes first. */
static const char *queue_of(const struct qn_exchange *exchange, size_t i)
{
    return i < exchange->outcome_count ? exchange->outcomes[i].run->task.queue
                                       : exchange->starts[i - exchange->outcome_count]->task.queue;
}

static size_t run_count(const struct qn_exchange *exchange)
{
    return exchange->outcome_count + exchange->start_count;
}

static bool is_of(const struct qn_exchange *exchange, size_t i, const char *queue)
{
    return strcmp(queue_of(exchange, i), queue) == 0;
}

static void mark_queue(struct qn_exchange *exchange, struct qn_exchange_reply *reply,
                       const char *queue)
{
    for (size_t i = 0; i < exchange->queue_count; i++) {
        struct qn_queue_share *share = &exchange->queues[i];
        share->unanswered = share->unanswered || strcmp(share->name, queue) == 0;
    }
    for (size_t i = 0; i < run_count(exchange); i++) {
        reply->unanswered[i] =
            reply->unanswered[i] || (is_of(exchange, i, queue) && !QN_BUG(UNANSWERED_UNMARKED));
    }
    reply->is_partial = true;
}

void qn_redis_unanswered_note(const struct qn_pipeline *pipeline, struct qn_exchange *exchange,
                              struct qn_exchange_reply *reply, const struct qn_outcomes *outcomes)
{
    size_t command = outcomes->first_command; /* of the queue of run i, where that is its first */
    for (size_t i = 0; i < run_count(exchange); i++) {
        bool is_first = true;
        for (size_t k = 0; is_first && k < i; k++) {
            is_first = !is_of(exchange, k, queue_of(exchange, i));
        }
        if (!is_first) {
            continue;
        }
        const struct qn_reply *answer = NULL;
        quern_status status = qn_pipeline_reply(pipeline, command, &answer, NULL);
        if (status == QUERN_E_BUSY && pipeline->commands[command].hasty) {
            mark_queue(exchange, reply, queue_of(exchange, i));
        }
        command++;
    }
}

static void drop_runs(struct qn_exchange *exchange, struct qn_exchange_reply *reply)
{
    size_t count = 0;
    for (size_t i = 0; i < reply->run_count; i++) {
        struct qn_leased *run = reply->runs[i];
        if (exchange->queues[run->queue_index].unanswered) {
            exchange->queues[run->queue_index].leased--;
            qn_leased_free(run);
        } else {
            reply->runs[count++] = run;
        }
    }
    reply->run_count = count;
}

/* Writes why to err, if a queue has no answer. Whether a command may have been done all the
 * same. */
static bool explain(const struct qn_pipeline *pipeline, quern_error *err)
{
    const struct qn_reply *answer = NULL;
    bool lost = false;
    bool found = false;
    for (size_t i = 0; i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        lost = lost || command->lost;
        if (!found && command->hasty && command->reply->type == QN_REPLY_ERROR) {
            found = qn_pipeline_reply(pipeline, i, &answer, err) == QUERN_E_BUSY;
        }
    }
    return lost;
}

quern_status qn_redis_unanswered_settle(const struct qn_pipeline *pipeline,
                                        struct qn_exchange *exchange,
                                        struct qn_exchange_reply *reply, quern_error *err)
{
    for (size_t i = 0; i < exchange->queue_count; i++) {
        if (exchange->queues[i].unanswered) {
            mark_queue(exchange, reply, exchange->queues[i].name);
        }
    }
    drop_runs(exchange, reply);
    bool lost = reply->is_partial && explain(pipeline, err);
    quern_status status = qn_pipeline_any_present(pipeline, 0, err);
    if (status != QUERN_OK && (lost || exchange->again)) {
        return qn_error_as_unknown(err, "effect unknown");
    }
    return status;
}
