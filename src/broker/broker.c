/* SPDX-License-Identifier: MIT */
/* broker.c - from a URL to the broker that serves it, and from each operation to its
 * implementation.
 *
 * The scheme chooses the implementation. Before an operation is passed on, two things are tested
 * for all brokers alike: this process is the one that opened it (a fork shares connections and
 * locks with its parent and must not use them), and the broker offers the operation. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/url.h"
#include "broker/ops.h"
#include "broker/redis/redis.h"
#include "broker/sqlite/sqlite.h"
#include "broker/url/url_advice.h"
#include "broker/url/url_list.h"
#include "broker/url/url_spelling.h"
#include "task/limits.h"
#include "task/name.h"

/* Servers that stand in for each other: "redis://a;redis://b". */
static quern_status open_list(const char *text, const struct qn_broker_options *options,
                              struct qn_broker **ret_broker, quern_error *err)
{
    struct qn_url_list list;
    quern_status status = qn_url_list_init(&list, text, err);
    if (status == QUERN_OK) {
        status = qn_redis_open(list.urls, list.count, options, ret_broker, err);
        qn_url_list_finish(&list);
    }
    return status;
}

quern_status qn_broker_open(const char *url, const struct qn_broker_options *options,
                            struct qn_broker **ret_broker, quern_error *err)
{
    struct qn_broker_options defaults = {0};
    struct qn_url parsed = {0};
    if (qn_url_spelling_is_server(url) && qn_url_next(url) != NULL) {
        return open_list(url, options != NULL ? options : &defaults, ret_broker, err);
    }
    quern_status status = qn_url_parse(url, &parsed, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_url_spelling_resolve(&parsed);
    status = qn_url_advice(&parsed, err);
    if (status != QUERN_OK) {
        qn_url_finish(&parsed);
        return status;
    }
    if (parsed.scheme[0] == '\0' || strcmp(parsed.scheme, "sqlite") == 0) {
        status = qn_sqlite_open(&parsed, options != NULL ? options : &defaults, ret_broker, err);
    } else if (qn_url_list_is_redis(&parsed)) {
        status = qn_redis_open(&parsed, 1, options != NULL ? options : &defaults, ret_broker, err);
    } else {
        status = qn_error_set(err, QUERN_E_INVALID,
                              "unknown broker scheme \"%s\"; there are sqlite:///path/file.db, "
                              "redis://host:port, redis-socket:///path, redis-sentinel://hosts "
                              "and redis-cluster://hosts; with TLS rediss://, rediss-sentinel:// "
                              "and rediss-cluster://",
                              parsed.scheme);
    }
    qn_url_finish(&parsed);
    return status;
}

quern_status qn_broker_check_queue(const char *url, const char *name, quern_error *err)
{
    return qn_url_spelling_is_server(url) ? qn_name_check_served(name, err)
                                          : qn_name_check_queue(name, err);
}

bool qn_broker_may_come(const char *url, quern_status status)
{
    bool unreached = status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT;
    return status == QUERN_E_BUSY || status == QUERN_E_FULL ||
           (unreached && qn_url_spelling_is_server(url));
}

bool qn_broker_is_gone(struct qn_broker *broker, quern_error *err)
{
    return broker->ops->is_gone != NULL && broker->ops->is_gone(broker, err);
}

bool qn_broker_is_remote(const struct qn_broker *broker)
{
    return broker->ops->is_remote;
}

bool qn_broker_may_recover(const struct qn_broker *broker, quern_status status)
{
    bool unreached = status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT;
    return status == QUERN_E_BUSY || (unreached && broker->ops->is_remote);
}

uint32_t qn_broker_exchanges_max(const struct qn_broker *broker)
{
    return broker->ops->exchanges_max;
}

void qn_broker_set_patience(struct qn_broker *broker, int64_t command_timeout_ms, bool hurries)
{
    atomic_store(&broker->command_timeout_ms, command_timeout_ms);
    atomic_store(&broker->hurries, hurries);
}

void qn_broker_close(struct qn_broker *broker)
{
    if (broker != NULL) {
        broker->ops->close(broker);
    }
}

quern_status qn_broker_check_fork(const struct qn_broker *broker, quern_error *err)
{
    if (getpid() == broker->opener_pid) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_CLOSED,
                        "opened by process %lld, this is a fork of it: open it again here",
                        (long long)broker->opener_pid);
}

