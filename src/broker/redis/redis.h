/* SPDX-License-Identifier: MIT */
/* redis.h - what the files of the Redis broker share: its struct and its channels.
 *
 * A channel is one connection with its own lock, opened when it is first used. PUMP carries what a
 * start waits for, SECOND under load every other exchange, LEASES what keeps leases alive and
 * nothing else, KEEPER the rest of a worker's upkeep, REST everything else, so that no long look
 * and no large result delays the others. TRACKED and the listener are a pair that hears of news
 * (listener.h).
 *
 * An operation is one pipeline (pipeline.h) on one channel: scripts and commands sent in one write,
 * all replies read. The scripts are the .lua files beside this one; docs/protocol/redis.md says
 * what they keep where, and is the contract of all files here. */
#ifndef QN_BROKER_REDIS_REDIS_H
#define QN_BROKER_REDIS_REDIS_H

#include "base/text/url.h"
#include "broker/broker.h"
#include "broker/redis/upkeep/recover.h"
#include "broker/redis/wake/listener.h"
#include "redis/pipeline.h"
#include "task/limits.h"

/* TRACKED is arm's alone: whatever is read on it wakes the worker when it changes (listener.h). */
enum qn_channel_kind {
    QN_CHANNEL_PUMP,
    QN_CHANNEL_SECOND,
    QN_CHANNEL_LEASES, /* nothing else may hold up an extension */
    QN_CHANNEL_KEEPER,
    QN_CHANNEL_REST,
    QN_CHANNEL_TRACKED,
    QN_CHANNEL_COUNT
};

/* What prune and recover know of the server's clock, each for itself; see there. */
struct qn_clock_watch {
    bool seen;
    bool jumped;
    int64_t offset_ms; /* against our clock since boot */
    int64_t jumped_at_boot_ms;
    int64_t heard_at_mono_ns; /* recover: when the server last answered; 0: never */
    int64_t back_at_mono_ns;  /* and when it did so after a silence; 0: never */
};

struct qn_redis {
    struct qn_broker base;
    struct qn_endpoint endpoint; /* where and as whom to connect; never changes after open */
    struct qn_channel channels[QN_CHANNEL_COUNT];
    struct qn_redis_listener listener;
    uint64_t
        extend_known_by; /* the connection (opened_count) that has had the script; by its channel */
    struct qn_clock_watch prune_clock;           /* guarded by the mutex of the keeper's channel */
    struct qn_clock_watch recover_clock;         /* guarded by the mutex of the rest channel */
    struct qn_recovery_cursor *recovery_cursors; /* of recover; the same */
};

static inline struct qn_redis *qn_redis_of(struct qn_broker *broker)
{
    return (struct qn_redis *)(void *)broker;
}

/* Begins a pipeline on one of the channels. */
static inline void qn_redis_begin(struct qn_pipeline *pipeline, struct qn_redis *self,
                                  enum qn_channel_kind channel, enum qn_pipeline_kind kind)
{
    qn_pipeline_begin(pipeline, &self->channels[channel], kind);
}

/* url: parsed, with one of the schemes "redis" and "redis-socket". Connects once, so that what is
 * wrong with the URL, the password or the server is told here. */
QUERN_NODISCARD quern_status qn_redis_open(const struct qn_url *url,
                                           const struct qn_broker_options *options,
                                           struct qn_broker **ret_broker, quern_error *err);
void qn_redis_close(struct qn_broker *broker);

/* Adds the server's limit to an error that says that its memory is full; no pipeline is under way.
 * */
void qn_redis_explain_full(struct qn_redis *self, quern_error *err);

/* --- The operations; each in the file of its name, with the contract of broker.h ------- */

quern_status qn_redis_enqueue(struct qn_broker *broker, struct qn_stamp stamp,
                              const struct qn_task *tasks, size_t count, quern_status *results,
                              quern_error *err);
void qn_redis_wake(struct qn_broker *broker);
quern_status qn_redis_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                               struct qn_exchange_reply *reply, quern_error *err);
quern_status qn_redis_extend(struct qn_broker *broker, struct qn_extension *extensions,
                             size_t count, int64_t lease_ms, quern_error *err);
quern_status qn_redis_write_result(struct qn_broker *broker, const struct qn_leased *run,
                                   const void *data, size_t size, quern_error *err);
quern_status qn_redis_write_progress(struct qn_broker *broker, const struct qn_leased *run,
                                     int32_t percent, const char *note, quern_error *err);
quern_status qn_redis_forward(struct qn_broker *broker, const char *const *queues,
                              size_t queue_count, size_t limit, size_t *ret_moved,
                              int64_t *ret_next_due_at_ms, quern_error *err);
quern_status qn_redis_recover(struct qn_broker *broker, const char *const *queues,
                              size_t queue_count, size_t limit,
                              void (*on_recovery)(const struct qn_recovery *recovery, void *user),
                              void *user, size_t *ret_recovered, quern_error *err);
quern_status qn_redis_prune(struct qn_broker *broker, const char *const *queues, size_t queue_count,
                            size_t limit, size_t *ret_removed, quern_error *err);
quern_status qn_redis_arm(struct qn_broker *broker, const char *const *queues, size_t queue_count,
                          bool *ret_work, int64_t *ret_next_due_at_ms, quern_error *err);
quern_status qn_redis_wait(struct qn_broker *broker, int64_t timeout_ms,
                           struct qn_wakeup *ret_wakeup, quern_error *err);
void qn_redis_interrupt(struct qn_broker *broker);
quern_status qn_redis_heartbeat(struct qn_broker *broker, const struct qn_heartbeat *announcement,
                                quern_error *err);
quern_status qn_redis_deregister(struct qn_broker *broker, const char *worker_id, quern_error *err);
quern_status qn_redis_drained(struct qn_broker *broker, const char *const *queues,
                              size_t queue_count, bool *ret_drained, quern_error *err);
quern_status qn_redis_queues(struct qn_broker *broker,
                             bool (*on_queue)(const quern_queue_info *queue, void *user),
                             void *user, quern_error *err);
quern_status qn_redis_tasks(struct qn_broker *broker, const quern_task_filter *filter,
                            bool (*on_task)(const quern_task_info *info, void *user), void *user,
                            quern_error *err);
quern_status qn_redis_workers(struct qn_broker *broker,
                              bool (*on_worker)(const quern_worker_info *worker, void *user),
                              void *user, quern_error *err);
quern_status qn_redis_history(struct qn_broker *broker, const char *queue, size_t days,
                              quern_day *ret_days, quern_error *err);
quern_status qn_redis_facts(struct qn_broker *broker,
                            void (*on_fact)(const char *name, const char *text, void *user),
                            void *user, quern_error *err);
quern_status qn_redis_act(struct qn_broker *broker, quern_action action, const char *queue,
                          const char *id, quern_error *err);
quern_status qn_redis_act_all(struct qn_broker *broker, quern_action action,
                              const quern_task_filter *filter, size_t limit, size_t *ret_count,
                              quern_error *err);
quern_status qn_redis_pause(struct qn_broker *broker, const char *queue, bool pause,
                            quern_error *err);
quern_status qn_redis_remove_queue(struct qn_broker *broker, const char *queue, bool force,
                                   quern_error *err);
quern_status qn_redis_check(struct qn_broker *broker, bool repair,
                            void (*on_finding)(const quern_finding *finding, void *user),
                            void *user, quern_error *err);

#endif
