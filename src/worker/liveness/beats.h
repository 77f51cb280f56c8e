/* SPDX-License-Identifier: MIT */
/* beats.h - the signs of life of a worker's threads.
 *
 * Each thread notes when it begins a step and until when it sleeps. A step makes one call of the
 * broker, which ends within the time of a command, so a thread that is late by more than that and
 * the stall timeout hangs. All of it is atomic, because the reader must not wait for a lock that
 * such a thread may hold. */
#ifndef QN_WORKER_LIVENESS_BEATS_H
#define QN_WORKER_LIVENESS_BEATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct quern_worker;

enum qn_beat {
    QN_BEAT_PUMP,
    QN_BEAT_SECOND,
    QN_BEAT_LEASES,
    QN_BEAT_KEEPER,
    QN_BEAT_LISTENER,
    QN_BEAT_COUNT
};

struct qn_beats {
    struct {
        _Atomic int64_t at_mono_ns;    /* 0: there is no such thread */
        _Atomic int64_t until_mono_ns; /* until when it sleeps; 0: it is awake */
    } threads[QN_BEAT_COUNT];
    _Atomic int64_t asks_since_mono_ns;  /* the pump needs an answer of the broker since then; 0: it
                                         * has nothing to ask */
    _Atomic int64_t answered_at_mono_ns; /* when it last had one; 0: never */
};

/* The thread is awake, and begins a step. */
void qn_beats_step(struct quern_worker *worker, enum qn_beat thread);
/* It sleeps until then (INT64_MAX: until it is woken), or waits for that long. */
void qn_beats_sleep(struct quern_worker *worker, enum qn_beat thread, int64_t until_mono_ns);
/* It ends. */
void qn_beats_end(struct quern_worker *worker, enum qn_beat thread);

/* The pump needs an answer; or does not, as it has neither outcomes nor room. */
void qn_beats_ask(struct quern_worker *worker, bool asks);
/* It has got one. */
void qn_beats_answered(struct quern_worker *worker);

/* How long a thread hangs, in ms, with its name; 0: none does. */
int64_t qn_beats_hang_ms(const struct quern_worker *worker, int64_t now_mono_ns,
                         const char **ret_name);
/* How long the broker has left the pump, or all threads, without an answer. */
int64_t qn_beats_silence_ms(const struct quern_worker *worker, int64_t now_mono_ns);
/* Whether that is longer than the stall timeout, or a thread hangs. */
bool qn_beats_has_stalled(const struct quern_worker *worker, int64_t now_mono_ns);

#endif
