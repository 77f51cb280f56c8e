/* SPDX-License-Identifier: MIT */
/* hold.c - a process that holds tasks of the bench's first queue active, as slow handlers
 * would. It leases them without running them, far beyond any bench, and drops them at the end. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/random.h"
#include "broker/broker.h"
#include "cli/bench/bench.h"
#include "task/limits.h"

#define LEASE_MS (24 * 3600 * INT64_C(1000))
#define WORKER_ID "quern-bench-holder"

struct hold {
    struct qn_broker *broker;
    struct qn_leased **runs;
    size_t count;
    struct qn_stamp stamp;
};

static quern_status lease(struct hold *hold, size_t wanted, quern_error *err)
{
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && hold->count < wanted) {
        size_t left = wanted - hold->count;
        uint32_t room = left < QN_BATCH_MAX ? (uint32_t)left : QN_BATCH_MAX;
        struct qn_queue_share share = {.name = QN_BENCH_QUEUE, .weight = 1, .quota = room};
        struct qn_exchange exchange = {.stamp = {hold->stamp.session, ++hold->stamp.sequence},
                                       .worker_id = WORKER_ID,
                                       .lease_ms = LEASE_MS,
                                       .queues = &share,
                                       .queue_count = 1,
                                       .room = room};
        struct qn_exchange_reply reply = {.runs = hold->runs + hold->count};
        status = qn_broker_exchange(hold->broker, &exchange, &reply, err);
        hold->count += reply.run_count;
        if (status == QUERN_OK && reply.run_count == 0) {
            status = qn_error_set(err, QUERN_E_STATE, "no tasks to hold");
        }
    }
    return status;
}

static quern_status drop(struct hold *hold, quern_error *err)
{
    struct qn_outcome outcomes[QN_BATCH_MAX];
    enum qn_applied applied[QN_BATCH_MAX];
    quern_status status = QUERN_OK;
    for (size_t done = 0; status == QUERN_OK && done < hold->count;) {
        size_t count = 0;
        for (; count < QN_BATCH_MAX && done + count < hold->count; count++) {
            outcomes[count] = (struct qn_outcome){.run = hold->runs[done + count], .kind = QN_DROP};
        }
        struct qn_exchange exchange = {.stamp = {hold->stamp.session, ++hold->stamp.sequence},
                                       .outcomes = outcomes,
                                       .outcome_count = count,
                                       .worker_id = WORKER_ID,
                                       .lease_ms = LEASE_MS};
        struct qn_exchange_reply reply = {.applied = applied};
        status = qn_broker_exchange(hold->broker, &exchange, &reply, err);
        done += count;
    }
    return status;
}

void qn_bench_hold_main(const struct qn_bench *bench, const struct qn_bench_pipes *pipes)
{
    quern_error error = {0};
    struct hold hold = {0};
    const struct qn_heartbeat record = {.worker_id = WORKER_ID,
                                        .owner = "",
                                        .host = "bench",
                                        .status = "active",
                                        .queues = QN_BENCH_QUEUE};
    struct qn_random random;
    qn_random_init(&random);
    hold.stamp.session = qn_random_next(&random); /* brokers remember sessions for a while */
    hold.runs = qn_alloc_zero(bench->active, sizeof(struct qn_leased *));
    quern_status status = hold.runs == NULL
                              ? qn_error_nomem(&error)
                              : qn_broker_open(bench->url, NULL, &hold.broker, &error);
    if (status == QUERN_OK) {
        status = qn_broker_heartbeat(hold.broker, &record, &error);
    }
    if (status == QUERN_OK) {
        status = lease(&hold, bench->active, &error);
    }
    qn_bench_child_send(pipes->to_fd, 1, status, &error);
    struct pollfd end = {.fd = pipes->hold_fd};
    while (status == QUERN_OK && poll(&end, 1, -1) <= 0) {
        continue;
    }
    if (status == QUERN_OK && drop(&hold, &error) != QUERN_OK) {
        (void)fprintf(stderr, "bench: %s\n", error.text);
    }
    for (size_t i = 0; i < hold.count; i++) {
        qn_leased_free(hold.runs[i]);
    }
    if (hold.broker != NULL) {
        if (qn_broker_deregister(hold.broker, WORKER_ID, &error) != QUERN_OK) {
            (void)fprintf(stderr, "bench: %s\n", error.text);
        }
        qn_broker_close(hold.broker);
    }
    qn_free(hold.runs);
}
