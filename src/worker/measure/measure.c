/* SPDX-License-Identifier: MIT */
/* measure.c - the families of a worker: names, help texts and bounds. docs/guide/metrics.md has the
 * same list. */
#include "worker/measure/measure.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

/* From a handler that does nothing to one that runs for an hour. */
static const int64_t run_bounds[] = {100 * US, 1 * MS,   5 * MS,   10 * MS, 25 * MS,   50 * MS,
                                     100 * MS, 250 * MS, 500 * MS, 1 * S,   2500 * MS, 5 * S,
                                     10 * S,   30 * S,   60 * S,   300 * S, 1800 * S,  3600 * S};
static const int64_t trip_bounds[] = {50 * US,  100 * US, 250 * US, 500 * US, 1 * MS,   2500 * US,
                                      5 * MS,   10 * MS,  25 * MS,  50 * MS,  100 * MS, 250 * MS,
                                      500 * MS, 1 * S,    5 * S,    10 * S};
static const int64_t batch_bounds[] = {0, 1, 2, 4, 8, 16, 32, 64, 128}; /* QN_BATCH_MAX */

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define BOUNDS(array) .bounds = (array), .bound_count = COUNT_OF(array)

static const struct qn_family_facts wait_facts = {
    .metric = {"quern_task_wait_seconds",
               "Time from when a task was due to the start of its run; counted when that ends.",
               QN_METRIC_HISTOGRAM, .is_time = true},
    .labels = {"queue", "type"},
    .label_count = 2,
    .open_label = 1,
    BOUNDS(run_bounds)};
static const struct qn_family_facts run_facts = {.metric = {"quern_task_run_seconds",
                                                            "Time that runs took.",
                                                            QN_METRIC_HISTOGRAM, .is_time = true},
                                                 .labels = {"queue", "type", "outcome"},
                                                 .label_count = 3,
                                                 .open_label = 1,
                                                 BOUNDS(run_bounds)};
static const struct qn_family_facts outcome_facts = {
    .metric = {"quern_task_outcomes_total",
               "Runs by how they ended, those that were given back before they began included.",
               QN_METRIC_COUNTER},
    .labels = {"queue", "outcome"},
    .label_count = 2,
    .open_label = 2};
static const struct qn_family_facts retry_facts = {
    .metric = {"quern_task_retries_total", "Failed runs whose task runs again.", QN_METRIC_COUNTER},
    .labels = {"queue", "type"},
    .label_count = 2,
    .open_label = 1};
static const struct qn_family_facts crash_facts = {
    .metric = {"quern_worker_child_crashes_total",
               "Children and commands that died of a signal while they ran a task.",
               QN_METRIC_COUNTER},
    .labels = {"signal"},
    .label_count = 1,
    .open_label = 1};
static const struct qn_family_facts trip_facts = {
    .metric = {"quern_broker_roundtrip_seconds",
               "Time until the broker answered an exchange (outcomes out, runs in).",
               QN_METRIC_HISTOGRAM, .is_time = true},
    BOUNDS(trip_bounds)};
static const struct qn_family_facts sent_facts = {.metric = {"quern_exchange_outcomes",
                                                             "Outcomes that an exchange carried.",
                                                             QN_METRIC_HISTOGRAM},
                                                  BOUNDS(batch_bounds)};
static const struct qn_family_facts taken_facts = {
    .metric = {"quern_exchange_runs", "Runs that an exchange leased.", QN_METRIC_HISTOGRAM},
    BOUNDS(batch_bounds)};

#define FAMILIES 8

/* All families with what they are, in the order in which they are shown. */
static void list(struct qn_measures *measures, struct qn_family *families[FAMILIES])
{
    struct qn_family *const all[FAMILIES] = {
        &measures->wait,    &measures->run,       &measures->outcomes, &measures->retries,
        &measures->crashes, &measures->roundtrip, &measures->sent,     &measures->taken};
    (void)memcpy(families, all, sizeof all);
}

static const struct qn_family_facts *const facts[FAMILIES] = {
    &wait_facts,  &run_facts,  &outcome_facts, &retry_facts,
    &crash_facts, &trip_facts, &sent_facts,    &taken_facts};

quern_status qn_measure_init(struct qn_measures *measures, quern_error *err)
{
    struct qn_family *families[FAMILIES];
    quern_status status = QUERN_OK;
    list(measures, families);
    for (size_t i = 0; i < FAMILIES && status == QUERN_OK; i++) {
        status = qn_family_init(families[i], facts[i], err);
    }
    return status;
}

void qn_measure_finish(struct qn_measures *measures)
{
    struct qn_family *families[FAMILIES];
    list(measures, families);
    for (size_t i = 0; i < FAMILIES; i++) {
        qn_family_finish(families[i]);
    }
}

static void count_signal(struct qn_measures *measures, int number)
{
    char name[32];
    const char *abbreviation = sigabbrev_np(number);
    if (abbreviation != NULL) {
        (void)snprintf(name, sizeof name, "SIG%s", abbreviation);
    } else {
        (void)snprintf(name, sizeof name, "%d", number);
    }
    qn_family_add(&measures->crashes, (const char *const[]){name}, 1);
}

void qn_measure_run(struct qn_measures *measures, const struct qn_measured_run *run)
{
    const char *const values[] = {run->queue, run->type, run->outcome};
    qn_family_add(&measures->outcomes, (const char *const[]){run->queue, run->outcome}, 1);
    if (run->began) {
        qn_family_observe(&measures->wait, values, run->wait_ns);
        qn_family_observe(&measures->run, values, run->run_ns);
    }
    if (run->is_retried) {
        qn_family_add(&measures->retries, values, 1);
    }
    if (run->signal != 0) {
        count_signal(measures, run->signal);
    }
}

void qn_measure_exchange(struct qn_measures *measures, int64_t time_ns, size_t outcome_count,
                         size_t run_count)
{
    qn_family_observe(&measures->roundtrip, NULL, time_ns);
    qn_family_observe(&measures->sent, NULL, (int64_t)outcome_count);
    qn_family_observe(&measures->taken, NULL, (int64_t)run_count);
}

void qn_measure_render(struct qn_measures *measures, struct qn_exposition *exposition)
{
    struct qn_family *families[FAMILIES];
    list(measures, families);
    for (size_t i = 0; i < FAMILIES; i++) {
        qn_family_render(families[i], exposition);
    }
}

uint64_t qn_measure_lost(struct qn_measures *measures)
{
    struct qn_family *families[FAMILIES];
    uint64_t lost = 0;
    list(measures, families);
    for (size_t i = 0; i < FAMILIES; i++) {
        lost += qn_family_lost(families[i]);
    }
    return lost;
}
