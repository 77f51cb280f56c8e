/* SPDX-License-Identifier: MIT */
/* files.h - the files with entries: when they have changed, and their way into the broker. */
#ifndef QN_SCHEDULE_FILES_H
#define QN_SCHEDULE_FILES_H

#include <sys/stat.h>

#include "base/log.h"
#include "base/time/zones.h"
#include "broker/schedule/schedule.h"

#define QN_SCHEDULE_FILES_MAX 64
#define QN_FILES_LOOK_MS 5000

/* What tells one version of a file from another. */
struct qn_file_mark {
    bool exists;
    dev_t device;
    ino_t number;
    off_t size;
    struct timespec changed_at;
};

struct qn_schedule_file {
    char *path;   /* owned, as the next */
    char *origin; /* "file:PATH", absolute */
    struct qn_file_mark synced;
    struct qn_file_mark seen; /* at the last look whose time had come */
    bool is_noticed;          /* the watch knows that it is complete */
    bool must_sync;
};

struct qn_schedule_files {
    struct qn_schedule_file *items;
    size_t count;
    int watch_fd; /* inotify; -1: they are only looked at */
    int64_t looked_at_boot_ms;
};

struct qn_files_terms {
    struct qn_broker *broker;
    struct qn_log *log;
    struct qn_zones *zones;
    const struct quern_clock *clock;
    const char *default_zone;
    bool allow_empty;
};

/* The paths are copied. QUERN_E_INVALID: too many, or a path that is too long. */
QUERN_NODISCARD quern_status qn_files_init(struct qn_schedule_files *files,
                                           const char *const *paths, size_t count,
                                           quern_error *err);
void qn_files_finish(struct qn_schedule_files *files);
/* All are read again with the next sync. */
void qn_files_reload(struct qn_schedule_files *files);
/* Notices of the watch are taken; the files are looked at when there was one, or their time has
 * come. Without a notice a file is read when it has not changed between two looks. */
void qn_files_look(struct qn_schedule_files *files, const struct quern_clock *clock);
/* Stores the entries of each file that has changed. Faults are logged with file and line. An error
 * is the broker's. */
QUERN_NODISCARD quern_status qn_files_sync(struct qn_schedule_files *files,
                                           const struct qn_files_terms *terms, quern_error *err);

#endif
