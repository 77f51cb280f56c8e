/* SPDX-License-Identifier: MIT */
/* ops.h - for implementations of a broker: the table of operations, and the common part of broker
 * objects.
 *
 * The promise of each operation is at its type in broker.h, group.h, inspect.h and schedule.h. An
 * implementation declares its functions by these types (`qn_enqueue_fn qn_redis_enqueue;`) and puts
 * them into a table. Only the brokers and broker.c include this file. If you add an operation: the
 * recipe in CONTRIBUTING.md. */
#ifndef QN_BROKER_OPS_H
#define QN_BROKER_OPS_H

#include "broker/broker.h"
#include "broker/command/command.h"
#include "broker/edit/edit.h"
#include "broker/group.h"
#include "broker/inspect.h"
#include "broker/limit/limit.h"
#include "broker/move/move.h"
#include "broker/reload.h"
#include "broker/schedule/schedule.h"
#include "broker/search/search.h"
#include "broker/standing/standing.h"
#include "broker/trash/trash.h"

/* A NULL member answers QUERN_E_UNSUPPORTED. */
struct qn_broker_ops {
    const char *scheme;
    bool is_remote;         /* a broker that cannot be reached now may be available a moment
                             * later */
    bool has_priorities;    /* a task may have one */
    size_t enqueue_max;     /* 0: QN_BATCH_MAX */
    uint32_t exchanges_max; /* see qn_broker_exchanges_max */
    qn_close_fn *close;
    qn_find_queue_fn *find_queue;
    qn_enqueue_fn *enqueue;
    qn_enqueue_in_fn *enqueue_in;
    qn_wake_fn *wake;
    qn_reload_fn *reload; /* NULL: it is used without certificates */
    qn_exchange_fn *exchange;
    qn_extend_fn *extend;
    qn_write_result_fn *write_result;
    qn_write_progress_fn *write_progress;
    qn_forward_fn *forward;
    qn_recover_fn *recover;
    qn_prune_fn *prune;
    qn_arm_fn *arm;
    qn_wait_fn *wait;
    qn_interrupt_fn *interrupt;
    qn_watch_fn *watch;
    qn_await_fn *await;
    qn_is_gone_fn *is_gone;
    qn_heartbeat_fn *heartbeat;
    qn_deregister_fn *deregister;
    qn_drained_fn *drained;
    qn_aggregate_fn *aggregate;
    qn_extend_sets_fn *extend_sets;
    qn_return_set_fn *return_set;
    qn_finish_set_fn *finish_set;
    qn_reclaim_sets_fn *reclaim_sets;
    qn_queues_fn *queues;
    qn_tasks_fn *tasks;
    qn_workers_fn *workers;
    qn_find_worker_fn *find_worker;
    qn_command_fn *command;
    qn_history_fn *history;
    qn_lock_holder_fn *lock_holder;
    qn_match_id_fn *match_id;
    qn_server_info_fn *server_info;
    qn_backup_fn *backup; /* NULL: it is no file */
    qn_operate_fn *operate;
    qn_operate_all_fn *operate_all;
    qn_edit_fn *edit;
    qn_move_fn *move;
    qn_search_fn *search;
    qn_search_act_fn *search_act;
    qn_trash_search_fn *trash_search;
    qn_trash_act_fn *trash_act;
    qn_trash_use_fn *trash_use;
    qn_standing_fn *standing;
    qn_pause_fn *pause;
    qn_set_queue_fn *set_queue;
    qn_remove_queue_fn *remove_queue;
    qn_doctor_fn *doctor;
    qn_schedule_put_fn *schedule_put;
    qn_schedule_remove_fn *schedule_remove;
    qn_schedule_pause_fn *schedule_pause;
    qn_schedule_list_fn *schedule_list;
    qn_schedule_lead_fn *schedule_lead;
    qn_schedule_claim_fn *schedule_claim;
    qn_schedule_tick_fn *schedule_tick;
    qn_schedule_trigger_fn *schedule_trigger;
    qn_schedule_history_fn *schedule_history;
    qn_schedule_record_fn *schedule_record;
    qn_set_limit_fn *set_limit;
    qn_remove_limit_fn *remove_limit;
    qn_limits_fn *limits;
};

/* The first member of every broker's own struct. */
struct qn_broker {
    const struct qn_broker_ops *ops;
    const struct quern_clock *clock;
    _Atomic int64_t command_timeout_ms; /* may change during a wait, which then obeys it */
    _Atomic bool hurries;               /* see qn_broker_set_patience */
    int64_t opener_pid;
    bool asks_apart; /* see qn_broker_asks_apart */
};

/* Clears the outputs of an exchange before it begins, and frees the runs that it has leased when it
 * fails. */
void qn_exchange_clear(struct qn_exchange *exchange, struct qn_exchange_reply *reply);
void qn_exchange_free_runs(struct qn_exchange_reply *reply);

/* An empty set with room for so many members: a block with copies of the texts of `terms`. NULL
 * when memory is out. */
QUERN_NODISCARD struct qn_group_set *qn_group_set_new(const struct qn_group_set *terms,
                                                      size_t capacity);

#endif