/* May this process use it, and does it have the operation? */
static quern_status check(const struct qn_broker *broker, bool offered, const char *operation,
                          quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    if (status == QUERN_OK && !offered) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED, "a %s broker does not offer \"%s\"",
                              broker->ops->scheme, operation);
    }
    return status;
}

void qn_broker_wake(struct qn_broker *broker)
{
    if (check(broker, broker->ops->wake != NULL, "wake", NULL) == QUERN_OK) {
        broker->ops->wake(broker);
    }
}

/* No test of the process: it must stay safe in a signal handler. */
void qn_broker_interrupt(struct qn_broker *broker)
{
    if (broker->ops->interrupt != NULL) {
        broker->ops->interrupt(broker);
    }
}

quern_status qn_broker_find_queue(struct qn_broker *broker, const char *queue, quern_error *err)
{
    quern_status status = check(broker, broker->ops->find_queue != NULL, "find_queue", err);
    return status != QUERN_OK ? status : broker->ops->find_queue(broker, queue, err);
}

/* The same with room for the ids of holders, which the brokers always report; in `arena`, which the
 * caller frees. */
static quern_status add_room(const struct qn_enqueue *enqueue, struct qn_arena *arena,
                             struct qn_enqueue *ret_wide, quern_error *err)
{
    *ret_wide = *enqueue;
    if (enqueue->holders == NULL && enqueue->count > 0) {
        ret_wide->arena = arena;
        ret_wide->holders = qn_arena_alloc(arena, enqueue->count * sizeof *ret_wide->holders);
        if (ret_wide->holders == NULL) {
            return qn_error_nomem(err);
        }
    }
    for (size_t i = 0; i < enqueue->count; i++) {
        ret_wide->holders[i] = NULL;
    }
    return QUERN_OK;
}

quern_status qn_broker_enqueue(struct qn_broker *broker, const struct qn_enqueue *enqueue,
                               quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_enqueue wide;
    quern_status status = check(broker, broker->ops->enqueue != NULL, "enqueue", err);
    if (status == QUERN_OK) {
        status = add_room(enqueue, &arena, &wide, err);
    }
    if (status == QUERN_OK) {
        status = broker->ops->enqueue(broker, &wide, err);
    }
    qn_arena_finish(&arena);
    return status;
}

bool qn_broker_has_priorities(const struct qn_broker *broker)
{
    return broker->ops->has_priorities;
}

size_t qn_broker_enqueue_max(const struct qn_broker *broker)
{
    return broker->ops->enqueue_max > 0 ? broker->ops->enqueue_max : QN_BATCH_MAX;
}

quern_status qn_broker_enqueue_in(struct qn_broker *broker, void *tx,
                                  const struct qn_enqueue *enqueue, quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_enqueue wide;
    quern_status status = check(broker, broker->ops->enqueue_in != NULL, "enqueue_in", err);
    if (status == QUERN_OK) {
        status = add_room(enqueue, &arena, &wide, err);
    }
    if (status == QUERN_OK) {
        status = broker->ops->enqueue_in(broker, tx, &wide, err);
    }
    qn_arena_finish(&arena);
    return status;
}

quern_status qn_broker_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                                struct qn_exchange_reply *reply, quern_error *err)
{
    quern_status status = check(broker, broker->ops->exchange != NULL, "exchange", err);
    return status != QUERN_OK ? status : broker->ops->exchange(broker, exchange, reply, err);
}

quern_status qn_broker_extend(struct qn_broker *broker, struct qn_extension *extensions,
                              size_t count, int64_t lease_ms, quern_error *err)
{
    quern_status status = check(broker, broker->ops->extend != NULL, "extend", err);
    return status != QUERN_OK ? status
                              : broker->ops->extend(broker, extensions, count, lease_ms, err);
}

