/* SPDX-License-Identifier: MIT */
/* origin.c - makes the stored entries of one origin equal to a given set.
 *
 * Each change names the revision that was read, so two programs with one origin never undo a change
 * that they have not seen. What is refused for that reason is tried with the next sync. */
#include "schedule/origin.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "base/text/hash.h"
#include "broker/schedule/template.h"
#include "task/limits.h"

/* A stored entry. */
struct stored {
    const char *name; /* in the arena, as queue */
    const char *queue;
    uint64_t revision;
    int64_t last_s;
    bool is_ours;
    bool is_given;
    bool is_paused;
};

struct syncing {
    struct qn_broker *broker;
    struct qn_log *log;
    const struct qn_origin *origin;
    struct qn_arena arena;
    struct stored *stored; /* by name and queue; qn_free */
    size_t count;
    size_t capacity;
    bool is_short; /* of memory */
    bool done;
    struct qn_put puts[QN_BATCH_MAX];
    struct qn_schedule_entry moved[QN_BATCH_MAX]; /* with the last tick from their old queue */
    size_t put_count;
    quern_error *err;
};

/* --- What is stored ------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const struct stored *a = left;
    const struct stored *b = right;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : strcmp(a->queue, b->queue);
}

static bool add_stored(const struct qn_schedule_entry *entry, void *user)
{
    struct syncing *syncing = user;
    struct stored *items =
        qn_vec_grow(syncing->stored, syncing->count, &syncing->capacity, sizeof *items);
    syncing->stored = items != NULL ? items : syncing->stored;
    const char *name = qn_arena_strdup(&syncing->arena, entry->name);
    const char *queue = qn_arena_strdup(&syncing->arena, entry->task.queue);
    if (items == NULL || name == NULL || queue == NULL) {
        syncing->is_short = true;
        return false;
    }
    items[syncing->count++] = (struct stored){
        .name = name,
        .queue = queue,
        .revision = entry->revision,
        .last_s = entry->last_s,
        .is_ours = entry->fault == NULL && strcmp(entry->origin, syncing->origin->name) == 0,
        .is_paused = entry->paused_at_ms != 0};
    return true;
}

static quern_status read_stored(struct syncing *syncing)
{
    const struct qn_entry_filter all = {.queue = NULL};
    quern_status status =
        qn_schedule_list(syncing->broker, &all, add_stored, syncing, syncing->err);
    if (status == QUERN_OK && syncing->is_short) {
        status = qn_error_nomem(syncing->err);
    }
    if (status == QUERN_OK && syncing->count > 0) {
        qsort(syncing->stored, syncing->count, sizeof *syncing->stored, compare);
    }
    return status;
}

static struct stored *find(const struct syncing *syncing, const char *queue, const char *name)
{
    const struct stored key = {.name = name, .queue = queue};
    return syncing->count == 0
               ? NULL
               : bsearch(&key, syncing->stored, syncing->count, sizeof *syncing->stored, compare);
}

static void mark_given(const struct syncing *syncing)
{
    for (size_t i = 0; i < syncing->origin->count; i++) {
        const struct qn_schedule_entry *entry = &syncing->origin->entries[i];
        struct stored *stored = find(syncing, entry->task.queue, entry->name);
        if (stored != NULL) {
            stored->is_given = true;
        }
    }
}

static bool is_empty_by_mistake(const struct syncing *syncing)
{
    const struct qn_origin *origin = syncing->origin;
    bool is_empty = origin->count == 0 && origin->kept_count == 0 && !origin->allow_empty;
    for (size_t i = 0; is_empty && i < syncing->count; i++) {
        if (syncing->stored[i].is_ours) {
            QN_LOG(syncing->log, QUERN_LOG_WARN, "empty set of entries was ignored",
                   QN_LOG_TEXT("origin", origin->name));
            return true;
        }
    }
    return false;
}

/* --- Changes -------------------------------------------------------------------------- */

static void log_change(const struct syncing *syncing, quern_log_level level, const char *message,
                       const struct qn_entry_key *key)
{
    QN_LOG(syncing->log, level, message, QN_LOG_TEXT("entry", key->name),
           QN_LOG_TEXT("queue", key->queue), QN_LOG_TEXT("origin", syncing->origin->name));
}

static void note_put(struct syncing *syncing, const struct qn_put *put)
{
    const struct qn_entry_key key = {.queue = put->entry->task.queue, .name = put->entry->name};
    switch (put->result) {
    case QN_PUT_ADDED:
        log_change(syncing, QUERN_LOG_INFO, "entry was added", &key);
        break;
    case QN_PUT_REPLACED:
        log_change(syncing, QUERN_LOG_INFO, "entry was changed", &key);
        break;
    case QN_PUT_SAME:
        break;
    case QN_PUT_EXISTS:
    case QN_PUT_CHANGED:
    case QN_PUT_GONE:
        syncing->done = false;
        break;
    case QN_PUT_FULL:
        log_change(syncing, QUERN_LOG_ERROR, "entry was not added, there are too many", &key);
        break;
    }
}

static quern_status flush_puts(struct syncing *syncing)
{
    size_t count = syncing->put_count;
    quern_status status =
        count == 0 ? QUERN_OK
                   : qn_schedule_put(syncing->broker, syncing->puts, count, syncing->err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        note_put(syncing, &syncing->puts[i]);
    }
    syncing->put_count = 0;
    return status;
}

