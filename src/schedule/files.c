/* SPDX-License-Identifier: MIT */
/* files.c - watches the files with entries, and stores what they have.
 *
 * Editors write a new file and rename it, so the folder is watched and not the file. Only a file
 * that was closed after it was written, or renamed, is known to be complete; what happens to other
 * files of the folder does not matter, unless the file is a symbolic link, which may lead through
 * one that was renamed. Where nothing can be watched (a network file system) a look each 5 s finds
 * the change, and the file is read when it has not changed between two looks. A half of a file
 * would remove the entries of the other half, with their pauses. A file that cannot be read changes
 * nothing: neither does a section with a fault. Where reading may work later (no descriptor is
 * free) it is tried with each look. */
#include "schedule/files.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "schedule/conf.h"
#include "schedule/origin.h"

#define EVENTS_SIZE 4096

/* --- Watching ------------------------------------------------------------------------- */

static struct qn_file_mark look_at(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return (struct qn_file_mark){.exists = false};
    }
    return (struct qn_file_mark){.exists = true,
                                 .device = info.st_dev,
                                 .number = info.st_ino,
                                 .size = info.st_size,
                                 .changed_at = info.st_mtim};
}

static bool is_same(const struct qn_file_mark *a, const struct qn_file_mark *b)
{
    return a->exists == b->exists && a->device == b->device && a->number == b->number &&
           a->size == b->size && a->changed_at.tv_sec == b->changed_at.tv_sec &&
           a->changed_at.tv_nsec == b->changed_at.tv_nsec;
}

static void watch(const struct qn_schedule_files *files, const char *path)
{
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", path);
    if (files->watch_fd >= 0) {
        /* If this fails the looks are left. */
        (void)inotify_add_watch(files->watch_fd, dirname(copy), IN_CLOSE_WRITE | IN_MOVED_TO);
    }
}

static bool is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

static void take_notice(const struct qn_schedule_files *files, const struct inotify_event *event)
{
    for (size_t i = 0; event->len > 0 && i < files->count; i++) {
        struct qn_schedule_file *file = &files->items[i];
        const char *slash = strrchr(file->path, '/');
        bool is_own = strcmp(slash == NULL ? file->path : slash + 1, event->name) == 0;
        bool is_way = (event->mask & IN_MOVED_TO) != 0 && is_link(file->path);
        file->is_noticed = file->is_noticed || is_own || is_way;
    }
}

static bool take_notices(const struct qn_schedule_files *files)
{
    _Alignas(struct inotify_event) char events[EVENTS_SIZE];
    ssize_t size = 0;
    while (files->watch_fd >= 0 && (size = read(files->watch_fd, events, sizeof events)) > 0) {
        for (const char *at = events; at < events + size;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            take_notice(files, event);
            at += sizeof *event + event->len;
        }
    }
    bool any = false;
    for (size_t i = 0; i < files->count; i++) {
        any = any || files->items[i].is_noticed;
    }
    return any;
}

static quern_status add_file(struct qn_schedule_files *files, const char *path, quern_error *err)
{
    char whole[PATH_MAX];
    char folder[PATH_MAX] = "";
    if (path[0] != '/' && getcwd(folder, sizeof folder) == NULL) {
        folder[0] = '\0';
    }
    int size = snprintf(whole, sizeof whole, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", path);
    if (path[0] == '\0' || size < 0 || (size_t)size >= sizeof whole) {
        return qn_error_set(err, QUERN_E_INVALID, "the path of a file with entries is %s",
                            path[0] == '\0' ? "empty" : "too long");
    }
    struct qn_schedule_file *file = &files->items[files->count];
    size_t origin_size = sizeof "file:" + (size_t)size;
    file->path = qn_str_dup(whole);
    file->origin = qn_alloc(origin_size);
    file->must_sync = true;
    files->count++;
    if (file->path == NULL || file->origin == NULL) {
        return qn_error_nomem(err);
    }
    (void)snprintf(file->origin, origin_size, "file:%s", whole);
    watch(files, whole);
    return QUERN_OK;
}

quern_status qn_files_init(struct qn_schedule_files *files, const char *const *paths, size_t count,
                           quern_error *err)
{
    *files = (struct qn_schedule_files){.watch_fd = -1};
    if (count == 0) {
        return QUERN_OK;
    }
    if (count > QN_SCHEDULE_FILES_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "%zu files, at most %d are allowed", count,
                            QN_SCHEDULE_FILES_MAX);
    }
    files->items = qn_alloc_zero(count, sizeof *files->items);
    if (files->items == NULL) {
        return qn_error_nomem(err);
    }
    files->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = add_file(files, paths[i], err);
    }
    return status;
}

