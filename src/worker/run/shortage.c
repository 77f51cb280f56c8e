/* SPDX-License-Identifier: MIT */
/* shortage.c - when commands cannot be started: pauses, and a line when it begins and ends.
 *
 * Runs that fail within a pause were fetched before it, so they do not make it longer. The shortage
 * ends when a run was started and none was refused for CALM_MS. */
#include "worker/run/shortage.h"

#include "worker/internal.h"

enum { PAUSE_MS_MIN = 100, PAUSE_MS_MAX = 10000, CALM_MS = 2000, LOG_EACH_MS = 60000 };

/* With mutex held. Returns whether it is to be logged. */
static bool begin_pause(struct qn_shortage *shortage, int64_t now_mono_ns)
{
    if (!atomic_load(&shortage->active)) {
        atomic_store(&shortage->active, true);
        shortage->since_mono_ns = now_mono_ns;
        shortage->resumed_at_mono_ns = now_mono_ns;
        shortage->logged_at_mono_ns = now_mono_ns - LOG_EACH_MS * QN_NS_PER_MS;
    }
    if (!shortage->pauses) {
        int64_t pause_ms = shortage->pause_ms == 0 ? PAUSE_MS_MIN : 2 * shortage->pause_ms;
        shortage->pause_ms = qn_earlier(pause_ms, PAUSE_MS_MAX);
        shortage->until_mono_ns = now_mono_ns + shortage->pause_ms * QN_NS_PER_MS;
        shortage->pauses = true;
    }
    shortage->failed_at_mono_ns = now_mono_ns;
    shortage->given_back++;
    bool logs = now_mono_ns - shortage->logged_at_mono_ns >= LOG_EACH_MS * QN_NS_PER_MS;
    shortage->logged_at_mono_ns = logs ? now_mono_ns : shortage->logged_at_mono_ns;
    return logs;
}

static void note_not_started(struct quern_worker *worker, const struct quern_run *run)
{
    struct qn_shortage *shortage = &worker->shortage;
    int64_t now_mono_ns = qn_clock_mono_ns();
    (void)pthread_mutex_lock(&worker->mutex);
    bool logs = begin_pause(shortage, now_mono_ns);
    int64_t for_s = (now_mono_ns - shortage->since_mono_ns) / QN_NS_PER_MS / 1000;
    uint64_t given_back = shortage->given_back;
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_signals_wake_main(worker);
    if (logs) {
        QN_LOG(&worker->log, QUERN_LOG_WARN,
               "commands cannot be started, their tasks are given back and fetching pauses",
               QN_LOG_NUMBER("for_s", for_s), QN_LOG_NUMBER("given_back", given_back),
               QN_LOG_TEXT("error", run->error));
    }
}

/* A command that was started before the latest refusal proves nothing. One that was started since
 * the last pause proves that some can be started, so pauses begin at the shortest again. */
static void note_started(struct quern_worker *worker, const struct quern_run *run)
{
    struct qn_shortage *shortage = &worker->shortage;
    int64_t now_mono_ns = qn_clock_mono_ns();
    (void)pthread_mutex_lock(&worker->mutex);
    bool is_news = run->started_at_mono_ns > shortage->failed_at_mono_ns;
    bool ends = is_news && atomic_load(&shortage->active) && !shortage->pauses &&
                now_mono_ns - shortage->failed_at_mono_ns >= CALM_MS * QN_NS_PER_MS;
    uint64_t given_back = shortage->given_back;
    bool some_start = run->started_at_mono_ns > shortage->resumed_at_mono_ns;
    shortage->pause_ms = some_start ? 0 : shortage->pause_ms;
    if (ends) {
        atomic_store(&shortage->active, false);
        shortage->given_back = 0;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (ends) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "commands can be started again",
               QN_LOG_NUMBER("given_back", given_back));
    }
}

void qn_shortage_note(struct quern_worker *worker, const struct quern_run *run)
{
    if (run->not_started) {
        note_not_started(worker, run);
    } else if (atomic_load(&worker->shortage.active)) {
        note_started(worker, run);
    }
}

bool qn_shortage_pauses(const struct quern_worker *worker, int64_t now_mono_ns)
{
    return worker->shortage.pauses && now_mono_ns < worker->shortage.until_mono_ns;
}

int64_t qn_shortage_watch(struct quern_worker *worker)
{
    struct qn_shortage *shortage = &worker->shortage;
    (void)pthread_mutex_lock(&worker->mutex);
    int64_t left_ns = shortage->until_mono_ns - qn_clock_mono_ns();
    bool pauses = shortage->pauses;
    if (pauses && left_ns <= 0) {
        shortage->pauses = false;
        shortage->resumed_at_mono_ns = qn_clock_mono_ns();
        worker->look = true;
        qn_signals_wake_pump(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return pauses && left_ns > 0 ? left_ns / QN_NS_PER_MS + 1 : -1;
}
