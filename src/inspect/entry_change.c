/* SPDX-License-Identifier: MIT */
/* entry_change.c - adds, replaces, pauses, removes and triggers stored entries.
 *
 * An entry of a file or a program is changed by its owner: an operator who replaces or removes it
 * has to insist. Between the look at the stored entry and the change another one may come: the
 * revision shows it, and the look is repeated. */
#include <string.h>

#include "base/error.h"
#include "broker/find.h"
#include "broker/task_info.h"
#include "inspect/entries.h"

#define TRIES 8 /* of a change that another one comes before */

static bool is_foreign(const struct qn_schedule_entry *entry)
{
    return strncmp(entry->origin == NULL ? "" : entry->origin, "file:", 5) == 0 ||
           strncmp(entry->origin == NULL ? "" : entry->origin, "code:", 5) == 0;
}

static quern_status refuse_foreign(const struct qn_schedule_entry *entry, quern_error *err)
{
    return qn_error_set(err, QUERN_E_STATE,
                        "entry \"%s\" of queue \"%s\" belongs to %s: change it there, or force it",
                        entry->name, entry->task.queue, entry->origin);
}

/* --- put ------------------------------------------------------------------------------ */

/* The revision that is replaced, or QN_REVISION_NONE. */
static quern_status choose_revision(quern_inspector *inspector,
                                    const struct qn_schedule_entry *entry, quern_entry_put what,
                                    uint64_t *ret_revision, quern_error *err)
{
    const struct qn_entry_filter filter = {.queue = entry->task.queue, .name = entry->name};
    struct qn_arena arena = {0};
    struct qn_schedule_entry stored;
    quern_status status = qn_inspect_find_entry(inspector, &filter, &arena, &stored, err);
    *ret_revision = QN_REVISION_NONE;
    if (status == QUERN_E_NOT_FOUND) {
        status = QUERN_OK;
    } else if (status == QUERN_OK && is_foreign(&stored) && what == QUERN_ENTRY_REPLACE) {
        status = refuse_foreign(&stored, err);
    } else if (status == QUERN_OK) {
        *ret_revision = stored.revision;
    }
    qn_arena_finish(&arena);
    return status;
}

static quern_status put_once(quern_inspector *inspector, const struct qn_schedule_entry *entry,
                             quern_entry_put what, struct qn_put *put, quern_error *err)
{
    *put = (struct qn_put){.entry = entry, .expected = QN_REVISION_NONE};
    quern_status status = QUERN_OK;
    if (what != QUERN_ENTRY_ADD) {
        status = choose_revision(inspector, entry, what, &put->expected, err);
    }
    return status == QUERN_OK ? qn_schedule_put(inspector->broker, put, 1, err) : status;
}

static quern_status put_entry(quern_inspector *inspector, const struct qn_schedule_entry *entry,
                              quern_entry_put what, quern_error *err)
{
    for (int i = 0; i < TRIES; i++) {
        struct qn_put put;
        quern_status status = put_once(inspector, entry, what, &put, err);
        if (status != QUERN_OK) {
            return status;
        }
        switch (put.result) {
        case QN_PUT_ADDED:
        case QN_PUT_REPLACED:
        case QN_PUT_SAME:
            return QUERN_OK;
        case QN_PUT_FULL:
            return qn_error_set(err, QUERN_E_FULL, "%d entries are stored, which is the limit",
                                QN_ENTRIES_MAX);
        case QN_PUT_EXISTS:
            if (what == QUERN_ENTRY_ADD) {
                return qn_error_set(err, QUERN_E_CONFLICT,
                                    "queue \"%s\" has an entry \"%s\" already", entry->task.queue,
                                    entry->name);
            }
            break;
        case QN_PUT_CHANGED:
        case QN_PUT_GONE:
            break;
        }
    }
    return qn_error_set(err, QUERN_E_BUSY, "entry \"%s\": others change it all the time",
                        entry->name);
}

