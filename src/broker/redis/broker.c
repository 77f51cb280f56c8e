/* SPDX-License-Identifier: MIT */
/* broker.c - opens and closes a broker object on a Redis server.
 *
 * Opening connects one channel and sends one command, so that a wrong password, a server that is
 * too old or still loading, or a user without permissions is reported here and not with the first
 * task. In the child of a fork closing does nothing: the connections belong to the parent. */
#include "broker/redis/redis.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/redis/schema/keys.h"
#include "redis/cluster/silence.h"

/* A line each, in the order of broker.h. */
static const struct qn_broker_ops ops = {
    .scheme = "redis",
    .is_remote = true,
    .enqueue_max = QN_ENQUEUE_MAX,
    .exchanges_max = QN_EXCHANGES_MAX,
    .close = qn_redis_close,
    .find_queue = qn_redis_find_queue,
    .enqueue = qn_redis_enqueue,
    .wake = qn_redis_wake,
    .reload = qn_redis_reload,
    .exchange = qn_redis_exchange,
    .extend = qn_redis_extend,
    .write_result = qn_redis_write_result,
    .write_progress = qn_redis_write_progress,
    .forward = qn_redis_forward,
    .recover = qn_redis_recover,
    .prune = qn_redis_prune,
    .arm = qn_redis_arm,
    .wait = qn_redis_wait,
    .interrupt = qn_redis_interrupt,
    .watch = qn_redis_watch,
    .await = qn_redis_await,
    .heartbeat = qn_redis_heartbeat,
    .deregister = qn_redis_deregister,
    .drained = qn_redis_drained,
    .aggregate = qn_redis_aggregate,
    .extend_sets = qn_redis_extend_sets,
    .return_set = qn_redis_return_set,
    .finish_set = qn_redis_finish_set,
    .reclaim_sets = qn_redis_reclaim_sets,
    .workers = qn_redis_workers,
    .find_worker = qn_redis_find_worker,
    .command = qn_redis_command,
    .queues = qn_redis_queues,
    .tasks = qn_redis_tasks,
    .history = qn_redis_history,
    .lock_holder = qn_redis_lock_holder,
    .match_id = qn_redis_match_id,
    .server_info = qn_redis_server_info,
    .operate = qn_redis_operate,
    .operate_all = qn_redis_operate_all,
    .edit = qn_redis_edit,
    .move = qn_redis_move,
    .search = qn_redis_search,
    .search_act = qn_redis_search_act,
    .trash_search = qn_redis_trash_search,
    .trash_act = qn_redis_trash_act,
    .trash_use = qn_redis_trash_use,
    .standing = qn_redis_standing,
    .pause = qn_redis_pause,
    .set_queue = qn_redis_set_queue,
    .remove_queue = qn_redis_remove_queue,
    .doctor = qn_redis_doctor,
    .schedule_put = qn_redis_schedule_put,
    .schedule_remove = qn_redis_schedule_remove,
    .schedule_pause = qn_redis_schedule_pause,
    .schedule_list = qn_redis_schedule_list,
    .schedule_lead = qn_redis_schedule_lead,
    .schedule_claim = qn_redis_schedule_claim,
    .schedule_tick = qn_redis_schedule_tick,
    .schedule_trigger = qn_redis_schedule_trigger,
    .schedule_history = qn_redis_schedule_history,
    .schedule_record = qn_redis_schedule_record,
    .set_limit = qn_redis_set_limit,
    .remove_limit = qn_redis_remove_limit,
    .limits = qn_redis_limits,
};

static void init_channels(struct qn_redis *self)
{
    static const char *const roles[QN_CHANNEL_COUNT] = {
        [QN_CHANNEL_PUMP] = "pump",     [QN_CHANNEL_SECOND] = "second",
        [QN_CHANNEL_LEASES] = "leases", [QN_CHANNEL_KEEPER] = "keeper",
        [QN_CHANNEL_REST] = "rest",     [QN_CHANNEL_TRACKED] = "tracked"};
    for (size_t i = 0; i < QN_CHANNEL_COUNT; i++) {
        qn_channel_init(&self->channels[i], &self->failover, roles[i]);
        qn_channel_route(&self->channels[i], self->cluster);
    }
}

static void finish_channels(struct qn_redis *self)
{
    for (size_t i = 0; i < QN_CHANNEL_COUNT; i++) {
        qn_channel_finish(&self->channels[i]);
    }
}

/* Whether the scheme of the URL ends like this, with TLS or without. */
static bool is_of(const struct qn_url *url, const char *end)
{
    const char *at = strchr(url->scheme, '-');
    return at != NULL && strcmp(at, end) == 0;
}

