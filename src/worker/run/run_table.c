/* SPDX-License-Identifier: MIT */
/* run_table.c - moves runs between the lists of the worker and keeps the counts right.
 *
 * No I/O, no locks of its own: everything happens under the worker's mutex, so that all threads see
 * a run in exactly one phase. The assertions are the drawing in run_table.h.
 *
 * No broker knows patterns when it leases, so more runs of one are leased than its limit allows.
 * Those that are likely to get a place within QN_TAKE_BACK_MS are parked, so that short runs follow
 * each other without a request in between; the others, and those that are parked for longer, go
 * aside into retry, from where every worker can take them. */
#include "worker/run/run_table.h"

#include "base/assert.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/memory/alloc.h"
#include "worker/run/mux.h"

enum {
    GLIDE = 32,
    ASIDE_MS = 500, /* a run without a place stays away for so long, and longer if there are many */
    SPREAD_MS_MAX = 30000,
    GAP_NS_MIN = 500000,  /* 2000 a second: more would only load the broker */
    GAP_NS_MAX = 20000000 /* 50 a second: another worker may have places for them */
};

void qn_run_table_init(struct qn_run_table *table, uint32_t slots)
{
    table->slots = slots;
    qn_list_init(&table->held);
    qn_list_init(&table->waiting);
    qn_list_init(&table->starting);
    qn_list_init(&table->finished);
    qn_list_init(&table->ready);
}

void qn_run_table_free_types(struct qn_run_table *table)
{
    struct qn_run_type *type = table->types;
    while (type != NULL) {
        struct qn_run_type *next = type->next;
        qn_free(type);
        type = next;
    }
    table->types = NULL;
}

static bool acks_for_child(const struct quern_run *run)
{
    return run->acks_first && run->in_child && !QN_BUG(ACKED_AHEAD);
}

static bool has_limit(const struct quern_run *run)
{
    return run->entry != NULL && (run->entry->options.concurrency > 0 || acks_for_child(run));
}

static void set_limit(struct qn_run_type *type, uint32_t slots)
{
    bool by_slots = type->own_limit == 0 || (type->is_within_slots && type->own_limit > slots);
    type->limit = by_slots ? slots : type->own_limit;
}

/* Of a run with a limit. NULL: memory is out. */
static struct qn_run_type *type_of(struct qn_run_table *table, const struct quern_run *run)
{
    uint32_t limit = run->entry->options.concurrency;
    const struct qn_mux_entry *entry = limit > 0 ? run->entry : NULL;
    struct qn_run_type *type = table->types;
    while (type != NULL && type->entry != entry) {
        type = type->next;
    }
    if (type != NULL) {
        return type;
    }
    type = qn_alloc_zero(1, sizeof *type);
    if (type != NULL) {
        type->entry = entry;
        type->own_limit = limit;
        type->is_within_slots = acks_for_child(run);
        set_limit(type, table->slots);
        qn_list_init(&type->parked);
        type->next = table->types;
        table->types = type;
    }
    return type;
}

/* As many as will find a place before they would be put aside. Those of no pattern are given back
 * instead. */
static uint32_t parked_max(const struct qn_run_type *type)
{
    if (type->entry == NULL) {
        return UINT32_MAX;
    }
    if (type->mean_ns == 0) {
        return type->limit < QN_PREFETCH_MAX ? type->limit : QN_PREFETCH_MAX;
    }
    int64_t in_time = QN_TAKE_BACK_MS * QN_NS_PER_MS / type->mean_ns * (int64_t)type->limit;
    return in_time < QN_PREFETCH_MAX ? (uint32_t)in_time : QN_PREFETCH_MAX;
}