quern_status qn_broker_write_result(struct qn_broker *broker, const struct qn_leased *run,
                                    struct qn_bytes result, quern_error *err)
{
    quern_status status = check(broker, broker->ops->write_result != NULL, "write_result", err);
    return status != QUERN_OK ? status : broker->ops->write_result(broker, run, result, err);
}

quern_status qn_broker_write_progress(struct qn_broker *broker, const struct qn_leased *run,
                                      int32_t percent, const char *note, quern_error *err)
{
    quern_status status = check(broker, broker->ops->write_progress != NULL, "write_progress", err);
    return status != QUERN_OK ? status
                              : broker->ops->write_progress(broker, run, percent, note, err);
}

quern_status qn_broker_forward(struct qn_broker *broker, struct qn_upkeep upkeep, size_t *ret_moved,
                               int64_t *ret_next_due_at_ms, quern_error *err)
{
    quern_status status = check(broker, broker->ops->forward != NULL, "forward", err);
    return status != QUERN_OK
               ? status
               : broker->ops->forward(broker, upkeep, ret_moved, ret_next_due_at_ms, err);
}

quern_status qn_broker_recover(struct qn_broker *broker, struct qn_upkeep upkeep,
                               const struct qn_recovery_sink *sink, size_t *ret_recovered,
                               quern_error *err)
{
    quern_status status = check(broker, broker->ops->recover != NULL, "recover", err);
    return status != QUERN_OK ? status
                              : broker->ops->recover(broker, upkeep, sink, ret_recovered, err);
}

quern_status qn_broker_prune(struct qn_broker *broker, struct qn_upkeep upkeep, size_t *ret_removed,
                             quern_error *err)
{
    quern_status status = check(broker, broker->ops->prune != NULL, "prune", err);
    return status != QUERN_OK ? status : broker->ops->prune(broker, upkeep, ret_removed, err);
}

quern_status qn_broker_arm(struct qn_broker *broker, struct qn_names queues, bool *ret_work,
                           int64_t *ret_next_due_at_ms, quern_error *err)
{
    quern_status status = check(broker, broker->ops->arm != NULL, "arm", err);
    return status != QUERN_OK ? status
                              : broker->ops->arm(broker, queues, ret_work, ret_next_due_at_ms, err);
}

quern_status qn_broker_wait(struct qn_broker *broker, int64_t timeout_ms,
                            struct qn_wakeup *ret_wakeup, quern_error *err)
{
    quern_status status = check(broker, broker->ops->wait != NULL, "wait", err);
    return status != QUERN_OK ? status : broker->ops->wait(broker, timeout_ms, ret_wakeup, err);
}

quern_status qn_broker_watch(struct qn_broker *broker, const char *queue, const char *id,
                             quern_error *err)
{
    quern_status status = check(broker, broker->ops->watch != NULL, "watch", err);
    return status != QUERN_OK ? status : broker->ops->watch(broker, queue, id, err);
}

quern_status qn_broker_await(struct qn_broker *broker, int64_t timeout_ms,
                             struct qn_notices *ret_notices, quern_error *err)
{
    qn_notices_clear(ret_notices);
    quern_status status = check(broker, broker->ops->await != NULL, "await", err);
    return status != QUERN_OK ? status : broker->ops->await(broker, timeout_ms, ret_notices, err);
}

quern_status qn_broker_heartbeat(struct qn_broker *broker, const struct qn_heartbeat *heartbeat,
                                 quern_error *err)
{
    quern_status status = check(broker, broker->ops->heartbeat != NULL, "heartbeat", err);
    return status != QUERN_OK ? status : broker->ops->heartbeat(broker, heartbeat, err);
}

quern_status qn_broker_deregister(struct qn_broker *broker, const char *worker_id, quern_error *err)
{
    quern_status status = check(broker, broker->ops->deregister != NULL, "deregister", err);
    return status != QUERN_OK ? status : broker->ops->deregister(broker, worker_id, err);
}

