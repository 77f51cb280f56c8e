/* SPDX-License-Identifier: MIT */
/* beats.c - the signs of life of a worker's threads; see beats.h. */
#include "worker/liveness/beats.h"

#include "base/bug.h"
#include "worker/internal.h"

static const char *const names[QN_BEAT_COUNT] = {
    [QN_BEAT_PUMP] = "pump",     [QN_BEAT_SECOND] = "second pump", [QN_BEAT_LEASES] = "leases",
    [QN_BEAT_KEEPER] = "keeper", [QN_BEAT_LISTENER] = "listener",
};

void qn_beats_step(struct quern_worker *worker, enum qn_beat thread)
{
    /* In this order: who reads that it is awake reads since when, too. */
    atomic_store(&worker->beats.threads[thread].at_mono_ns, qn_clock_mono_ns());
    atomic_store(&worker->beats.threads[thread].until_mono_ns, 0);
}

void qn_beats_sleep(struct quern_worker *worker, enum qn_beat thread, int64_t until_mono_ns)
{
    atomic_store(&worker->beats.threads[thread].at_mono_ns, qn_clock_mono_ns());
    atomic_store(&worker->beats.threads[thread].until_mono_ns, until_mono_ns);
}

void qn_beats_end(struct quern_worker *worker, enum qn_beat thread)
{
    atomic_store(&worker->beats.threads[thread].at_mono_ns, 0);
}

void qn_beats_ask(struct quern_worker *worker, bool asks)
{
    struct qn_beats *beats = &worker->beats;
    if (!asks) {
        atomic_store(&beats->asks_since_mono_ns, 0);
    } else if (atomic_load(&beats->asks_since_mono_ns) == 0) {
        atomic_store(&beats->asks_since_mono_ns, qn_clock_mono_ns());
    }
}

void qn_beats_answered(struct quern_worker *worker)
{
    atomic_store(&worker->beats.answered_at_mono_ns, qn_clock_mono_ns());
}

int64_t qn_beats_hang_ms(const struct quern_worker *worker, int64_t now_mono_ns,
                         const char **ret_name)
{
    int64_t limit_ms = worker->options.stall_timeout_ms + 2 * (worker->options.lease_ms / 3);
    int64_t longest_ms = 0;
    for (size_t i = 0; worker->options.stall_timeout_ms > 0 && i < QN_BEAT_COUNT; i++) {
        int64_t until = atomic_load(&worker->beats.threads[i].until_mono_ns);
        int64_t at = atomic_load(&worker->beats.threads[i].at_mono_ns);
        int64_t from = until > at ? until : at;
        int64_t late_ms = (now_mono_ns - from) / QN_NS_PER_MS;
        if (at != 0 && late_ms > limit_ms && late_ms > longest_ms) {
            longest_ms = late_ms;
            *ret_name = names[i];
        }
    }
    return longest_ms;
}

int64_t qn_beats_silence_ms(const struct quern_worker *worker, int64_t now_mono_ns)
{
    const struct qn_beats *beats = &worker->beats;
    int64_t asks_since = atomic_load(&beats->asks_since_mono_ns);
    int64_t answered_at = atomic_load(&beats->answered_at_mono_ns);
    int64_t any_at = atomic_load(&worker->backoffs.answered_at_mono_ns);
    int64_t since = asks_since > answered_at ? asks_since : answered_at;
    int64_t of_pump_ns = asks_since == 0 ? 0 : now_mono_ns - since;
    int64_t of_all_ns = any_at == 0 ? 0 : now_mono_ns - any_at;
    return (of_pump_ns > of_all_ns ? of_pump_ns : of_all_ns) / QN_NS_PER_MS;
}

bool qn_beats_has_stalled(const struct quern_worker *worker, int64_t now_mono_ns)
{
    const char *name = NULL;
    int64_t timeout_ms = worker->options.stall_timeout_ms;
    return timeout_ms > 0 && !QN_BUG(STALL_UNNOTICED) &&
           (qn_backoff_refusal(&worker->pump.backoff) != QUERN_OK ||
            qn_beats_silence_ms(worker, now_mono_ns) >= timeout_ms ||
            qn_beats_hang_ms(worker, now_mono_ns, &name) > 0);
}
