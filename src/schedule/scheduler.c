/* SPDX-License-Identifier: MIT */
/* scheduler.c - a scheduler from quern_scheduler_new to quern_scheduler_free.
 *
 * One thread, that of quern_scheduler_run: it stores the entries of program and files, looks who
 * leads, sends ticks, and sleeps at a descriptor that quern_scheduler_stop and the watch of the
 * files make readable. While the broker does not answer it tries again, at most a second later;
 * what was due meanwhile is sent then, by the misfire policies. */
#include "schedule/scheduler.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "base/text/str.h"
#include "broker/reload.h"
#include "broker/url/url_retry.h"
#include "pool/until_signal.h"
#include "task/limits.h"

enum {
    SYNC_MS = 180000, /* as asynq */
    SYNC_MS_MIN = 1000,
    COMMAND_MS = QN_LEADER_RENEW_MS,
    HURRY_MS = 1000,
    STEP_MS_MAX = 60000, /* of one that does not hang: each call of it ends within COMMAND_MS */
    PROGRAM_SIZE_MAX = 255
};

/* --- Zones ---------------------------------------------------------------------------- */

quern_status qn_scheduler_new_zones(struct qn_zones **ret_zones, quern_error *err)
{
    struct qn_zones *zones = qn_alloc_zero(1, sizeof *zones);
    if (zones == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_zones_init(zones, NULL, err);
    if (status != QUERN_OK) {
        qn_free(zones);
        return status;
    }
    *ret_zones = zones;
    return QUERN_OK;
}

void qn_scheduler_free_zones(struct qn_zones *zones)
{
    if (zones != NULL) {
        qn_zones_finish(zones);
        qn_free(zones);
    }
}

/* The certificates of its URL, if it names any. */
static void reload_broker(struct quern_scheduler *scheduler)
{
    quern_error error = {0};
    quern_status status =
        scheduler->broker == NULL ? QUERN_OK : qn_broker_reload(scheduler->broker, &error);
    if (status != QUERN_OK && status != QUERN_E_UNSUPPORTED) {
        QN_LOG(&scheduler->log, QUERN_LOG_WARN, "certificates not reloaded, the old ones stay",
               QN_LOG_TEXT("error", error.text));
    }
}

quern_status qn_scheduler_reload_all(struct quern_scheduler *scheduler, quern_error *err)
{
    struct qn_zones *zones = NULL;
    struct qn_zones *before = scheduler->zones;
    quern_status status = qn_scheduler_new_zones(&zones, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_ticker_reload(&scheduler->ticker, zones);
    (void)pthread_mutex_lock(&scheduler->mutex);
    scheduler->zones = zones;
    scheduler->registered.zones = zones;
    scheduler->has_changed = true;
    (void)pthread_mutex_unlock(&scheduler->mutex);
    qn_scheduler_free_zones(before);
    qn_files_reload(&scheduler->files);
    scheduler->must_sync = true;
    reload_broker(scheduler);
    QN_LOG(&scheduler->log, QUERN_LOG_INFO, "files and time zones are read again",
           QN_LOG_TEXT("scheduler", scheduler->leader.id));
    return QUERN_OK;
}

/* --- New and free --------------------------------------------------------------------- */

static quern_status check_numbers(const quern_scheduler_options *options, quern_error *err)
{
    if (!qn_sized_zero(options->reserved, sizeof options->reserved)) {
        return qn_error_set(err, QUERN_E_INVALID, "scheduler options: reserved is not 0");
    }
    if (options->sync_ms != 0 &&
        (options->sync_ms < SYNC_MS_MIN || options->sync_ms > QN_DURATION_MS_MAX)) {
        return qn_error_set(err, QUERN_E_INVALID, "sync_ms is %lld, not at least %d",
                            (long long)options->sync_ms, SYNC_MS_MIN);
    }
    if (options->file_count > 0 && options->files == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "files is NULL, but file_count is %zu",
                            options->file_count);
    }
    const char *program = options->program;
    if (program != NULL &&
        (program[0] == '\0' || !qn_str_is_plain(program) || strlen(program) > PROGRAM_SIZE_MAX)) {
        return qn_error_set(err, QUERN_E_INVALID, "program is not 1 to %d visible ASCII characters",
                            PROGRAM_SIZE_MAX);
    }
    if (options->on_entries != NULL && program == NULL) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "scheduler options: program is needed with on_entries");
    }
    return QUERN_OK;
}

