/* SPDX-License-Identifier: MIT */
/* lib_limit_judge.c - sweeps over the events in their order. */
#include "lib_limit_judge.h"

#include <stdlib.h>

#define S_NS 1e9

/* An end comes before a start of the same moment, which may use what it has freed. */
static int compare(const void *a, const void *b)
{
    const struct limit_event *left = a;
    const struct limit_event *right = b;
    if (left->at_ns != right->at_ns) {
        return left->at_ns < right->at_ns ? -1 : 1;
    }
    return left->change - right->change;
}

void limit_judge_sort(struct limit_event *events, size_t count)
{
    if (count > 0) {
        qsort(events, count, sizeof *events, compare);
    }
}

static bool has(uint32_t kinds, uint32_t kind)
{
    return (kinds >> kind & 1) != 0;
}

/* How long this part of the record is, without the excluded spans, which do not overlap. */
static int64_t judged_ns(const struct limit_record *record, int64_t from_ns, int64_t until_ns)
{
    int64_t sum_ns = until_ns - from_ns;
    for (size_t i = 0; i < record->excluded_count; i++) {
        const struct limit_span *span = &record->excluded[i];
        int64_t first = span->from_ns > from_ns ? span->from_ns : from_ns;
        int64_t last = span->until_ns < until_ns ? span->until_ns : until_ns;
        sum_ns -= last > first ? last - first : 0;
    }
    return sum_ns;
}

struct sweep {
    int64_t running;
    int64_t waiting; /* those that only this limit binds */
    int64_t at_ns;
    double used;   /* runs times ns */
    double usable; /* the same, if the limit had been full */
    double time_ns;
};

static int64_t waiting_at_first(const struct limit_record *record, const struct limit_rule *rule)
{
    int64_t waiting = 0;
    for (uint32_t kind = 0; kind < 32; kind++) {
        waiting += has(rule->alone, kind) ? record->puts[kind] : 0;
    }
    return waiting;
}

static void add_time(const struct limit_record *record, const struct limit_rule *rule,
                     struct sweep *sweep, int64_t until_ns)
{
    if (sweep->waiting >= rule->count && sweep->at_ns != 0) {
        double ns = (double)judged_ns(record, sweep->at_ns, until_ns);
        sweep->used += ns * (double)sweep->running;
        sweep->usable += ns * (double)rule->count;
        sweep->time_ns += ns;
    }
    sweep->at_ns = until_ns;
}

static struct limit_verdict judge_running(const struct limit_record *record,
                                          const struct limit_rule *rule)
{
    struct limit_verdict verdict = {.most = 0};
    struct sweep sweep = {.waiting = waiting_at_first(record, rule)};
    for (size_t i = 0; i < record->count; i++) {
        const struct limit_event *event = &record->events[i];
        if (!has(rule->kinds, event->kind)) {
            continue;
        }
        add_time(record, rule, &sweep, event->at_ns);
        sweep.running += event->change;
        if (has(rule->alone, event->kind)) {
            sweep.waiting += event->change > 0 ? -1 : event->done ? 0 : 1;
        }
        verdict.most = sweep.running > verdict.most ? sweep.running : verdict.most;
    }
    verdict.exceeded = verdict.most > rule->count;
    verdict.use = sweep.usable > 0 ? sweep.used / sweep.usable : 0;
    verdict.judged_s = sweep.time_ns / S_NS;
    return verdict;
}

/* The starts that this limit binds; the caller frees them. */
static int64_t *list_starts(const struct limit_record *record, const struct limit_rule *rule,
                            size_t *ret_count)
{
    int64_t *starts = calloc(record->count + 1, sizeof *starts);
    size_t count = 0;
    for (size_t i = 0; starts != NULL && i < record->count; i++) {
        const struct limit_event *event = &record->events[i];
        if (event->change > 0 && !event->late && has(rule->kinds, event->kind)) {
            starts[count++] = event->at_ns;
        }
    }
    *ret_count = starts != NULL ? count : 0;
    return starts;
}

/* How many more than allowed started in a window of the period, whichever it is. */
static int64_t window_excess(const struct limit_record *record, const struct limit_rule *rule)
{
    size_t count;
    size_t first = 0;
    int64_t excess = 0;
    int64_t *starts = list_starts(record, rule, &count);
    for (size_t i = 0; i < count; i++) {
        while (starts[i] - starts[first] >= rule->period_ns - record->lag_ns) {
            first++;
        }
        int64_t over = (int64_t)(i - first + 1) - rule->count;
        excess = over > excess ? over : excess;
    }
    free(starts);
    return excess;
}

/* The same for a bucket: how many starts it lacked. */
static int64_t bucket_excess(const struct limit_record *record, const struct limit_rule *rule)
{
    size_t count;
    double debt = 0;
    double excess = 0;
    double per_ns = (double)rule->count / (double)rule->period_ns;
    int64_t *starts = list_starts(record, rule, &count);
    for (size_t i = 0; i < count; i++) {
        double paid = i == 0 ? 0 : (double)(starts[i] - starts[i - 1]) * per_ns;
        debt = (debt > paid ? debt - paid : 0) + 1;
        double over = debt - (double)rule->burst - (double)record->lag_ns * per_ns;
        excess = over > excess ? over : excess;
    }
    free(starts);
    return (int64_t)(excess + 0.999);
}

/* The starts while as many tasks waited as may start in a period; the caller frees them. */
static int64_t *list_while_waiting(const struct limit_record *record, const struct limit_rule *rule,
                                   size_t *ret_count)
{
    int64_t *starts = calloc(record->count + 1, sizeof *starts);
    int64_t waiting = waiting_at_first(record, rule);
    size_t count = 0;
    for (size_t i = 0; starts != NULL && i < record->count; i++) {
        const struct limit_event *event = &record->events[i];
        if (!has(rule->kinds, event->kind) || waiting < rule->count) {
            continue;
        }
        if (event->change > 0) {
            starts[count++] = event->at_ns;
            waiting--;
        } else {
            waiting += event->done ? 0 : 1;
        }
    }
    *ret_count = starts != NULL ? count : 0;
    return starts;
}

static struct limit_verdict judge_starts(const struct limit_record *record,
                                         const struct limit_rule *rule)
{
    struct limit_verdict verdict = {.most = rule->burst > 0 ? bucket_excess(record, rule)
                                                            : window_excess(record, rule)};
    size_t count = 0;
    int64_t *starts = list_while_waiting(record, rule, &count);
    verdict.exceeded = verdict.most > 0;
    /* What stood open at the first moment was not allowed by the rate; a window that is used up
     * lets all of its starts go at once. */
    size_t first = rule->burst > 0 ? (size_t)rule->burst : 0;
    size_t whole = rule->burst > 0 ? 1 : (size_t)rule->count;
    size_t judged = count > first ? (count - 1 - first) / whole * whole : 0;
    if (judged > 0) {
        double ns = (double)(starts[first + judged] - starts[0]);
        verdict.use = (double)judged * (double)rule->period_ns / (double)rule->count / ns;
        verdict.judged_s = ns / S_NS;
    }
    free(starts);
    return verdict;
}

struct limit_verdict limit_judge(const struct limit_record *record, const struct limit_rule *rule)
{
    return rule->period_ns > 0 ? judge_starts(record, rule) : judge_running(record, rule);
}
