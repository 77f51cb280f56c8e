/* SPDX-License-Identifier: MIT */
/* redis.h - shared by the files of the Redis broker: its struct and its channels.
 *
 * A channel is one connection with its own lock, opened when it is first used. PUMP carries the
 * requests that a start waits for, SECOND under load every other exchange, LEASES the lease
 * extensions and nothing else, KEEPER the rest of a worker's upkeep, REST everything else, so that
 * no long listing and no large result delays the others. TRACKED and the listener are a pair that
 * receives notifications (listener.h).
 *
 * An operation is one pipeline (pipeline.h) on one channel: scripts and commands sent in one write,
 * all replies read. The scripts are the .lua files beside this one; docs/protocol/redis.md
 * describes their keys, and is the contract of all files here. */
#ifndef QN_BROKER_REDIS_REDIS_H
#define QN_BROKER_REDIS_REDIS_H

#include "base/clock_jump.h"
#include "base/text/url.h"
#include "broker/ops.h"
#include "broker/redis/upkeep/recover.h"
#include "broker/redis/wake/listener.h"
#include "broker/redis/wake/served.h"
#include "redis/failover/sentinel.h"
#include "redis/failover/supervisor.h"
#include "redis/pipeline.h"
#include "task/limits.h"

/* TRACKED is used by arm and watch only: every key that is read on it wakes the listener when it
 * changes
 * (listener.h). */
enum qn_channel_kind {
    QN_CHANNEL_PUMP,
    QN_CHANNEL_SECOND,
    QN_CHANNEL_LEASES, /* nothing else may hold up an extension */
    QN_CHANNEL_KEEPER,
    QN_CHANNEL_REST,
    QN_CHANNEL_TRACKED,
    QN_CHANNEL_COUNT
};

/* The server's clock as seen by recover. */
struct qn_server_clock {
    struct qn_clock_jump jump;
    int64_t answered_at_mono_ns; /* when the server last answered; 0: never */
    int64_t back_at_mono_ns;     /* and when it did so after a silence; 0: never */
};

struct qn_redis {
    struct qn_broker base;
    struct qn_failover failover;    /* which server all connections use */
    struct qn_sentinels *sentinels; /* that name it; NULL: none */
    struct qn_supervisor supervisor;
    uint32_t wait_count; /* replicas that must confirm a stored task; 0: none is waited for */
    int64_t wait_ms;
    int64_t timeout_ms;         /* of an answer; never changes after open */
    struct qn_cluster *cluster; /* NULL: one server */
    struct qn_channel channels[QN_CHANNEL_COUNT];
    struct qn_redis_listener listener;
    struct qn_redis_served served;
    bool awaits_ends; /* of runs, in a queue with a limit: the last arm; by the thread that arms */
    uint64_t
        extend_known_by; /* the connection (opened_count) that has had the script; by its channel */
    _Atomic uint64_t claimed_epoch;   /* the highest that a queue of schedules was found to have */
    struct qn_clock_jump prune_clock; /* guarded by the mutex of the keeper's channel */
    struct qn_server_clock recover_clock;        /* guarded by the mutex of the rest channel */
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

/* urls: parsed, each of one server, which stand in for each other; or one of
 * sentinels or of a cluster. Connects
 * once, so that faults of the URL, the password or the server are reported here. */
QUERN_NODISCARD quern_status qn_redis_open(const struct qn_url *urls, size_t url_count,
                                           const struct qn_broker_options *options,
                                           struct qn_broker **ret_broker, quern_error *err);
qn_close_fn qn_redis_close;

/* Adds the server's limit to the error that its memory is full; no pipeline may be open. */
void qn_redis_full_explain(struct qn_redis *self, quern_error *err);

/* --- The operations, each in the file of its name ---------------------------------------- */

qn_find_queue_fn qn_redis_find_queue;
qn_enqueue_fn qn_redis_enqueue;
qn_wake_fn qn_redis_wake;
qn_reload_fn qn_redis_reload;
qn_exchange_fn qn_redis_exchange;
qn_extend_fn qn_redis_extend;
qn_write_result_fn qn_redis_write_result;
qn_write_progress_fn qn_redis_write_progress;
qn_forward_fn qn_redis_forward;
qn_recover_fn qn_redis_recover;
qn_prune_fn qn_redis_prune;
qn_arm_fn qn_redis_arm;
qn_wait_fn qn_redis_wait;
qn_interrupt_fn qn_redis_interrupt;
qn_watch_fn qn_redis_watch;
qn_await_fn qn_redis_await;
qn_heartbeat_fn qn_redis_heartbeat;
qn_deregister_fn qn_redis_deregister;
qn_drained_fn qn_redis_drained;
qn_aggregate_fn qn_redis_aggregate;
qn_extend_sets_fn qn_redis_extend_sets;
qn_return_set_fn qn_redis_return_set;
qn_finish_set_fn qn_redis_finish_set;
qn_reclaim_sets_fn qn_redis_reclaim_sets;
qn_queues_fn qn_redis_queues;
qn_tasks_fn qn_redis_tasks;
qn_workers_fn qn_redis_workers;
qn_find_worker_fn qn_redis_find_worker;
qn_command_fn qn_redis_command;
qn_history_fn qn_redis_history;
qn_lock_holder_fn qn_redis_lock_holder;
qn_match_id_fn qn_redis_match_id;
qn_server_info_fn qn_redis_server_info;
qn_operate_fn qn_redis_operate;
qn_operate_all_fn qn_redis_operate_all;
qn_edit_fn qn_redis_edit;
qn_move_fn qn_redis_move;
qn_search_fn qn_redis_search;
qn_search_act_fn qn_redis_search_act;
qn_trash_search_fn qn_redis_trash_search;
qn_trash_act_fn qn_redis_trash_act;
qn_trash_use_fn qn_redis_trash_use;
qn_standing_fn qn_redis_standing;
qn_pause_fn qn_redis_pause;
qn_set_queue_fn qn_redis_set_queue;
qn_remove_queue_fn qn_redis_remove_queue;
qn_doctor_fn qn_redis_doctor;
qn_schedule_put_fn qn_redis_schedule_put;
qn_schedule_remove_fn qn_redis_schedule_remove;
qn_schedule_pause_fn qn_redis_schedule_pause;
qn_schedule_list_fn qn_redis_schedule_list;
qn_schedule_lead_fn qn_redis_schedule_lead;
qn_schedule_claim_fn qn_redis_schedule_claim;
qn_schedule_tick_fn qn_redis_schedule_tick;
qn_schedule_trigger_fn qn_redis_schedule_trigger;
qn_schedule_history_fn qn_redis_schedule_history;
qn_schedule_record_fn qn_redis_schedule_record;
qn_set_limit_fn qn_redis_set_limit;
qn_remove_limit_fn qn_redis_remove_limit;
qn_limits_fn qn_redis_limits;

#endif
