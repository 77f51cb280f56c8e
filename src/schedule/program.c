/* SPDX-License-Identifier: MIT */
/* program.c - the entries that a program gives to its scheduler, and their way into the broker.
 *
 * They are stored when the scheduler starts, and when they have changed since: two programs of
 * different versions with one name do not undo each other's entries all the time, but only when
 * one of them starts. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "schedule/entry_info.h"
#include "schedule/origin.h"
#include "schedule/scheduler.h"

/* --- Registering ---------------------------------------------------------------------- */

static quern_status need_program(const struct quern_scheduler *scheduler, quern_error *err)
{
    return scheduler->origin != NULL
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_INVALID,
                              "scheduler options: program is needed for entries of a program");
}

static void note_change(struct quern_scheduler *scheduler)
{
    scheduler->was_registered = true;
    scheduler->has_changed = true;
}

quern_status quern_scheduler_register_sized(quern_scheduler *scheduler, const quern_entry *entry,
                                            size_t entry_size, const quern_task *task,
                                            size_t task_size, quern_error *err)
{
    if (scheduler == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "scheduler: must not be NULL");
    }
    quern_status status = need_program(scheduler, err);
    if (status != QUERN_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&scheduler->mutex);
    status =
        quern_entry_set_add_sized(&scheduler->registered, entry, entry_size, task, task_size, err);
    if (status == QUERN_OK) {
        note_change(scheduler);
    }
    (void)pthread_mutex_unlock(&scheduler->mutex);
    return status;
}

quern_status quern_scheduler_unregister(quern_scheduler *scheduler, const char *queue,
                                        const char *name, quern_error *err)
{
    if (scheduler == NULL || name == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            scheduler == NULL ? "scheduler" : "name");
    }
    (void)pthread_mutex_lock(&scheduler->mutex);
    quern_status status =
        qn_entry_set_remove(&scheduler->registered, queue != NULL ? queue : "default", name, err);
    if (status == QUERN_OK) {
        note_change(scheduler);
    }
    (void)pthread_mutex_unlock(&scheduler->mutex);
    return status;
}

/* --- Storing -------------------------------------------------------------------------- */

/* The registered entries and those of the callback. QUERN_E_CONFLICT and other errors of the
 * callback: the set cannot be used. */
static quern_status collect(struct quern_scheduler *scheduler, struct quern_entry_set *set,
                            quern_error *err)
{
    *set = (struct quern_entry_set){.origin = scheduler->origin,
                                    .default_zone = scheduler->options.zone,
                                    .zones = scheduler->zones,
                                    .clock = scheduler->clock,
                                    .broker = scheduler->broker};
    (void)pthread_mutex_lock(&scheduler->mutex);
    scheduler->has_changed = false;
    quern_status status = qn_entry_set_add_all(set, &scheduler->registered, err);
    (void)pthread_mutex_unlock(&scheduler->mutex);
    if (status == QUERN_OK && scheduler->options.on_entries != NULL) {
        status = scheduler->options.on_entries(set, scheduler->options.user);
        if (status != QUERN_OK) {
            (void)qn_error_set(err, status, "on_entries has returned %s",
                               quern_status_name(status));
        }
    }
    return status;
}

/* They were registered before it was known what the broker offers. */
static void drop_unsupported(struct quern_scheduler *scheduler, struct quern_entry_set *set)
{
    for (size_t i = set->count; i-- > 0;) {
        quern_error error = {0};
        const struct qn_schedule_entry *entry = &set->entries[i];
        if (qn_schedule_check_offered(scheduler->broker, &entry->task, &error) == QUERN_OK) {
            continue;
        }
        QN_LOG(&scheduler->log, QUERN_LOG_ERROR, "entry was refused",
               QN_LOG_TEXT("entry", entry->name), QN_LOG_TEXT("queue", entry->task.queue),
               QN_LOG_TEXT("error", error.text));
        quern_status removed = qn_entry_set_remove(set, entry->task.queue, entry->name, NULL);
        QN_ASSERT(removed == QUERN_OK);
    }
}