void qn_files_finish(struct qn_schedule_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        qn_free(files->items[i].path);
        qn_free(files->items[i].origin);
    }
    qn_free(files->items);
    if (files->watch_fd >= 0) {
        (void)close(files->watch_fd);
    }
    *files = (struct qn_schedule_files){.watch_fd = -1};
}

void qn_files_reload(struct qn_schedule_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        files->items[i].must_sync = true;
    }
}

void qn_files_look(struct qn_schedule_files *files, const struct quern_clock *clock)
{
    int64_t boot_ms = qn_clock_boot_ms(clock);
    bool is_time = boot_ms - files->looked_at_boot_ms >= QN_FILES_LOOK_MS;
    if (!take_notices(files) && !is_time) {
        return;
    }
    files->looked_at_boot_ms = is_time ? boot_ms : files->looked_at_boot_ms;
    for (size_t i = 0; i < files->count; i++) {
        struct qn_schedule_file *file = &files->items[i];
        const struct qn_file_mark now = look_at(file->path);
        bool is_still = file->is_noticed || (is_time && is_same(&now, &file->seen));
        file->must_sync = file->must_sync || (is_still && !is_same(&now, &file->synced));
        file->is_noticed = false;
        file->seen = is_time ? now : file->seen;
    }
}

/* --- Storing -------------------------------------------------------------------------- */

static void log_file(const struct qn_files_terms *terms, const struct qn_schedule_file *file,
                     const char *text)
{
    QN_LOG(terms->log, QUERN_LOG_ERROR, "file with entries cannot be used",
           QN_LOG_TEXT("file", file->path), QN_LOG_TEXT("error", text));
}

static void log_faults(const struct qn_files_terms *terms, const struct qn_schedule_file *file,
                       const struct qn_conf *conf)
{
    for (size_t i = 0; i < conf->fault_count; i++) {
        const struct qn_conf_fault *fault = &conf->faults[i];
        QN_LOG(terms->log, QUERN_LOG_ERROR, "section of a file with entries is skipped",
               QN_LOG_TEXT("file", file->path), QN_LOG_NUMBER("line", fault->line),
               QN_LOG_TEXT("entry", fault->name), QN_LOG_TEXT("error", fault->text));
    }
}

static quern_status sync_conf(const struct qn_files_terms *terms, struct qn_schedule_file *file,
                              struct qn_conf *conf, bool *ret_done, quern_error *err)
{
    const char **kept = qn_alloc_zero(conf->fault_count + 1, sizeof *kept);
    if (kept == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < conf->fault_count; i++) {
        kept[i] = conf->faults[i].name;
    }
    const struct qn_origin origin = {.name = file->origin,
                                     .entries = conf->entries,
                                     .count = conf->entry_count,
                                     .kept = kept,
                                     .kept_count = conf->fault_count,
                                     .allow_empty = terms->allow_empty};
    quern_status status = qn_origin_sync(terms->broker, terms->log, &origin, ret_done, err);
    qn_free(kept);
    return status;
}

static quern_status sync_file(const struct qn_files_terms *terms, struct qn_schedule_file *file,
                              quern_error *err)
{
    const struct qn_conf_terms conf_terms = {.origin = file->origin,
                                             .default_zone = terms->default_zone,
                                             .zones = terms->zones,
                                             .now_ms = qn_clock_wall_ms(terms->clock),
                                             .broker = terms->broker};
    const struct qn_file_mark mark = look_at(file->path);
    struct qn_conf conf = {0};
    quern_error error = {0};
    bool done = true;
    quern_status status = qn_conf_read(file->path, &conf_terms, &conf, &error);
    if (status == QUERN_E_NOMEM) {
        return qn_error_nomem(err);
    }
    /* Written meanwhile, or away: a later look finds it changed, and it is read again. */
    const struct qn_file_mark after = look_at(file->path);
    bool is_away = status == QUERN_E_BUSY || !is_same(&mark, &after);
    if (status == QUERN_OK && is_away) {
        qn_conf_finish(&conf);
    } else if (status == QUERN_OK) {
        log_faults(terms, file, &conf);
        status = sync_conf(terms, file, &conf, &done, err);
        qn_conf_finish(&conf);
    } else {
        log_file(terms, file, error.text);
        status = QUERN_OK;
    }
    if (status == QUERN_OK) {
        file->must_sync = !done;
        file->synced = is_away ? (struct qn_file_mark){.exists = false} : mark;
    }
    return status;
}

quern_status qn_files_sync(struct qn_schedule_files *files, const struct qn_files_terms *terms,
                           quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < files->count; i++) {
        if (files->items[i].must_sync) {
            status = sync_file(terms, &files->items[i], err);
        }
    }
    return status;
}