static quern_status init_sentinels(struct qn_redis *self, const struct qn_url *url,
                                   const struct qn_url_params *params,
                                   const struct qn_endpoint_terms *terms, quern_error *err)
{
    self->sentinels = qn_alloc_zero(1, sizeof *self->sentinels);
    if (self->sentinels == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_sentinels_init(self->sentinels, url, params, terms, err);
    if (status != QUERN_OK) {
        qn_free(self->sentinels);
        self->sentinels = NULL;
        return status;
    }
    struct qn_endpoint *model = qn_endpoint_ref(self->sentinels->model);
    qn_failover_init(&self->failover, &model, 1);
    qn_sentinels_serve(self->sentinels, &self->failover);
    return QUERN_OK;
}

static quern_status init_list(struct qn_redis *self, const struct qn_url *urls, size_t count,
                              const struct qn_endpoint_terms *terms, quern_error *err)
{
    struct qn_endpoint *endpoints[QN_FAILOVER_ENDPOINTS_MAX];
    quern_status status = QUERN_OK;
    size_t made = 0;
    for (; status == QUERN_OK && made < count; made += status == QUERN_OK ? 1 : 0) {
        bool fits =
            count == 1 || (!is_of(&urls[made], "-sentinel") && !is_of(&urls[made], "-cluster"));
        status =
            fits ? qn_endpoint_new(&urls[made], terms, &endpoints[made], err)
                 : qn_error_set(err, QUERN_E_INVALID,
                                "redis: %s:// cannot be one of a list of URLs", urls[made].scheme);
    }
    if (status == QUERN_OK) {
        qn_failover_init(&self->failover, endpoints, count);
        return QUERN_OK;
    }
    while (made > 0) {
        qn_endpoint_unref(endpoints[--made]);
    }
    return status;
}

static void finish_failover(struct qn_redis *self)
{
    qn_supervisor_stop(&self->supervisor);
    qn_failover_finish(&self->failover);
    if (self->sentinels != NULL) {
        qn_sentinels_finish(self->sentinels);
        qn_free(self->sentinels);
    }
}

static quern_status init_failover(struct qn_redis *self, const struct qn_url *urls,
                                  size_t url_count, const struct qn_broker_options *options,
                                  quern_error *err)
{
    const struct qn_endpoint_terms terms = {.connect_timeout_ms = options->connect_timeout_ms,
                                            .timeout_ms = options->command_timeout_ms,
                                            .patience_ms = &self->base.command_timeout_ms};
    struct qn_url_params params;
    quern_status status = qn_url_params_read(urls, url_count, &params, err);
    if (status != QUERN_OK) {
        return status;
    }
    bool is_asked = params.master != NULL || params.sentinel_user != NULL ||
                    params.sentinel_password_file != NULL;
    if (is_asked && !is_of(&urls[0], "-sentinel")) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "redis: master, sentinel_user and sentinel_password_file are of "
                            "redis-sentinel:// only");
    }
    if (params.wait_count > 0 && is_of(&urls[0], "-cluster")) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED, "redis: a cluster does not offer wait");
    }
    self->wait_count = params.wait_count;
    self->wait_ms = params.wait_ms;
    status = url_count == 1 && is_of(&urls[0], "-sentinel")
                 ? init_sentinels(self, urls, &params, &terms, err)
                 : init_list(self, urls, url_count, &terms, err);
    if (status == QUERN_OK) {
        if (options->failover != NULL) {
            self->failover.rules = *options->failover;
        }
        self->failover.rules.strategy = params.strategy;
        self->timeout_ms = self->failover.endpoints[0]->peer.timeout_ms;
    }
    return status;
}

/* The channel that all use: connects, and sends a command that every user of ours may send. */
static quern_status ask_something(struct qn_redis *self, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "EXISTS");
    qn_pipeline_text(&pipeline, QN_KEY_QUEUES);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status init_cluster(struct qn_redis *self, quern_error *err)
{
    if (self->failover.endpoints[0]->mode != QN_SERVER_CLUSTER) {
        return QUERN_OK;
    }
    self->base.asks_apart = true;
    self->cluster = qn_alloc_zero(1, sizeof *self->cluster);
    return self->cluster == NULL ? qn_error_nomem(err)
                                 : qn_cluster_init(self->cluster, self->failover.endpoints[0], err);
}

static void finish_cluster(struct qn_redis *self)
{
    if (self->cluster != NULL) {
        qn_silence_stop(self->cluster);
        qn_cluster_finish(self->cluster);
        qn_free(self->cluster);
    }
}

quern_status qn_redis_open(const struct qn_url *urls, size_t url_count,
                           const struct qn_broker_options *options, struct qn_broker **ret_broker,
                           quern_error *err)
{
    struct qn_redis *self = qn_alloc_zero(1, sizeof *self);
    if (self == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = init_failover(self, urls, url_count, options, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    self->base.ops = &ops;
    self->base.clock = options->clock != NULL ? options->clock : qn_clock_system();
    self->base.command_timeout_ms = self->timeout_ms;
    self->base.opener_pid = getpid();
    status = init_cluster(self, err);
    if (status != QUERN_OK) {
        goto fail_cluster;
    }
    init_channels(self);
    qn_redis_served_init(&self->served);
    status = qn_redis_listener_init(&self->listener, &self->failover, self->cluster, err);
    if (status == QUERN_OK) { /* before anything is asked: the master may be replaced meanwhile */
        status = qn_supervisor_start(&self->supervisor, &self->failover, self->sentinels, err);
    }
    if (status == QUERN_OK) {
        status = ask_something(self, err);
    }
    if (status != QUERN_OK) {
        goto fail_channels;
    }
    *ret_broker = &self->base;
    return QUERN_OK;

fail_channels:
    qn_redis_listener_finish(&self->listener);
    qn_redis_served_finish(&self->served);
    finish_channels(self);
fail_cluster:
    finish_cluster(self);
    finish_failover(self);
fail:
    qn_free(self);
    return status;
}

void qn_redis_close(struct qn_broker *broker)
{
    struct qn_redis *self = qn_redis_of(broker);
    if (getpid() != self->base.opener_pid) {
        return;
    }
    qn_redis_listener_finish(&self->listener);
    qn_redis_served_finish(&self->served);
    finish_channels(self);
    finish_cluster(self);
    qn_recover_free_cursors(self->recovery_cursors);
    finish_failover(self);
    qn_free(self);
}