quern_status qn_broker_drained(struct qn_broker *broker, struct qn_names queues,
                               enum qn_until until, bool *ret_drained, quern_error *err)
{
    quern_status status = check(broker, broker->ops->drained != NULL, "drained", err);
    return status != QUERN_OK ? status
                              : broker->ops->drained(broker, queues, until, ret_drained, err);
}

quern_status qn_broker_aggregate(struct qn_broker *broker, const struct qn_aggregate *aggregate,
                                 struct qn_aggregate_reply *reply, quern_error *err)
{
    *reply = (struct qn_aggregate_reply){.end = true, .next_ms = INT64_MAX};
    quern_status status = check(broker, broker->ops->aggregate != NULL, "aggregate", err);
    return status != QUERN_OK ? status : broker->ops->aggregate(broker, aggregate, reply, err);
}

quern_status qn_broker_extend_sets(struct qn_broker *broker, struct qn_set_extension *extensions,
                                   size_t count, int64_t lease_ms, quern_error *err)
{
    quern_status status = check(broker, broker->ops->extend_sets != NULL, "extend_sets", err);
    return status != QUERN_OK ? status
                              : broker->ops->extend_sets(broker, extensions, count, lease_ms, err);
}

quern_status qn_broker_return_set(struct qn_broker *broker, const struct qn_group_set *set,
                                  quern_error *err)
{
    quern_status status = check(broker, broker->ops->return_set != NULL, "return_set", err);
    return status != QUERN_OK ? status : broker->ops->return_set(broker, set, err);
}

quern_status qn_broker_finish_set(struct qn_broker *broker, const struct qn_finish_set *finish,
                                  quern_error *err)
{
    quern_status status = check(broker, broker->ops->finish_set != NULL, "finish_set", err);
    return status != QUERN_OK ? status : broker->ops->finish_set(broker, finish, err);
}

quern_status qn_broker_reclaim_sets(struct qn_broker *broker, struct qn_upkeep upkeep,
                                    size_t *ret_reclaimed, quern_error *err)
{
    *ret_reclaimed = 0;
    quern_status status = check(broker, broker->ops->reclaim_sets != NULL, "reclaim_sets", err);
    return status != QUERN_OK ? status
                              : broker->ops->reclaim_sets(broker, upkeep, ret_reclaimed, err);
}

quern_status qn_broker_queues(struct qn_broker *broker, const struct qn_names *only,
                              bool (*on_queue)(const quern_queue_info *queue, void *user),
                              void *user, quern_error *err)
{
    quern_status status = check(broker, broker->ops->queues != NULL, "queues", err);
    return status != QUERN_OK ? status : broker->ops->queues(broker, only, on_queue, user, err);
}

quern_status qn_broker_tasks(struct qn_broker *broker, const quern_task_filter *filter,
                             bool (*on_task)(const quern_task_info *info, void *user), void *user,
                             quern_error *err)
{
    quern_status status = check(broker, broker->ops->tasks != NULL, "tasks", err);
    return status != QUERN_OK ? status : broker->ops->tasks(broker, filter, on_task, user, err);
}

quern_status qn_broker_workers(struct qn_broker *broker,
                               bool (*on_worker)(const quern_worker_info *worker, void *user),
                               void *user, quern_error *err)
{
    quern_status status = check(broker, broker->ops->workers != NULL, "workers", err);
    return status != QUERN_OK ? status : broker->ops->workers(broker, on_worker, user, err);
}

quern_status qn_broker_history(struct qn_broker *broker, const char *queue, size_t days,
                               quern_day *ret_days, quern_error *err)
{
    quern_status status = check(broker, broker->ops->history != NULL, "history", err);
    return status != QUERN_OK ? status : broker->ops->history(broker, queue, days, ret_days, err);
}

quern_status qn_broker_lock_holder(struct qn_broker *broker, const char *unique_key, char *ret_id,
                                   quern_error *err)
{
    quern_status status = check(broker, broker->ops->lock_holder != NULL, "lock_holder", err);
    return status != QUERN_OK ? status : broker->ops->lock_holder(broker, unique_key, ret_id, err);
}

