/* SPDX-License-Identifier: MIT */
/* backoff.c - how long to wait between attempts, and the log lines of an outage; see backoff.h.
 *
 * The end of one backoff clears those of all others, once. Where only some calls fail (a full disk
 * can still be read) these fail again and back off further, so no thread spins. The outage has
 * ended when no member that keeps trying fails any more. */
#include "worker/backoff.h"

#include "base/bug.h"
#include "base/clock.h"

enum { LOG_EACH_MS = 60000 };

void qn_backoff_group_init(struct qn_backoff_group *group, struct qn_log *log,
                           void (*wake)(void *user), void *user)
{
    *group = (struct qn_backoff_group){.log = log, .wake = wake, .user = user};
    (void)pthread_mutex_init(&group->mutex, NULL);
}

void qn_backoff_group_finish(struct qn_backoff_group *group)
{
    (void)pthread_mutex_destroy(&group->mutex);
}

void qn_backoff_init(struct qn_backoff *backoff, struct qn_backoff_group *group)
{
    *backoff = (struct qn_backoff){.group = group};
    qn_random_init(&backoff->random);
    (void)pthread_mutex_lock(&group->mutex);
    backoff->next = group->members;
    group->members = backoff;
    (void)pthread_mutex_unlock(&group->mutex);
}

/* With the mutex held: how many members that keep trying fail. */
static size_t count_failing(const struct qn_backoff_group *group)
{
    size_t count = 0;
    for (const struct qn_backoff *member = group->members; member != NULL; member = member->next) {
        count += atomic_load(&member->since_mono_ns) != 0 && !member->is_lazy ? 1 : 0;
    }
    return count;
}

/* With the mutex held. Whether a failure begins an outage. Where all members are lazy or have left,
 * an outage may end without a call of theirs: after a minute without a failure it has ended. */
static bool is_new(const struct qn_backoff_group *group, int64_t now_mono_ns)
{
    bool is_old = now_mono_ns - group->failed_mono_ns >= LOG_EACH_MS * QN_NS_PER_MS;
    return group->since_mono_ns == 0 || (is_old && count_failing(group) == 0);
}

/* How an outage ended, for the log; after_ms < 0: it continues. */
struct end {
    int64_t after_ms;
    uint32_t failures;
};

/* With the mutex held. */
static struct end end_if_over(struct qn_backoff_group *group)
{
    struct end end = {.after_ms = -1};
    if (group->since_mono_ns == 0 || count_failing(group) > 0) {
        return end;
    }
    end.after_ms = (qn_clock_mono_ns() - group->since_mono_ns) / QN_NS_PER_MS;
    end.failures = group->failures;
    group->since_mono_ns = 0;
    group->failures = 0;
    (void)atomic_fetch_add(&group->returned_total, 1);
    return end;
}

static void log_end(struct qn_backoff_group *group, struct end end)
{
    if (end.after_ms >= 0) {
        QN_LOG(group->log, QUERN_LOG_INFO, "broker answers again",
               QN_LOG_NUMBER("after_ms", end.after_ms), QN_LOG_NUMBER("failures", end.failures));
    }
}

void qn_backoff_finish(struct qn_backoff *backoff)
{
    struct qn_backoff_group *group = backoff->group;
    (void)pthread_mutex_lock(&group->mutex);
    struct qn_backoff **at = &group->members;
    while (*at != backoff) {
        at = &(*at)->next;
    }
    *at = backoff->next; /* whether the outage has ended is not known: there was no answer */
    (void)pthread_mutex_unlock(&group->mutex);
}

static bool is_refusal(quern_status status)
{
    return status == QUERN_E_DENIED || status == QUERN_E_BROKER;
}

/* With the mutex held. */
static void back_off(struct qn_backoff *backoff, const quern_error *error, int64_t now_mono_ns)
{
    if (atomic_load(&backoff->since_mono_ns) == 0 || backoff->error.code != error->code) {
        backoff->same_since_mono_ns = now_mono_ns;
        backoff->same_count = 0;
    }
    backoff->error = *error;
    backoff->same_count++;
    bool refused = is_refusal(error->code) && backoff->same_count > 2 && !QN_BUG(REFUSAL_UNNOTICED);
    atomic_store(&backoff->refusal, refused ? (int)error->code : QUERN_OK);
    int64_t delay_ms = qn_pace_next_ms(&backoff->group->pace, backoff->failures, &backoff->random);
    backoff->failures++;
    atomic_store(&backoff->retry_at_mono_ns, now_mono_ns + delay_ms * QN_NS_PER_MS);
    if (atomic_load(&backoff->since_mono_ns) == 0) {
        atomic_store(&backoff->since_mono_ns, now_mono_ns);
    }
}

/* since_ms < 0: it begins, without a time: the call that failed may itself have waited long. */
static void log_failure(struct qn_backoff_group *group, const quern_error *error, int64_t since_ms)
{
    bool refused = is_refusal(error->code);
    if (since_ms < 0) {
        QN_LOG(group->log, QUERN_LOG_ERROR,
               refused ? "broker refuses this worker" : "broker does not answer",
               QN_LOG_TEXT("status", quern_status_name(error->code)),
               QN_LOG_TEXT("error", error->text));
    } else {
        QN_LOG(group->log, QUERN_LOG_ERROR,
               refused ? "broker refuses this worker" : "broker does not answer",
               QN_LOG_NUMBER("since_ms", since_ms),
               QN_LOG_TEXT("status", quern_status_name(error->code)),
               QN_LOG_TEXT("error", error->text));
    }
}