static quern_status copy_texts(struct quern_scheduler *scheduler, quern_error *err)
{
    quern_scheduler_options *options = &scheduler->options;
    bool all = true;
    if (options->program != NULL) {
        scheduler->origin = qn_arena_printf(&scheduler->arena, "code:%s", options->program);
        all = scheduler->origin != NULL;
    }
    options->program = NULL; /* the origin has it */
    if (options->zone != NULL) {
        options->zone = qn_arena_strdup(&scheduler->arena, options->zone);
        all = all && options->zone != NULL;
    }
    return all ? QUERN_OK : qn_error_nomem(err);
}

static quern_status read_options(struct quern_scheduler *scheduler,
                                 const quern_scheduler_options *options, size_t options_size,
                                 quern_error *err)
{
    const struct qn_zone *zone;
    quern_status status =
        qn_sized_copy(QN_ROOM_OF(scheduler->options), (struct qn_bytes){options, options_size},
                      "scheduler options", err);
    if (status == QUERN_OK) {
        status = check_numbers(&scheduler->options, err);
    }
    qn_log_init(&scheduler->log,
                scheduler->options.on_log != NULL ? scheduler->options.on_log : qn_log_to_stderr,
                scheduler->options.user);
    if (status == QUERN_OK) {
        status = copy_texts(scheduler, err);
    }
    if (status == QUERN_OK) {
        status = qn_scheduler_new_zones(&scheduler->zones, err);
    }
    if (status == QUERN_OK && scheduler->options.zone != NULL) {
        status = qn_zones_get(scheduler->zones, scheduler->options.zone, &zone, err);
    }
    if (status == QUERN_OK) {
        status = qn_files_init(&scheduler->files, scheduler->options.files,
                               scheduler->options.file_count, err);
    }
    scheduler->options.files = NULL; /* copied */
    if (scheduler->options.sync_ms == 0) {
        scheduler->options.sync_ms = SYNC_MS;
    }
    return status;
}

quern_status qn_scheduler_open(struct quern_scheduler *scheduler, const char *url, quern_error *err)
{
    const struct qn_broker_options options = {
        .clock = scheduler->options.clock, .command_timeout_ms = COMMAND_MS, .create = true};
    const struct qn_lead look = {.what = QN_LEAD_LOOK};
    struct qn_lead_reply reply;
    struct qn_broker *broker = NULL;
    quern_status status = qn_broker_open(url, &options, &broker, err);
    if (status == QUERN_OK) {
        status = qn_schedule_lead(broker, &look, &reply, err); /* whether it has schedules */
    }
    if (status == QUERN_OK) {
        status = qn_leader_init(&scheduler->leader, broker, scheduler->clock, &scheduler->log, err);
    }
    if (status != QUERN_OK) {
        qn_broker_close(broker);
        return status;
    }
    const struct qn_ticker_hooks hooks = {.before = scheduler->options.before,
                                          .after = scheduler->options.after,
                                          .user = scheduler->options.user};
    qn_ticker_init(&scheduler->ticker, &scheduler->leader, scheduler->zones, &hooks);
    (void)pthread_mutex_lock(&scheduler->mutex);
    scheduler->broker = broker;
    scheduler->registered.broker = broker;
    (void)pthread_mutex_unlock(&scheduler->mutex);
    return QUERN_OK;
}

static quern_status open_or_keep(struct quern_scheduler *scheduler, const char *url,
                                 quern_error *err)
{
    quern_status status = qn_scheduler_open(scheduler, url, err);
    if (status == QUERN_OK || scheduler->options.no_wait || !qn_broker_may_come(url, status)) {
        return status;
    }
    scheduler->url = qn_secret_strdup(url);
    return scheduler->url != NULL ? QUERN_OK : qn_error_nomem(err);
}

static void dismantle(struct quern_scheduler *scheduler)
{
    qn_ticker_finish(&scheduler->ticker);
    qn_broker_close(scheduler->broker);
    qn_secret_free(scheduler->url);
    qn_files_finish(&scheduler->files);
    qn_entry_set_finish(&scheduler->registered);
    qn_scheduler_free_zones(scheduler->zones);
    qn_arena_finish(&scheduler->arena);
    qn_log_finish(&scheduler->log);
    (void)pthread_mutex_destroy(&scheduler->mutex);
    if (scheduler->wake_fd >= 0) {
        (void)close(scheduler->wake_fd);
    }
    qn_free(scheduler);
}

