/* SPDX-License-Identifier: MIT */
/* family.c - the table of series of a family; see family.h.
 *
 * Open addressing: a series is put into the first free slot behind its hash, by a compare and
 * exchange, and is never removed. Who loses the race frees its own and looks again. Threads that
 * add at the same time may exceed the bounds by one each; the table has room for that.
 *
 * A reader sees each number as it is at that moment, so the sum of a histogram may be that of a run
 * more than its buckets. */
#include "metrics/family.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/hash.h"

#define SLOTS 2048 /* a power of two; twice QN_SERIES_MAX is a third of it */
#define SLOTS_WITHOUT_LABELS 4

struct qn_series {
    uint64_t hash;
    int64_t created_at_ms;
    const char *values[QN_METRIC_LABELS_MAX]; /* behind the numbers */
    _Atomic int64_t sum;
    _Atomic uint64_t counts[]; /* of a counter one, of a histogram one for each bucket */
};

static size_t count_numbers(const struct qn_family_facts *facts)
{
    return facts->metric.kind == QN_METRIC_HISTOGRAM ? facts->bound_count + 1 : 1;
}

static bool has_values(const struct qn_family *family, const struct qn_series *series,
                       const char *const *values)
{
    for (size_t i = 0; i < family->facts->label_count; i++) {
        if (strcmp(series->values[i], values[i]) != 0) {
            return false;
        }
    }
    return true;
}

static struct qn_series *make(const struct qn_family *family, const char *const *values,
                              uint64_t hash)
{
    size_t head_size =
        sizeof(struct qn_series) + count_numbers(family->facts) * sizeof(_Atomic uint64_t);
    size_t text_size = 0;
    for (size_t i = 0; i < family->facts->label_count; i++) {
        text_size += strlen(values[i]) + 1;
    }
    struct qn_series *series = qn_alloc_zero(1, head_size + text_size);
    if (series == NULL) {
        return NULL;
    }
    char *text = (char *)series + head_size;
    series->hash = hash;
    series->created_at_ms = qn_clock_wall_ms(qn_clock_system());
    for (size_t i = 0; i < family->facts->label_count; i++) {
        size_t size = strlen(values[i]) + 1;
        memcpy(text, values[i], size);
        series->values[i] = text;
        text += size;
    }
    return series;
}

/* The series with these values; where there is none, a new one if `makes`. NULL: none, or no
 * memory. */
static struct qn_series *look_up(struct qn_family *family, const char *const *values, bool makes)
{
    uint64_t hash = QN_HASH_START;
    struct qn_series *made = NULL;
    for (size_t i = 0; i < family->facts->label_count; i++) {
        hash = qn_hash_part(hash, values[i], strlen(values[i]));
    }
    size_t at = (size_t)hash & family->slot_mask;
    for (size_t tries = 0; tries <= family->slot_mask;) {
        struct qn_series *series = atomic_load_explicit(&family->slots[at], memory_order_acquire);
        if (series == NULL) {
            made = made != NULL || !makes ? made : make(family, values, hash);
            if (made == NULL) {
                return NULL;
            }
            if (atomic_compare_exchange_strong(&family->slots[at], &series, made)) {
                (void)atomic_fetch_add(&family->count, 1);
                return made;
            }
            continue; /* another thread was first: with these values? */
        }
        if (series->hash == hash && has_values(family, series, values)) {
            qn_free(made);
            return series;
        }
        at = (at + 1) & family->slot_mask;
        tries++;
    }
    qn_free(made);
    return NULL;
}

/* What a new series is counted as. */
static struct qn_series *find_other(struct qn_family *family, const char *const *values)
{
    const struct qn_family_facts *facts = family->facts;
    bool is_full = atomic_load(&family->count) >= (size_t)QN_SERIES_MAX * 2;
    const char *others[QN_METRIC_LABELS_MAX];
    for (size_t i = 0; i < QN_METRIC_LABELS_MAX; i++) {
        bool is_other = is_full || i == facts->open_label || i >= facts->label_count;
        others[i] = is_other ? QN_SERIES_OTHER : values[i];
    }
    return look_up(family, others, true);
}

