/* SPDX-License-Identifier: MIT */
/* inspect.h - the part of a broker's interface that lists and changes stored data.
 *
 * It belongs to broker.h and listing.h, whose rules and errors hold here, too. */
#ifndef QN_BROKER_INSPECT_H
#define QN_BROKER_INSPECT_H

#include "broker/listing.h"

/* --- Listing ------------------------------------------------------------------------ */

typedef quern_status qn_workers_fn(struct qn_broker *broker,
                                   bool (*on_worker)(const quern_worker_info *worker, void *user),
                                   void *user, quern_error *err);
QUERN_NODISCARD qn_workers_fn qn_broker_workers;

/* ret_days: room for `days`; the first is today. */
typedef quern_status qn_history_fn(struct qn_broker *broker, const char *queue, size_t days,
                                   quern_day *ret_days, quern_error *err);
QUERN_NODISCARD qn_history_fn qn_broker_history;

/* Which task holds the unique lock of this key (see qn_unique_key). ret_id: room for
 * QN_NAME_SIZE_MAX + 1 bytes. QUERN_E_NOT_FOUND: none. */
typedef quern_status qn_lock_holder_fn(struct qn_broker *broker, const char *unique_key,
                                       char *ret_id, quern_error *err);
QUERN_NODISCARD qn_lock_holder_fn qn_broker_lock_holder;

/* Reports every task whose id is a UUID that begins with `prefix`, which qn_id_uuid_size takes for
 * the beginning of one; in no order, until on_id returns false. A server may report one twice, and
 * has to walk through all its keys: QUERN_E_UNSUPPORTED where they are too many. */
typedef quern_status qn_match_id_fn(struct qn_broker *broker, const char *prefix,
                                    bool (*on_id)(const char *queue, const char *id, void *user),
                                    void *user, quern_error *err);
QUERN_NODISCARD qn_match_id_fn qn_broker_match_id;

/* Describes the server or the file in pairs of a name and a text. */
typedef quern_status qn_server_info_fn(struct qn_broker *broker,
                                       void (*on_fact)(const char *name, const char *text,
                                                       void *user),
                                       void *user, quern_error *err);
QUERN_NODISCARD qn_server_info_fn qn_broker_server_info;

/* Copies everything that is stored into a new file, as of one moment, while the queues stay in use.
 * QUERN_E_CONFLICT: there is a file of this name. QUERN_E_UNSUPPORTED: the broker is not a file. */
typedef quern_status qn_backup_fn(struct qn_broker *broker, const char *path, quern_error *err);
QUERN_NODISCARD qn_backup_fn qn_broker_backup;

/* --- Steering ----------------------------------------------------------------------- */

/* One task; queue NULL: wherever it is. Cancel marks the task and notifies its worker. */
typedef quern_status qn_operate_fn(struct qn_broker *broker, quern_action action, const char *queue,
                                   const char *id, quern_error *err);
QUERN_NODISCARD qn_operate_fn qn_broker_operate;

/* The same for many tasks. */
struct qn_bulk {
    quern_action action;
    const quern_task_filter *filter;
    size_t limit; /* tasks in one call, at most QN_BULK_MAX */
};
/* One transaction; call again while *ret_count == limit. */
typedef quern_status qn_operate_all_fn(struct qn_broker *broker, const struct qn_bulk *bulk,
                                       size_t *ret_count, quern_error *err);
QUERN_NODISCARD qn_operate_all_fn qn_broker_operate_all;

typedef quern_status qn_pause_fn(struct qn_broker *broker, const char *queue, bool pause,
                                 quern_error *err);
QUERN_NODISCARD qn_pause_fn qn_broker_pause;

/* Changes those settings of a queue that are not 0; without such a queue it is made. */
typedef quern_status qn_set_queue_fn(struct qn_broker *broker, const char *queue,
                                     const quern_queue_settings *settings, quern_error *err);
QUERN_NODISCARD qn_set_queue_fn qn_broker_set_queue;

typedef quern_status qn_remove_queue_fn(struct qn_broker *broker, const char *queue, bool force,
                                        quern_error *err);
QUERN_NODISCARD qn_remove_queue_fn qn_broker_remove_queue;

/* Reports each broken invariant, and if `repair` is set repairs those that can be repaired. */
typedef quern_status qn_doctor_fn(struct qn_broker *broker, bool repair,
                                  void (*on_finding)(const quern_finding *finding, void *user),
                                  void *user, quern_error *err);
QUERN_NODISCARD qn_doctor_fn qn_broker_doctor;

#endif