quern_status quern_scheduler_new_sized(const char *url, const quern_scheduler_options *options,
                                       size_t options_size, quern_scheduler **ret_scheduler,
                                       quern_error *err)
{
    if (url == NULL || ret_scheduler == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            url == NULL ? "url" : "ret_scheduler");
    }
    struct quern_scheduler *scheduler = qn_alloc_zero(1, sizeof *scheduler);
    if (scheduler == NULL) {
        return qn_error_nomem(err);
    }
    (void)pthread_mutex_init(&scheduler->mutex, NULL);
    scheduler->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    scheduler->files.watch_fd = -1;
    scheduler->opener_pid = getpid();
    scheduler->must_sync = true;
    qn_outage_init(&scheduler->outage, &scheduler->log, qn_url_retry(url));
    quern_status status = read_options(scheduler, options, options_size, err);
    if (status == QUERN_OK && scheduler->wake_fd < 0) {
        status = qn_error_set(err, QUERN_E_FULL, "no descriptor: %s", strerror(errno));
    }
    scheduler->clock =
        scheduler->options.clock != NULL ? scheduler->options.clock : qn_clock_system();
    scheduler->registered = (struct quern_entry_set){.origin = scheduler->origin,
                                                     .default_zone = scheduler->options.zone,
                                                     .zones = scheduler->zones,
                                                     .clock = scheduler->clock};
    if (status == QUERN_OK) {
        status = open_or_keep(scheduler, url, err);
    }
    if (status != QUERN_OK) {
        dismantle(scheduler);
        return status;
    }
    *ret_scheduler = scheduler;
    return QUERN_OK;
}

void quern_scheduler_free(quern_scheduler *scheduler)
{
    if (scheduler != NULL && getpid() == scheduler->opener_pid) {
        dismantle(scheduler);
    }
}

/* --- From outside --------------------------------------------------------------------- */

static void wake(struct quern_scheduler *scheduler)
{
    int saved = errno;
    const uint64_t one = 1;
    ssize_t written = write(scheduler->wake_fd, &one, sizeof one);
    (void)written; /* fails only when the counter is full: then it is readable already */
    errno = saved;
}

void quern_scheduler_stop(quern_scheduler *scheduler)
{
    if (scheduler != NULL) {
        atomic_fetch_add(&scheduler->stops, 1);
        wake(scheduler);
    }
}

void quern_scheduler_reload(quern_scheduler *scheduler)
{
    if (scheduler != NULL) {
        atomic_store(&scheduler->reload_asked, true);
        wake(scheduler);
    }
}

bool quern_scheduler_is_live(const quern_scheduler *scheduler)
{
    int64_t at = scheduler == NULL ? 0 : atomic_load(&scheduler->stepped_at_mono_ns);
    return scheduler != NULL && (at == 0 || qn_clock_mono_ns() - at < STEP_MS_MAX * QN_NS_PER_MS);
}

bool quern_scheduler_is_ready(const quern_scheduler *scheduler)
{
    return scheduler != NULL && atomic_load(&scheduler->is_ready);
}

/* --- Running -------------------------------------------------------------------------- */

static void sleep_for(const struct quern_scheduler *scheduler, int64_t ms)
{
    struct pollfd fds[] = {{.fd = scheduler->wake_fd, .events = POLLIN},
                           {.fd = scheduler->files.watch_fd, .events = POLLIN}};
    uint64_t count;
    if (poll(fds, 2, (int)ms) > 0 && fds[0].revents != 0) {
        ssize_t got = read(scheduler->wake_fd, &count, sizeof count);
        (void)got; /* non-blocking: at worst another call took it */
    }
}

static quern_status step(struct quern_scheduler *scheduler, int64_t *ret_sleep_ms, quern_error *err)
{
    const struct qn_files_terms terms = {.broker = scheduler->broker,
                                         .log = &scheduler->log,
                                         .zones = scheduler->zones,
                                         .clock = scheduler->clock,
                                         .default_zone = scheduler->options.zone,
                                         .allow_empty = scheduler->options.allow_empty};
    qn_files_look(&scheduler->files, scheduler->clock);
    quern_status status = qn_files_sync(&scheduler->files, &terms, err);
    if (status == QUERN_OK) {
        status = qn_program_sync(scheduler, err);
    }
    if (status == QUERN_OK) {
        status = qn_ticker_step(&scheduler->ticker, ret_sleep_ms, err);
    }
    if (status == QUERN_OK && scheduler->leader.has_seen_one &&
        !atomic_exchange(&scheduler->is_ready, true)) {
        QN_LOG(&scheduler->log, QUERN_LOG_INFO, "scheduler is ready",
               QN_LOG_TEXT("scheduler", scheduler->leader.id));
    }
    return status;
}

/* Nothing that waiting would change. */
static bool is_lasting(quern_status status)
{
    return status == QUERN_E_UNSUPPORTED || status == QUERN_E_DENIED || status == QUERN_E_CLOSED ||
           status == QUERN_E_INVALID;
}