static struct qn_series *find(struct qn_family *family, const char *const *values)
{
    struct qn_series *latest = atomic_load_explicit(&family->latest, memory_order_acquire);
    if (latest != NULL && has_values(family, latest, values)) {
        return latest;
    }
    bool has_room = atomic_load(&family->count) < QN_SERIES_MAX;
    struct qn_series *series = look_up(family, values, has_room);
    if (series == NULL && !has_room) {
        series = find_other(family, values);
    }
    if (series == NULL) {
        (void)atomic_fetch_add(&family->lost, 1);
    } else {
        atomic_store_explicit(&family->latest, series, memory_order_release);
    }
    return series;
}

quern_status qn_family_init(struct qn_family *family, const struct qn_family_facts *facts,
                            quern_error *err)
{
    size_t slots = facts->label_count == 0 ? SLOTS_WITHOUT_LABELS : SLOTS;
    *family = (struct qn_family){.facts = facts, .slot_mask = slots - 1};
    family->slots = qn_alloc_zero(slots, sizeof *family->slots);
    if (family->slots == NULL || (facts->label_count == 0 && look_up(family, NULL, true) == NULL)) {
        return qn_error_nomem(err);
    }
    return QUERN_OK;
}

void qn_family_finish(struct qn_family *family)
{
    for (size_t i = 0; family->slots != NULL && i <= family->slot_mask; i++) {
        qn_free(atomic_load(&family->slots[i]));
    }
    qn_free(family->slots);
    family->slots = NULL;
}

void qn_family_add(struct qn_family *family, const char *const *values, uint64_t count)
{
    struct qn_series *series = find(family, values);
    if (series != NULL) {
        (void)atomic_fetch_add_explicit(&series->counts[0], count, memory_order_relaxed);
    }
}

void qn_family_observe(struct qn_family *family, const char *const *values, int64_t number)
{
    const struct qn_family_facts *facts = family->facts;
    struct qn_series *series = find(family, values);
    size_t bucket = 0;
    number = number < 0 ? 0 : number;
    if (series == NULL) {
        return;
    }
    while (bucket < facts->bound_count && number > facts->bounds[bucket]) {
        bucket++;
    }
    (void)atomic_fetch_add_explicit(&series->counts[bucket], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&series->sum, number, memory_order_relaxed);
}

static void render_series(const struct qn_family *family, struct qn_series *series,
                          struct qn_exposition *exposition)
{
    const struct qn_family_facts *facts = family->facts;
    struct qn_metric_label labels[QN_METRIC_LABELS_MAX];
    uint64_t counts[QN_METRIC_BOUNDS_MAX + 1];
    for (size_t i = 0; i < facts->label_count; i++) {
        labels[i] = (struct qn_metric_label){facts->labels[i], series->values[i]};
    }
    for (size_t i = 0; i < count_numbers(facts); i++) {
        counts[i] = atomic_load_explicit(&series->counts[i], memory_order_relaxed);
    }
    const struct qn_metric_labels all = {labels, facts->label_count};
    if (facts->metric.kind == QN_METRIC_HISTOGRAM) {
        const struct qn_metric_buckets buckets = {.bounds = facts->bounds,
                                                  .counts = counts,
                                                  .bound_count = facts->bound_count,
                                                  .sum = atomic_load(&series->sum)};
        qn_exposition_histogram(exposition, all, &buckets);
    } else {
        qn_exposition_sample(exposition, all, (int64_t)counts[0]);
    }
    qn_exposition_created(exposition, all, series->created_at_ms);
}

void qn_family_render(struct qn_family *family, struct qn_exposition *exposition)
{
    if (atomic_load(&family->count) == 0) {
        return;
    }
    qn_exposition_family(exposition, &family->facts->metric);
    for (size_t i = 0; i <= family->slot_mask; i++) {
        struct qn_series *series = atomic_load_explicit(&family->slots[i], memory_order_acquire);
        if (series != NULL) {
            render_series(family, series, exposition);
        }
    }
}

uint64_t qn_family_lost(const struct qn_family *family)
{
    return atomic_load(&family->lost);
}