static quern_status check_put(const struct quern_entry_put_sized *put, quern_entry_put what,
                              quern_error *err)
{
    if (put == NULL || put->entry == NULL || put->task == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            put == NULL || put->entry == NULL ? "entry" : "task");
    }
    if ((int)what < QUERN_ENTRY_ADD || (int)what > QUERN_ENTRY_FORCE) {
        return qn_error_set(err, QUERN_E_INVALID, "%d is no way to put an entry", (int)what);
    }
    return QUERN_OK;
}

static quern_status make_and_put(quern_inspector *inspector, const struct qn_entry_given *given,
                                 quern_entry_put what, quern_error *err)
{
    struct qn_zones zones;
    struct qn_arena arena = {0};
    struct qn_schedule_entry entry;
    quern_status status = qn_zones_init(&zones, NULL, err);
    if (status != QUERN_OK) {
        return status;
    }
    const struct qn_entry_terms terms = {.zones = &zones,
                                         .now_ms = qn_clock_wall_ms(qn_clock_system()),
                                         .broker = inspector->broker};
    status = qn_entry_make(given, &terms, &arena, &entry, err);
    if (status == QUERN_OK) {
        status = put_entry(inspector, &entry, what, err);
    }
    qn_arena_finish(&arena);
    qn_zones_finish(&zones);
    return status;
}

quern_status quern_inspector_put_entry_sized(quern_inspector *inspector,
                                             const struct quern_entry_put_sized *put,
                                             quern_entry_put what, quern_error *err)
{
    struct qn_entry_given given = {.origin = "cli"};
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK) {
        status = check_put(put, what, err);
    }
    if (status == QUERN_OK) {
        status = qn_entry_read_given((struct qn_bytes){put->entry, put->entry_size},
                                     (struct qn_bytes){put->task, put->task_size}, &given, err);
    }
    return status == QUERN_OK ? make_and_put(inspector, &given, what, err) : status;
}

/* --- pause, resume, remove ------------------------------------------------------------ */

quern_status quern_inspector_pause_entry(quern_inspector *inspector, const char *queue,
                                         const char *name, quern_entry_pause what, quern_error *err)
{
    static const enum qn_entry_pause known[] = {
        [QUERN_ENTRY_PAUSE] = QN_ENTRY_PAUSE,
        [QUERN_ENTRY_RESUME] = QN_ENTRY_RESUME,
        [QUERN_ENTRY_CATCH_UP] = QN_ENTRY_CATCH_UP,
        [QUERN_ENTRY_RESET] = QN_ENTRY_RESET,
    };
    const struct qn_entry_filter filter = {.queue = queue, .name = name};
    struct qn_arena arena = {0};
    struct qn_schedule_entry entry;
    if ((int)what < QUERN_ENTRY_PAUSE || (int)what > QUERN_ENTRY_RESET) {
        return qn_error_set(err, QUERN_E_INVALID, "%d is no kind of pause", (int)what);
    }
    quern_status status = qn_inspect_find_entry(inspector, &filter, &arena, &entry, err);
    if (status == QUERN_OK) {
        const struct qn_entry_key key = {
            .queue = entry.task.queue, .name = name, .revision = QN_REVISION_ANY};
        status = qn_schedule_pause(inspector->broker, &key, known[what], err);
    }
    qn_arena_finish(&arena);
    return status;
}

quern_status quern_inspector_remove_entry(quern_inspector *inspector, const char *queue,
                                          const char *name, bool force, quern_error *err)
{
    const struct qn_entry_filter filter = {.queue = queue, .name = name};
    quern_status status = QUERN_E_CONFLICT;
    for (int i = 0; i < TRIES && status == QUERN_E_CONFLICT; i++) {
        struct qn_arena arena = {0};
        struct qn_schedule_entry entry;
        status = qn_inspect_find_entry(inspector, &filter, &arena, &entry, err);
        if (status == QUERN_OK && is_foreign(&entry) && !force) {
            status = refuse_foreign(&entry, err);
        } else if (status == QUERN_OK) {
            const struct qn_entry_key key = {.queue = entry.task.queue,
                                             .name = name,
                                             .revision = force ? QN_REVISION_ANY : entry.revision};
            status = qn_schedule_remove(inspector->broker, &key, err);
        }
        qn_arena_finish(&arena);
    }
    return status;
}

