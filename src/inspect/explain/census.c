/* SPDX-License-Identifier: MIT */
/* census.c - which live workers serve a queue and a type, by their records. */
#include "inspect/explain/census.h"

#include <string.h>

#include "task/limits.h"

/* The queues are "critical=6 default=3"; names may hold blanks. */
bool qn_census_serves(const quern_worker_info *worker, const char *queue)
{
    size_t size = strlen(queue);
    for (const char *at = strstr(worker->queues, queue); size > 0 && at != NULL;
         at = strstr(at + 1, queue)) {
        bool begins = at == worker->queues || at[-1] == ' ';
        size_t digits = at[size] == '=' ? strspn(at + size + 1, "0123456789") : 0;
        const char *end = at + size + 1 + digits;
        if (begins && digits > 0 && (*end == ' ' || *end == '\0')) {
            return true;
        }
    }
    return false;
}

/* Of the type, as far as it is known. */
static bool takes_type(const quern_worker_info *worker, const char *type)
{
    const char *pattern = worker->types;
    while (pattern != NULL && *pattern != '\0') {
        size_t size = strcspn(pattern, "\n");
        bool for_all = size == 1 && pattern[0] == '*';
        if (for_all || strncmp(type, pattern, size) == 0) {
            return true;
        }
        pattern += size + (pattern[size] == '\n' ? 1 : 0);
    }
    return worker->types == NULL;
}

const char *qn_census_status_name(quern_worker_status status)
{
    const char *name = quern_worker_status_name(status);
    return name == NULL ? "unknown" : name;
}

const quern_worker_info *qn_census_worker(const quern_worker_list *workers, const char *id)
{
    for (size_t i = 0; i < quern_worker_list_size(workers); i++) {
        const quern_worker_info *worker = quern_worker_list_at(workers, i);
        if (strcmp(worker->id, id) == 0) {
            return worker;
        }
    }
    return NULL;
}

const quern_worker_info *qn_census_runner(const quern_worker_list *workers, const char *queue,
                                          const char *id)
{
    for (size_t i = 0; i < quern_worker_list_size(workers); i++) {
        const quern_worker_info *worker = quern_worker_list_at(workers, i);
        for (size_t j = 0; j < worker->run_count; j++) {
            const quern_worker_run_info *run = &worker->runs[j];
            if (strcmp(run->id, id) == 0 && strcmp(run->queue, queue) == 0) {
                return worker;
            }
        }
    }
    return NULL;
}

size_t qn_census_count_workers(const quern_worker_list *workers, const char *queue)
{
    size_t count = 0;
    for (size_t i = 0; i < quern_worker_list_size(workers); i++) {
        count += qn_census_serves(quern_worker_list_at(workers, i), queue) ? 1 : 0;
    }
    return count;
}

static uint64_t count_free(const quern_worker_info *worker)
{
    uint64_t replaced = QN_REPLACED_MAX(worker->concurrency);
    uint64_t held = worker->hung > replaced ? worker->hung - replaced : 0;
    uint64_t taken = worker->run_count + held;
    return worker->concurrency > taken ? worker->concurrency - taken : 0;
}

static void count_able(struct qn_census *census, const quern_worker_info *worker, int64_t now_ms)
{
    census->able++;
    census->slots += worker->concurrency;
    census->free_slots += count_free(worker);
    census->hung += worker->hung;
    census->runs += worker->run_count;
    for (size_t i = 0; i < worker->run_count; i++) {
        int64_t age_ms = now_ms - worker->runs[i].started_at_ms;
        census->run_ages_ms += age_ms > 0 ? age_ms : 0;
    }
}

struct qn_census qn_census_take(const quern_worker_list *workers, const char *queue,
                                const char *type, int64_t now_ms)
{
    struct qn_census census = {.all = 0};
    for (size_t i = 0; i < quern_worker_list_size(workers); i++) {
        const quern_worker_info *worker = quern_worker_list_at(workers, i);
        if (!qn_census_serves(worker, queue)) {
            continue;
        }
        census.all++;
        if (type != NULL && !takes_type(worker, type)) {
            continue;
        }
        census.takers++;
        if (worker->status == QUERN_WORKER_ACTIVE || worker->status == QUERN_WORKER_BRAKED) {
            count_able(&census, worker, now_ms);
        } else {
            census.status = worker->status;
            census.pid = worker->pid;
            census.host = worker->host;
        }
    }
    return census;
}