bool qn_run_table_place(struct qn_run_table *table, struct quern_run *run)
{
    QN_ASSERT(run->phase == QN_RUN_WAITING);
    if (!has_limit(run)) {
        return true;
    }
    struct qn_run_type *type = type_of(table, run);
    if (type == NULL) {
        return false;
    }
    run->type = type;
    if (type->taken < type->limit) {
        type->taken++;
        run->place = QN_PLACE_TAKEN;
        return true;
    }
    if (type->parked_count < parked_max(type)) {
        type->parked_count++;
        table->parked_count += type->entry != NULL ? 1 : 0;
        qn_list_append(&type->parked, &run->item.node);
        run->place = QN_PLACE_PARKED;
    }
    return false;
}

/* A place is free: the run that waits longest gets it. */
static void promote(struct qn_run_table *table, struct qn_run_type *type)
{
    while (type->parked_count > 0 && type->taken < type->limit) {
        struct qn_list *node = qn_list_shift(&type->parked);
        QN_CONTAINER_OF(node, struct quern_run, item.node)->place = QN_PLACE_READY;
        qn_list_append(&table->ready, node);
        type->parked_count--;
        type->taken++;
    }
}

void qn_run_table_resize(struct qn_run_table *table, uint32_t slots)
{
    table->slots = slots;
    for (struct qn_run_type *type = table->types; type != NULL; type = type->next) {
        set_limit(type, slots);
        promote(table, type);
    }
}

static void leave_place(struct qn_run_table *table, struct quern_run *run)
{
    struct qn_run_type *type = run->type;
    switch (run->place) {
    case QN_PLACE_NONE:
        return;
    case QN_PLACE_PARKED:
        type->parked_count--;
        break;
    case QN_PLACE_READY:
    case QN_PLACE_TAKEN:
        type->taken--;
        break;
    }
    if (run->place != QN_PLACE_TAKEN) {
        qn_list_remove(&run->item.node);
        table->parked_count -= type->entry != NULL ? 1 : 0;
    }
    run->place = QN_PLACE_NONE;
    promote(table, type);
}

bool qn_run_table_take_ready(struct qn_run_table *table, int64_t now_mono_ns, struct qn_list *items)
{
    bool found = false;
    struct qn_list *node = qn_list_shift(&table->ready);
    while (node != NULL) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, item.node);
        run->place = QN_PLACE_TAKEN;
        run->leased_at_mono_ns = now_mono_ns; /* from now on it waits for a slot */
        table->parked_count -= run->type->entry != NULL ? 1 : 0;
        qn_list_append(items, node);
        found = true;
        node = qn_list_shift(&table->ready);
    }
    return found;
}

int64_t qn_run_table_aside_ms(struct qn_run_table *table, const struct quern_run *run,
                              int64_t now_mono_ns, struct qn_random *random)
{
    int64_t delay_ms = ASIDE_MS + (int64_t)qn_random_below(random, ASIDE_MS / 4);
    struct qn_run_type *type = run->type;
    if (type != NULL) {
        int64_t gap_ns = type->mean_ns / (2 * (int64_t)type->limit);
        gap_ns = gap_ns > GAP_NS_MIN ? gap_ns : GAP_NS_MIN;
        int64_t at_ns = type->back_at_mono_ns + (gap_ns < GAP_NS_MAX ? gap_ns : GAP_NS_MAX);
        at_ns = at_ns > now_mono_ns ? at_ns : now_mono_ns;
        int64_t spread_ms = (at_ns - now_mono_ns) / QN_NS_PER_MS;
        if (spread_ms < SPREAD_MS_MAX) {
            type->back_at_mono_ns = at_ns;
        }
        delay_ms += spread_ms;
    }
    int64_t back_at_ns = now_mono_ns + (delay_ms + ASIDE_MS) * QN_NS_PER_MS;
    if (back_at_ns > table->aside_until_mono_ns) {
        table->aside_until_mono_ns = back_at_ns;
    }
    return delay_ms;
}

