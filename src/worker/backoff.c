/* SPDX-License-Identifier: MIT */
/* backoff.c - backoff, and what is logged of an outage; see backoff.h.
 *
 * A party that ends its own outage clears the backoff of the others once: where only some calls
 * fail (a full disk can still be read) those fail again and back off further, so nobody spins. The
 * outage is over when no party that keeps trying fails any more. */
#include "worker/backoff.h"

#include "base/clock.h"
#include "task/limits.h"

#define NS_PER_MS INT64_C(1000000)
enum { DOUBLINGS_MAX = 5, TELL_EACH_MS = 60000 };

void qn_outages_init(struct qn_outages *outages, struct qn_log *log, void (*wake)(void *user),
                     void *user)
{
    *outages = (struct qn_outages){.log = log, .wake = wake, .user = user};
    (void)pthread_mutex_init(&outages->mutex, NULL);
}

void qn_outages_finish(struct qn_outages *outages)
{
    (void)pthread_mutex_destroy(&outages->mutex);
}

void qn_outage_init(struct qn_outage *outage, struct qn_outages *all)
{
    *outage = (struct qn_outage){.all = all};
    qn_random_init(&outage->random);
    (void)pthread_mutex_lock(&all->mutex);
    outage->next = all->parties;
    all->parties = outage;
    (void)pthread_mutex_unlock(&all->mutex);
}

/* With the mutex held: how many fail that keep trying. */
static size_t count_failing(const struct qn_outages *all)
{
    size_t count = 0;
    for (const struct qn_outage *party = all->parties; party != NULL; party = party->next) {
        count += atomic_load(&party->since_mono_ns) != 0 && !party->is_lazy ? 1 : 0;
    }
    return count;
}

/* With the mutex held. Whether a failure begins an outage. One whose parties are lazy or have left
 * may have ended without any of them calling again: after a minute without a failure it is over. */
static bool is_new(const struct qn_outages *all, int64_t now_mono_ns)
{
    bool is_old = now_mono_ns - all->failed_mono_ns >= TELL_EACH_MS * NS_PER_MS;
    return all->since_mono_ns == 0 || (is_old && count_failing(all) == 0);
}

/* How an outage ended, for the log; after_ms < 0: it goes on. */
struct end {
    int64_t after_ms;
    uint32_t failures;
};

/* With the mutex held. */
static struct end end_if_over(struct qn_outages *all)
{
    struct end end = {.after_ms = -1};
    if (all->since_mono_ns == 0 || count_failing(all) > 0) {
        return end;
    }
    end.after_ms = (qn_clock_mono_ns() - all->since_mono_ns) / NS_PER_MS;
    end.failures = all->failures;
    all->since_mono_ns = 0;
    all->failures = 0;
    return end;
}

static void tell_end(struct qn_outages *all, struct end end)
{
    if (end.after_ms >= 0) {
        QN_LOG(all->log, QUERN_LOG_INFO, "broker answers again",
               QN_LOG_NUMBER("after_ms", end.after_ms), QN_LOG_NUMBER("failures", end.failures));
    }
}

void qn_outage_finish(struct qn_outage *outage)
{
    struct qn_outages *all = outage->all;
    (void)pthread_mutex_lock(&all->mutex);
    struct qn_outage **at = &all->parties;
    while (*at != outage) {
        at = &(*at)->next;
    }
    *at = outage->next; /* whether it is over is not known: nobody was answered */
    (void)pthread_mutex_unlock(&all->mutex);
}

/* With the mutex held. */
static void back_off(struct qn_outage *outage, const quern_error *error, int64_t now_mono_ns)
{
    if (atomic_load(&outage->since_mono_ns) == 0 || outage->error.code != error->code) {
        outage->same_since_mono_ns = now_mono_ns;
        outage->same_count = 0;
    }
    outage->error = *error;
    outage->same_count++;
    uint32_t doublings = outage->failures < DOUBLINGS_MAX ? outage->failures : DOUBLINGS_MAX;
    uint64_t cap_ms = (uint64_t)QN_OUTAGE_MS_MIN << doublings;
    cap_ms = cap_ms < QN_OUTAGE_MS_MAX ? cap_ms : QN_OUTAGE_MS_MAX;
    int64_t delay_ms = 1 + (int64_t)qn_random_below(&outage->random, cap_ms);
    outage->failures++;
    atomic_store(&outage->retry_at_mono_ns, now_mono_ns + delay_ms * NS_PER_MS);
    if (atomic_load(&outage->since_mono_ns) == 0) {
        atomic_store(&outage->since_mono_ns, now_mono_ns);
    }
}

void qn_outage_fail(struct qn_outage *outage, const quern_error *error)
{
    struct qn_outages *all = outage->all;
    int64_t now_mono_ns = qn_clock_mono_ns();
    (void)pthread_mutex_lock(&all->mutex);
    bool begins = is_new(all, now_mono_ns);
    bool tells = begins || now_mono_ns - all->told_mono_ns >= TELL_EACH_MS * NS_PER_MS;
    all->since_mono_ns = begins ? now_mono_ns : all->since_mono_ns;
    all->told_mono_ns = tells ? now_mono_ns : all->told_mono_ns;
    all->failed_mono_ns = now_mono_ns;
    all->failures = begins ? 1 : all->failures + 1;
    int64_t since_ms = (now_mono_ns - all->since_mono_ns) / NS_PER_MS;
    back_off(outage, error, now_mono_ns);
    (void)pthread_mutex_unlock(&all->mutex);
    if (begins) { /* without a time: the call that failed may itself have waited long */
        QN_LOG(all->log, QUERN_LOG_ERROR, "broker does not answer",
               QN_LOG_TEXT("status", quern_status_name(error->code)),
               QN_LOG_TEXT("error", error->text));
    } else if (tells) {
        QN_LOG(all->log, QUERN_LOG_ERROR, "broker does not answer",
               QN_LOG_NUMBER("since_ms", since_ms),
               QN_LOG_TEXT("status", quern_status_name(error->code)),
               QN_LOG_TEXT("error", error->text));
    }
}

void qn_outage_end(struct qn_outage *outage)
{
    struct qn_outages *all = outage->all;
    if (atomic_load(&outage->since_mono_ns) == 0) {
        return;
    }
    (void)pthread_mutex_lock(&all->mutex);
    outage->failures = 0;
    atomic_store(&outage->since_mono_ns, 0);
    for (struct qn_outage *party = all->parties; party != NULL; party = party->next) {
        atomic_store(&party->retry_at_mono_ns, 0);
    }
    struct end end = end_if_over(all);
    (void)pthread_mutex_unlock(&all->mutex);
    all->wake(all->user);
    tell_end(all, end);
}

bool qn_outage_lasts(struct qn_outage *outage, quern_status status, int64_t ms, quern_error *err)
{
    (void)pthread_mutex_lock(&outage->all->mutex);
    bool lasts = atomic_load(&outage->since_mono_ns) != 0 && outage->error.code == status &&
                 outage->same_count > 2 &&
                 qn_clock_mono_ns() - outage->same_since_mono_ns >= ms * NS_PER_MS;
    if (lasts && err != NULL) {
        *err = outage->error;
    }
    (void)pthread_mutex_unlock(&outage->all->mutex);
    return lasts;
}