quern_status qn_broker_match_id(struct qn_broker *broker, const char *prefix,
                                bool (*on_id)(const char *queue, const char *id, void *user),
                                void *user, quern_error *err)
{
    quern_status status = check(broker, broker->ops->match_id != NULL, "match_id", err);
    return status != QUERN_OK ? status : broker->ops->match_id(broker, prefix, on_id, user, err);
}

quern_status qn_broker_server_info(struct qn_broker *broker,
                                   void (*on_fact)(const char *name, const char *text, void *user),
                                   void *user, quern_error *err)
{
    quern_status status = check(broker, broker->ops->server_info != NULL, "server_info", err);
    return status != QUERN_OK ? status : broker->ops->server_info(broker, on_fact, user, err);
}

quern_status qn_broker_backup(struct qn_broker *broker, const char *path, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    if (status == QUERN_OK && broker->ops->backup == NULL) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED,
                              "a %s broker is not a file: back it up with the server's own tools",
                              broker->ops->scheme);
    }
    return status != QUERN_OK ? status : broker->ops->backup(broker, path, err);
}

quern_status qn_broker_operate(struct qn_broker *broker, quern_action action, const char *queue,
                               const char *id, quern_error *err)
{
    quern_status status = check(broker, broker->ops->operate != NULL, "operate", err);
    return status != QUERN_OK ? status : broker->ops->operate(broker, action, queue, id, err);
}

quern_status qn_broker_operate_all(struct qn_broker *broker, const struct qn_bulk *bulk,
                                   size_t *ret_count, quern_error *err)
{
    quern_status status = check(broker, broker->ops->operate_all != NULL, "operate_all", err);
    return status != QUERN_OK ? status : broker->ops->operate_all(broker, bulk, ret_count, err);
}

quern_status qn_broker_pause(struct qn_broker *broker, const char *queue, bool pause,
                             quern_error *err)
{
    quern_status status = check(broker, broker->ops->pause != NULL, "pause", err);
    return status != QUERN_OK ? status : broker->ops->pause(broker, queue, pause, err);
}

quern_status qn_broker_set_queue(struct qn_broker *broker, const char *queue,
                                 const quern_queue_settings *settings, quern_error *err)
{
    quern_status status = check(broker, broker->ops->set_queue != NULL, "set_queue", err);
    return status != QUERN_OK ? status : broker->ops->set_queue(broker, queue, settings, err);
}

quern_status qn_broker_remove_queue(struct qn_broker *broker, const char *queue, bool force,
                                    quern_error *err)
{
    quern_status status = check(broker, broker->ops->remove_queue != NULL, "remove_queue", err);
    return status != QUERN_OK ? status : broker->ops->remove_queue(broker, queue, force, err);
}

quern_status qn_broker_doctor(struct qn_broker *broker, bool repair,
                              void (*on_finding)(const quern_finding *finding, void *user),
                              void *user, quern_error *err)
{
    quern_status status = check(broker, broker->ops->doctor != NULL, "doctor", err);
    return status != QUERN_OK ? status : broker->ops->doctor(broker, repair, on_finding, user, err);
}

bool qn_broker_has_limits(const struct qn_broker *broker)
{
    return broker->ops->set_limit != NULL;
}

quern_status qn_broker_set_limit(struct qn_broker *broker, const quern_limit *limit,
                                 quern_error *err)
{
    quern_status status = check(broker, broker->ops->set_limit != NULL, "limits", err);
    return status != QUERN_OK ? status : broker->ops->set_limit(broker, limit, err);
}

quern_status qn_broker_remove_limit(struct qn_broker *broker, const struct qn_limit_owner *owner,
                                    quern_error *err)
{
    quern_status status = check(broker, broker->ops->remove_limit != NULL, "limits", err);
    return status != QUERN_OK ? status : broker->ops->remove_limit(broker, owner, err);
}

quern_status qn_broker_limits(struct qn_broker *broker, const char *queue,
                              bool (*on_limit)(const quern_limit *limit, void *user), void *user,
                              quern_error *err)
{
    quern_status status = check(broker, broker->ops->limits != NULL, "limits", err);
    return status != QUERN_OK ? status : broker->ops->limits(broker, queue, on_limit, user, err);
}