/* The entry that had this name in another queue; NULL: none. */
static const struct stored *find_moved(const struct syncing *syncing, const char *name)
{
    for (size_t i = 0; i < syncing->count; i++) {
        const struct stored *stored = &syncing->stored[i];
        if (stored->is_ours && !stored->is_given && strcmp(stored->name, name) == 0) {
            return stored;
        }
    }
    return NULL;
}

/* From here on the old one sends nothing, and is removed in the end. */
static quern_status begin_move(struct syncing *syncing, const struct stored *old,
                               struct qn_schedule_entry *entry)
{
    const struct qn_entry_key key = {
        .queue = old->queue, .name = old->name, .revision = QN_REVISION_ANY};
    quern_status status = qn_schedule_pause(syncing->broker, &key, QN_ENTRY_PAUSE, syncing->err);
    if (status == QUERN_E_STATE || status == QUERN_E_NOT_FOUND) {
        status = QUERN_OK;
    }
    entry->last_s = old->last_s;
    return status;
}

static quern_status put_entry(struct syncing *syncing, const struct qn_schedule_entry *given)
{
    const struct stored *stored = find(syncing, given->task.queue, given->name);
    const struct qn_entry_key key = {.queue = given->task.queue, .name = given->name};
    if (stored != NULL && !stored->is_ours) {
        log_change(syncing, QUERN_LOG_WARN, "entry belongs to another origin, and stays", &key);
        return QUERN_OK;
    }
    quern_status status = QUERN_OK;
    struct qn_schedule_entry *entry = &syncing->moved[syncing->put_count];
    *entry = *given;
    const struct stored *old = stored == NULL ? find_moved(syncing, given->name) : NULL;
    if (old != NULL) {
        status = begin_move(syncing, old, entry);
    }
    syncing->puts[syncing->put_count++] = (struct qn_put){
        .entry = entry, .expected = stored != NULL ? stored->revision : QN_REVISION_NONE};
    if (status == QUERN_OK && syncing->put_count == QN_BATCH_MAX) {
        status = flush_puts(syncing);
    }
    return status;
}

/* "" is a section whose name cannot be read: it may be that of any entry. */
static bool is_kept(const struct qn_origin *origin, const char *name)
{
    for (size_t i = 0; i < origin->kept_count; i++) {
        if (origin->kept[i][0] == '\0' || strcmp(origin->kept[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static quern_status remove_rest(struct syncing *syncing)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < syncing->count; i++) {
        const struct stored *stored = &syncing->stored[i];
        if (!stored->is_ours || stored->is_given || is_kept(syncing->origin, stored->name)) {
            continue;
        }
        const struct qn_entry_key key = {
            .queue = stored->queue, .name = stored->name, .revision = QN_REVISION_ANY};
        status = qn_schedule_remove(syncing->broker, &key, syncing->err);
        if (status == QUERN_OK) {
            log_change(syncing, QUERN_LOG_INFO, "entry was removed", &key);
        } else if (status == QUERN_E_NOT_FOUND) {
            status = QUERN_OK; /* by another scheduler with this origin */
        }
    }
    return status;
}

quern_status qn_origin_sync(struct qn_broker *broker, struct qn_log *log,
                            const struct qn_origin *origin, bool *ret_done, quern_error *err)
{
    struct syncing *syncing = qn_alloc_zero(1, sizeof *syncing);
    if (syncing == NULL) {
        return qn_error_nomem(err);
    }
    syncing->broker = broker;
    syncing->log = log;
    syncing->origin = origin;
    syncing->done = true;
    syncing->err = err;
    quern_status status = read_stored(syncing);
    if (status == QUERN_OK && !is_empty_by_mistake(syncing)) {
        mark_given(syncing);
        for (size_t i = 0; status == QUERN_OK && i < origin->count; i++) {
            status = put_entry(syncing, &origin->entries[i]);
        }
        status = status == QUERN_OK ? flush_puts(syncing) : status;
        if (status == QUERN_OK && syncing->done) { /* a moved entry is there before it goes */
            status = remove_rest(syncing);
        }
    }
    if (status == QUERN_OK) {
        *ret_done = syncing->done;
    }
    qn_arena_finish(&syncing->arena);
    qn_free(syncing->stored);
    qn_free(syncing);
    return status;
}

/* --- The hash ------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return qn_hash_part(hash, text, strlen(text) + 1);
}

static uint64_t hash_entry(uint64_t hash, const struct qn_schedule_entry *entry)
{
    const int64_t numbers[] = {entry->with_seconds, (int64_t)entry->misfire, entry->misfire_max,
                               entry->late_ms, entry->jitter_ms};
    struct qn_buf buf;
    qn_buf_init(&buf, 2 * QN_ENTRY_SIZE_MAX);
    hash = hash_text(hash, entry->name);
    hash = hash_text(hash, entry->task.queue);
    hash = hash_text(hash, entry->cron);
    hash = hash_text(hash, entry->zone);
    hash = qn_hash_part(hash, numbers, sizeof numbers);
    if (qn_template_encode(&buf, &entry->task, NULL) == QUERN_OK && buf.size > 0) {
        hash = qn_hash_part(hash, buf.data, buf.size);
    }
    qn_buf_finish(&buf);
    return hash;
}

uint64_t qn_origin_hash(const struct qn_origin *origin)
{
    uint64_t hash = QN_HASH_START;
    for (size_t i = 0; i < origin->count; i++) {
        hash = hash_entry(hash, &origin->entries[i]);
    }
    return hash;
}
