/* SPDX-License-Identifier: MIT */
/* brake.h - stops fetching when run after run crashes: a broken deploy must not empty a queue into
 * the archive.
 *
 *   off -- streak at QN_BRAKE_CRASHES --> waiting (1 s, doubling to 60 s) -- time --> probing
 *    ^                                       ^------ the probe crashed too --------------|
 *    '------------------------ streak broken --------------------------------------------'
 *
 * Pure; one thread at a time (the turn of the pump). */
#ifndef QN_WORKER_BRAKE_H
#define QN_WORKER_BRAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qn_brake_state { QN_BRAKE_OFF, QN_BRAKE_WAITING, QN_BRAKE_PROBING };

/* A zeroed struct is a brake that is off. */
struct qn_brake {
    enum qn_brake_state state;
    int64_t delay_ms;
    int64_t until_mono_ns; /* waiting: when to probe */
    bool probe_leased;
};

/* What an exchange said: the longest streak of the queues, how many runs it leased, and how many
 * the worker held before. True when the brake was pulled, pulled again, or let go. */
bool qn_brake_note(struct qn_brake *brake, uint32_t streak, size_t leased, size_t held,
                   int64_t now_mono_ns);
/* Cuts `room`: 0 while waiting, 1 for the probe. */
uint32_t qn_brake_room(struct qn_brake *brake, uint32_t room, size_t held, int64_t now_mono_ns);

#endif
