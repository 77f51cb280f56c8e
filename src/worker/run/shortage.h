/* SPDX-License-Identifier: MIT */
/* shortage.h - the system refuses processes or descriptors for commands.
 *
 * That is no fault of any task: its run is given back, nothing is counted, and fetching pauses for
 * 100 ms, then twice as long each time, up to 10 s, until a command can be started again: also
 * where the system allows some, but fewer than there are slots. It is logged when it begins, each
 * minute, and when it ends. */
#ifndef QN_WORKER_RUN_SHORTAGE_H
#define QN_WORKER_RUN_SHORTAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct quern_worker;
struct quern_run;

struct qn_shortage {
    _Atomic bool active; /* written with the worker's mutex held, which guards the rest */
    bool pauses;         /* until until_mono_ns nothing is fetched */
    int64_t until_mono_ns;
    int64_t failed_at_mono_ns;
    int64_t resumed_at_mono_ns; /* when the last pause ended, at first when the shortage began */
    int64_t since_mono_ns;
    int64_t logged_at_mono_ns;
    int64_t pause_ms;
    uint64_t given_back;
};

/* The handler of this run has returned. Without the mutex. */
void qn_shortage_note(struct quern_worker *worker, const struct quern_run *run);
/* With mutex held. */
bool qn_shortage_pauses(const struct quern_worker *worker, int64_t now_mono_ns);
/* Lets the pump fetch again when the pause has ended. Returns after how many ms to call it again;
 * -1: there is no pause. Without the mutex. */
int64_t qn_shortage_watch(struct quern_worker *worker);

#endif