static void count_charged(struct qn_run_table *table, const struct quern_run *run, int more)
{
    for (int64_t c = 1; c < QN_ALONE_CHARGES && c <= run->leased->level; c++) {
        table->charged[c - 1] += (uint32_t)more;
    }
}

void qn_run_table_add(struct qn_run_table *table, struct quern_run *take_run)
{
    QN_ASSERT(take_run->phase == QN_RUN_WAITING);
    qn_list_append(&table->held, &take_run->node);
    qn_list_append(&table->waiting, &take_run->phase_node);
    table->held_count++;
    table->waiting_count++;
    count_charged(table, take_run, 1);
}

void qn_run_table_take_over(struct qn_run_table *table, struct quern_run *take_run)
{
    qn_run_table_add(table, take_run);
    struct qn_run_type *type = has_limit(take_run) ? type_of(table, take_run) : NULL;
    if (type != NULL) {
        take_run->type = type;
        take_run->place = QN_PLACE_TAKEN;
        type->taken++;
    }
    take_run->submitted = true;
    qn_run_table_start(table, take_run);
}

void qn_run_table_start(struct qn_run_table *table, struct quern_run *run)
{
    QN_ASSERT(run->phase == QN_RUN_WAITING);
    qn_list_remove(&run->phase_node);
    table->waiting_count--;
    table->running_count++;
    run->phase = QN_RUN_RUNNING;
    run->references++;
    if (!run->leased->started) {
        qn_list_append(&table->starting, &run->phase_node);
    }
}

static void measure(const struct quern_run *run)
{
    if (run->type != NULL && run->ended_at_mono_ns > run->started_at_mono_ns &&
        run->started_at_mono_ns != 0) {
        int64_t run_ns = run->ended_at_mono_ns - run->started_at_mono_ns;
        int64_t mean_ns = run->type->mean_ns;
        run->type->mean_ns = mean_ns == 0 ? run_ns : mean_ns + (run_ns - mean_ns) / GLIDE;
    }
}

static void set_verdict(struct qn_run_table *table, struct quern_run *run,
                        const struct qn_verdict *verdict)
{
    qn_list_remove(&run->phase_node);
    qn_list_append(&table->finished, &run->phase_node);
    table->finished_count++;
    run->verdict = *verdict;
}

void qn_run_table_finish(struct qn_run_table *table, struct quern_run *run,
                         const struct qn_verdict *verdict)
{
    if (run->phase == QN_RUN_WAITING) {
        table->waiting_count--;
    } else {
        QN_ASSERT(run->phase == QN_RUN_RUNNING);
        table->running_count--;
    }
    run->phase = QN_RUN_FINISHED;
    measure(run);
    leave_place(table, run);
    set_verdict(table, run, verdict);
}

void qn_run_table_fence(struct qn_run_table *table, struct quern_run *run,
                        const struct qn_verdict *verdict)
{
    QN_ASSERT(run->phase == QN_RUN_RUNNING);
    table->running_count--;
    run->phase = QN_RUN_FENCED;
    leave_place(table, run);
    atomic_store(&run->abandoned, true);
    set_verdict(table, run, verdict);
}

struct quern_run *qn_run_table_take_finished(struct qn_run_table *table)
{
    struct qn_list *node = qn_list_shift(&table->finished);
    if (node == NULL) {
        return NULL;
    }
    table->finished_count--;
    return QN_CONTAINER_OF(node, struct quern_run, phase_node);
}

void qn_run_table_put_back(struct qn_run_table *table, struct quern_run *run)
{
    qn_list_append(&table->finished, &run->phase_node);
    table->finished_count++;
}

void qn_run_table_drop(struct qn_run_table *table, struct quern_run *run)
{
    QN_ASSERT(run->phase == QN_RUN_FINISHED || run->phase == QN_RUN_FENCED);
    QN_ASSERT(table->held_count > 0);
    qn_list_remove(&run->node);
    table->held_count--;
    count_charged(table, run, -1);
    qn_run_release(run);
}