static quern_status store(struct quern_scheduler *scheduler, const struct quern_entry_set *set,
                          quern_error *err)
{
    const struct qn_origin origin = {.name = scheduler->origin,
                                     .entries = set->entries,
                                     .count = set->count,
                                     .allow_empty = scheduler->options.allow_empty ||
                                                    scheduler->options.on_entries == NULL};
    uint64_t hash = qn_origin_hash(&origin);
    bool done = false;
    if (!scheduler->must_sync && hash == scheduler->synced_hash) {
        return QUERN_OK;
    }
    scheduler->must_sync = true; /* until it is done */
    quern_status status = qn_origin_sync(scheduler->broker, &scheduler->log, &origin, &done, err);
    if (status == QUERN_OK && done) {
        scheduler->must_sync = false;
        scheduler->synced_hash = hash;
    }
    return status;
}

quern_status qn_program_sync(struct quern_scheduler *scheduler, quern_error *err)
{
    int64_t boot_ms = qn_clock_boot_ms(scheduler->clock);
    struct quern_entry_set set;
    quern_error error = {0};
    (void)pthread_mutex_lock(&scheduler->mutex);
    bool has_some = scheduler->was_registered || scheduler->options.on_entries != NULL;
    bool has_changed = scheduler->has_changed;
    (void)pthread_mutex_unlock(&scheduler->mutex);
    bool is_asked = scheduler->options.on_entries != NULL &&
                    boot_ms - scheduler->asked_at_boot_ms >= scheduler->options.sync_ms;
    if (!has_some || (!has_changed && !is_asked && !scheduler->must_sync)) {
        return QUERN_OK;
    }
    scheduler->asked_at_boot_ms = boot_ms;
    quern_status status = collect(scheduler, &set, &error);
    if (status == QUERN_OK) {
        drop_unsupported(scheduler, &set);
        status = store(scheduler, &set, err);
    } else {
        QN_LOG(&scheduler->log, QUERN_LOG_ERROR, "entries of the program stay as they were",
               QN_LOG_TEXT("error", error.text));
        scheduler->must_sync = false; /* asked again when it is due */
        status = QUERN_OK;
    }
    qn_entry_set_finish(&set);
    return status;
}

/* --- Listing -------------------------------------------------------------------------- */

struct listing {
    bool (*on_entry)(const quern_entry_info *info, void *user);
    void *user;
    struct qn_zones zones;
    struct qn_arena arena; /* of one entry */
    quern_status status;
};

static bool report(const struct qn_schedule_entry *entry, void *user)
{
    struct listing *listing = user;
    quern_entry_info info;
    qn_arena_reset(&listing->arena);
    listing->status = qn_entry_info_make(entry, &listing->zones, &listing->arena, &info, NULL);
    return listing->status == QUERN_OK && listing->on_entry(&info, listing->user);
}

quern_status quern_scheduler_list(quern_scheduler *scheduler,
                                  bool (*on_entry)(const quern_entry_info *info, void *user),
                                  void *user, quern_error *err)
{
    if (scheduler == NULL || on_entry == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            scheduler == NULL ? "scheduler" : "on_entry");
    }
    (void)pthread_mutex_lock(&scheduler->mutex);
    struct qn_broker *broker = scheduler->broker;
    (void)pthread_mutex_unlock(&scheduler->mutex);
    if (broker == NULL) {
        return qn_error_set(err, QUERN_E_STATE, "the broker was not available so far");
    }
    struct listing listing = {.on_entry = on_entry, .user = user};
    const struct qn_entry_filter all = {.queue = NULL};
    quern_status status = qn_zones_init(&listing.zones, NULL, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_schedule_list(broker, &all, report, &listing, err);
    if (status == QUERN_OK && listing.status != QUERN_OK) {
        status = qn_error_nomem(err);
    }
    qn_arena_finish(&listing.arena);
    qn_zones_finish(&listing.zones);
    return status;
}