/* One attempt to open the broker, else one step. */
static quern_status advance(struct quern_scheduler *scheduler, int64_t *ret_sleep_ms,
                            quern_error *err)
{
    quern_status status = QUERN_OK;
    if (scheduler->url != NULL) {
        status = qn_scheduler_open(scheduler, scheduler->url, err);
        if (status != QUERN_OK) {
            return status;
        }
        qn_secret_free(scheduler->url);
        scheduler->url = NULL;
    }
    if (atomic_exchange(&scheduler->reload_asked, false)) {
        status = qn_scheduler_reload_all(scheduler, err);
    }
    return status == QUERN_OK ? step(scheduler, ret_sleep_ms, err) : status;
}

static bool must_end(const struct quern_scheduler *scheduler, quern_status status, quern_error *err)
{
    const struct qn_outage *outage = &scheduler->outage;
    if (qn_pace_ends(&outage->pace, outage->failures + (scheduler->url != NULL ? 2 : 1))) {
        return true;
    }
    if (scheduler->url != NULL) {
        return !qn_broker_may_come(scheduler->url, status);
    }
    return is_lasting(status) || qn_broker_is_gone(scheduler->broker, err);
}

static quern_status loop(struct quern_scheduler *scheduler, quern_error *err)
{
    while (atomic_load(&scheduler->stops) == 0) {
        int64_t sleep_ms = QN_TICKER_STEP_MS;
        atomic_store(&scheduler->stepped_at_mono_ns, qn_clock_mono_ns());
        quern_error error = {0};
        quern_status status = advance(scheduler, &sleep_ms, &error);
        if (status == QUERN_OK) {
            qn_outage_end(&scheduler->outage);
        } else if (must_end(scheduler, status, &error)) {
            if (err != NULL) {
                *err = error;
            }
            return error.code != QUERN_OK ? error.code : status;
        } else {
            sleep_ms =
                qn_outage_fail(&scheduler->outage, &error, qn_clock_boot_ms(scheduler->clock));
        }
        if (atomic_load(&scheduler->stops) == 0) {
            sleep_for(scheduler, sleep_ms);
        }
    }
    return QUERN_OK;
}

static quern_status claim(struct quern_scheduler *scheduler, quern_error *err)
{
    if (scheduler == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "scheduler: must not be NULL");
    }
    if (getpid() != scheduler->opener_pid) {
        return qn_error_set(err, QUERN_E_CLOSED, "scheduler belongs to the process that forked");
    }
    (void)pthread_mutex_lock(&scheduler->mutex);
    bool fresh = !scheduler->has_run;
    scheduler->has_run = true;
    (void)pthread_mutex_unlock(&scheduler->mutex);
    return fresh ? QUERN_OK : qn_error_set(err, QUERN_E_STATE, "scheduler has already run");
}

/* What fails here ends by itself. */
static void end_leading(struct quern_scheduler *scheduler)
{
    const struct qn_record none = {.id = scheduler->leader.id};
    quern_error error = {0};
    qn_broker_set_patience(scheduler->broker, HURRY_MS, true);
    if (qn_schedule_record(scheduler->broker, &none, &error) != QUERN_OK) {
        QN_LOG(&scheduler->log, QUERN_LOG_WARN, "record for other programs was not removed",
               QN_LOG_TEXT("error", error.text));
    }
    qn_leader_give_back(&scheduler->leader);
}

quern_status quern_scheduler_run(quern_scheduler *scheduler, quern_error *err)
{
    quern_status status = claim(scheduler, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = loop(scheduler, err);
    atomic_store(&scheduler->is_ready, false);
    atomic_store(&scheduler->stepped_at_mono_ns, 0);
    if (scheduler->broker != NULL && scheduler->leader.leads) {
        end_leading(scheduler);
    }
    QN_LOG(&scheduler->log, QUERN_LOG_INFO, "scheduler ends",
           QN_LOG_TEXT("scheduler", scheduler->leader.id));
    return status;
}

static quern_status run_object(void *object, quern_error *err)
{
    return quern_scheduler_run(object, err);
}

static void stop_object(void *object)
{
    quern_scheduler_stop(object);
}

quern_status quern_scheduler_run_until_signal(quern_scheduler *scheduler, quern_error *err)
{
    if (scheduler == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "scheduler: must not be NULL");
    }
    const struct qn_until_signal activity = {
        .run = run_object, .stop = stop_object, .object = scheduler};
    return qn_until_signal_run(&activity, err);
}