/* With the mutex held. Whether this failure is the first that says why there is no connection, in
 * an outage that began with the loss of one. */
static bool explains(struct qn_backoff_group *group, const quern_error *error, bool begins)
{
    if (begins) {
        group->is_unexplained = error->code == QUERN_E_UNKNOWN;
        return false;
    }
    bool explains = group->is_unexplained && error->code == QUERN_E_CONNECT;
    group->is_unexplained = group->is_unexplained && !explains;
    return explains;
}

void qn_backoff_fail(struct qn_backoff *backoff, const quern_error *error)
{
    struct qn_backoff_group *group = backoff->group;
    int64_t now_mono_ns = qn_clock_mono_ns();
    (void)pthread_mutex_lock(&group->mutex);
    bool begins = is_new(group, now_mono_ns);
    bool turns = is_refusal(error->code) && (begins || !group->refused);
    bool logs =
        begins || turns || now_mono_ns - group->logged_mono_ns >= LOG_EACH_MS * QN_NS_PER_MS;
    bool is_reason = explains(group, error, begins) && !logs && !QN_BUG(REASON_UNLOGGED);
    group->since_mono_ns = begins ? now_mono_ns : group->since_mono_ns;
    group->logged_mono_ns = logs ? now_mono_ns : group->logged_mono_ns;
    group->failed_mono_ns = now_mono_ns;
    (void)atomic_fetch_add(&group->failed_total, 1);
    group->witnessed_since_mono_ns = backoff->is_witness ? 0 : group->witnessed_since_mono_ns;
    group->failures = begins ? 1 : group->failures + 1;
    group->refused = turns || (!begins && group->refused);
    int64_t since_ms = (now_mono_ns - group->since_mono_ns) / QN_NS_PER_MS;
    back_off(backoff, error, now_mono_ns);
    (void)pthread_mutex_unlock(&group->mutex);
    if (logs) {
        log_failure(group, error, begins ? -1 : since_ms);
    }
    if (is_reason) {
        QN_LOG(group->log, QUERN_LOG_ERROR, "no connection to the broker",
               QN_LOG_TEXT("error", error->text));
    }
}

static void note_witness(struct qn_backoff_group *group, int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&group->mutex);
    if (group->witnessed_since_mono_ns == 0) {
        group->witnessed_since_mono_ns = now_mono_ns;
    }
    (void)pthread_mutex_unlock(&group->mutex);
}

void qn_backoff_end(struct qn_backoff *backoff)
{
    struct qn_backoff_group *group = backoff->group;
    int64_t now_mono_ns = qn_clock_mono_ns();
    atomic_store(&group->answered_at_mono_ns, now_mono_ns);
    if (backoff->is_witness) {
        note_witness(group, now_mono_ns);
    }
    if (atomic_load(&backoff->since_mono_ns) == 0) {
        return;
    }
    (void)pthread_mutex_lock(&group->mutex);
    backoff->failures = 0;
    atomic_store(&backoff->refusal, QUERN_OK);
    atomic_store(&backoff->since_mono_ns, 0);
    for (struct qn_backoff *member = group->members; member != NULL; member = member->next) {
        atomic_store(&member->retry_at_mono_ns, 0);
    }
    struct end end = end_if_over(group);
    (void)pthread_mutex_unlock(&group->mutex);
    group->wake(group->user);
    log_end(group, end);
}

bool qn_backoff_lasts(struct qn_backoff *backoff, quern_status status, int64_t ms, quern_error *err)
{
    (void)pthread_mutex_lock(&backoff->group->mutex);
    bool lasts = atomic_load(&backoff->since_mono_ns) != 0 && backoff->error.code == status &&
                 backoff->same_count > 2 &&
                 qn_clock_mono_ns() - backoff->same_since_mono_ns >= ms * QN_NS_PER_MS;
    if (lasts && err != NULL) {
        *err = backoff->error;
    }
    (void)pthread_mutex_unlock(&backoff->group->mutex);
    return lasts;
}

static bool is_silence(quern_status status)
{
    return status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT || status == QUERN_E_UNKNOWN;
}

bool qn_backoff_has_tried(struct qn_backoff *backoff, quern_error *err)
{
    struct qn_backoff_group *group = backoff->group;
    (void)pthread_mutex_lock(&group->mutex);
    bool has_tried =
        atomic_load(&backoff->since_mono_ns) != 0 && qn_pace_ends(&group->pace, backoff->failures);
    if (has_tried) {
        *err = backoff->error;
        err->code = is_silence(err->code) ? QUERN_E_CONNECT : err->code;
    }
    (void)pthread_mutex_unlock(&group->mutex);
    return has_tried;
}

quern_status qn_backoff_refusal(const struct qn_backoff *backoff)
{
    return (quern_status)atomic_load(&backoff->refusal);
}

bool qn_backoff_is_alone(struct qn_backoff *backoff, int64_t ms)
{
    struct qn_backoff_group *group = backoff->group;
    (void)pthread_mutex_lock(&group->mutex);
    int64_t since = atomic_load(&backoff->since_mono_ns);
    int64_t before = qn_clock_mono_ns() - ms * QN_NS_PER_MS;
    bool is_alone = since != 0 && since <= before && is_silence(backoff->error.code) &&
                    group->witnessed_since_mono_ns != 0 && group->witnessed_since_mono_ns <= before;
    (void)pthread_mutex_unlock(&group->mutex);
    return is_alone;
}