/* --- trigger -------------------------------------------------------------------------- */

static quern_status make_task(const struct qn_schedule_entry *entry, int64_t now_ms,
                              struct qn_arena *arena, struct qn_task *ret_task, quern_error *err)
{
    struct qn_id_source ids;
    char uuid[QN_ID_TEXT_SIZE];
    struct qn_task task = entry->task;
    quern_header *headers = qn_arena_alloc(arena, (task.header_count + 1) * sizeof *headers);
    qn_id_source_init(&ids);
    qn_id_next(&ids, now_ms, uuid);
    task.id = qn_arena_printf(arena, "%s@%s", entry->name, uuid);
    if (headers == NULL || task.id == NULL) {
        return qn_error_nomem(err);
    }
    if (task.header_count > 0) {
        memcpy(headers, task.headers, task.header_count * sizeof *headers);
    }
    headers[task.header_count++] = (quern_header){.name = "quern-entry", .value = entry->name};
    task.headers = headers;
    task.process_at_ms = 0;
    task.delay_ms = 0;
    task.start_by_at_ms += task.start_by_at_ms != 0 ? now_ms : 0;
    task.state = task.group != NULL ? QUERN_TASK_AGGREGATING : QUERN_TASK_PENDING;
    *ret_task = task;
    return QUERN_OK;
}

struct triggering {
    quern_inspector *inspector;
    struct qn_arena arena;
    struct quern_task_info info; /* of the task that was made */
    const char *holder;          /* the task that stands for it; NULL: it was stored */
};

static quern_status trigger(struct triggering *triggering, const struct qn_schedule_entry *entry,
                            quern_error *err)
{
    quern_inspector *inspector = triggering->inspector;
    const struct qn_lead look = {.what = QN_LEAD_LOOK, .owner = "", .id = ""};
    struct qn_lead_reply reply;
    struct qn_random random;
    if (entry->fault != NULL) {
        return qn_error_set(err, QUERN_E_CORRUPT, "entry \"%s\" of queue \"%s\": %s", entry->name,
                            entry->task.queue, entry->fault);
    }
    quern_status status = qn_schedule_lead(inspector->broker, &look, &reply, err);
    if (status == QUERN_OK) {
        status = make_task(entry, reply.now_ms, &triggering->arena, &triggering->info.task, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    qn_random_init(&random);
    const struct qn_trigger trigger = {.stamp = {.session = qn_random_next(&random), .sequence = 1},
                                       .name = entry->name,
                                       .task = &triggering->info.task,
                                       .ret_holder = &triggering->holder,
                                       .arena = &triggering->arena};
    return qn_schedule_trigger(inspector->broker, &trigger, err);
}

/* Of the holder of the lock, or where that is gone by now what is known of it. */
static quern_status make_info(struct triggering *triggering, quern_task_info **ret_info,
                              quern_error *err)
{
    if (triggering->holder != NULL) {
        if (qn_find_task(triggering->inspector->broker, triggering->info.task.queue,
                         triggering->holder, ret_info, NULL) == QUERN_OK) {
            return QUERN_OK;
        }
        triggering->info.task.id = triggering->holder;
    }
    *ret_info = qn_task_info_copy(&triggering->info);
    return *ret_info == NULL ? qn_error_nomem(err) : QUERN_OK;
}

quern_status quern_inspector_trigger_entry(quern_inspector *inspector, const char *queue,
                                           const char *name, quern_task_info **ret_info,
                                           quern_error *err)
{
    const struct qn_entry_filter filter = {.queue = queue, .name = name};
    struct qn_schedule_entry entry;
    struct triggering triggering = {
        .inspector = inspector,
        .info = {.error = "", .worker = "", .progress = -1, .progress_note = ""}};
    quern_status status = qn_inspect_find_entry(inspector, &filter, &triggering.arena, &entry, err);
    if (status == QUERN_OK) {
        status = trigger(&triggering, &entry, err);
    }
    if (status == QUERN_OK && ret_info != NULL) {
        status = make_info(&triggering, ret_info, err);
    }
    qn_arena_finish(&triggering.arena);
    return status;
}
