/* SPDX-License-Identifier: MIT */
/* integrity.c - checks the file and the files beside it: pages, WAL, sockets, durability.
 *
 * SQLite's quick_check reads every page, also those of other tables. Its reports about rows of our
 * tables that break a constraint are left to the rules; everything else is damage of the file, for
 * which only a backup or `.recover` of the sqlite3 shell helps. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "broker/sqlite/doctor/doctor.h"
#include "broker/sqlite/doctor/doctor_sql.h"
#include "broker/sqlite/file/place.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

#define WAL_SIZE_MAX (64 << 20)
#define DAMAGES_MAX 100 /* as in check_integrity */
#define TEXT_SIZE 400

static void report_finding(const struct qn_sqlite_doctor *doctor, const char *invariant,
                           quern_severity severity, const char *text, bool repaired)
{
    const quern_finding finding = {.invariant = invariant,
                                   .queue = "",
                                   .id = "",
                                   .text = text,
                                   .severity = severity,
                                   .repaired = repaired};
    doctor->on_finding(&finding, doctor->user);
}

/* --- The pages ----------------------------------------------------------------------------------
 */

static bool breaks_constraint(const char *text)
{
    return qn_str_starts_with(text, "CHECK constraint failed in quern_") ||
           qn_str_starts_with(text, "NULL value in quern_");
}

static quern_status read_damages(struct qn_conn *conn, struct qn_arena *arena,
                                 const char *texts[DAMAGES_MAX], size_t *ret_count,
                                 quern_error *err)
{
    struct qn_query query = qn_query_start_once(conn, sql_check_integrity);
    size_t count = 0;
    bool memory = true;
    while (memory && count < DAMAGES_MAX && qn_query_row(&query)) {
        const char *text = qn_query_column_text(&query, 0);
        if (strcmp(text, "ok") != 0) {
            texts[count] = qn_arena_strdup(arena, text);
            memory = texts[count++] != NULL;
        }
    }
    quern_status status = qn_query_finish(&query, err);
    *ret_count = count;
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

quern_status qn_sqlite_integrity_check(struct qn_sqlite_doctor *doctor, bool report_rows,
                                       bool *ret_safe, bool *ret_rows, quern_error *err)
{
    const char *texts[DAMAGES_MAX];
    size_t count = 0;
    struct qn_arena arena = {0};
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(doctor->self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_conn_limit(conn, 0); /* it reads every page */
    status = read_damages(conn, &arena, texts, &count, err);
    qn_transaction_read_end(doctor->self);
    *ret_safe = status == QUERN_OK;
    *ret_rows = false;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        bool row = breaks_constraint(texts[i]);
        *ret_rows = *ret_rows || row;
        *ret_safe = *ret_safe && row;
        if (!row || report_rows) {
            report_finding(doctor, "I9", QUERN_SEVERITY_VIOLATED, texts[i], false);
        }
    }
    qn_arena_finish(&arena);
    return status;
}

/* --- Beside the file
 * ------------------------------------------------------------------------------ */

/* A socket whose lock is free: its process died. The lock is made before the socket, so the test
 * never disturbs a waiter that is just starting. */
static bool is_leftover(int dir_fd, const char *name)
{
    const size_t id_size = QN_WAITER_ID_SIZE - 1;
    char lock[QN_WAITER_ID_SIZE + 8];
    if (strlen(name) != id_size + 2 ||
        (strcmp(name + id_size, ".w") != 0 && strcmp(name + id_size, ".e") != 0)) {
        return false;
    }
    (void)snprintf(lock, sizeof lock, "%.*s.lock", (int)id_size, name);
    int fd = openat(dir_fd, lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return true;
    }
    bool free = flock(fd, LOCK_SH | LOCK_NB) == 0;
    (void)close(fd);
    return free;
}

static size_t count_leftovers(const struct qn_sqlite *self)
{
    int fd = open(self->wake_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return 0;
    }
    size_t count = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        count += is_leftover(fd, entry->d_name) ? 1 : 0;
    }
    (void)closedir(directory);
    return count;
}

static void note_leftovers(struct qn_sqlite_doctor *doctor)
{
    size_t count = count_leftovers(doctor->self);
    if (count == 0) {
        return;
    }
    if (doctor->repair) {
        qn_waiters_wake(doctor->self); /* both remove those that refuse */
        qn_waiters_report_any_end(doctor->self);
    }
    char text[TEXT_SIZE];
    (void)snprintf(
        text, sizeof text, "%zu %s in the directory", count,
        qn_plural(count, "socket of a dead process is", "sockets of dead processes are"));
    report_finding(doctor, "note", QUERN_SEVERITY_NOTE, text,
                   doctor->repair && count_leftovers(doctor->self) < count);
}

static void note_wal(struct qn_sqlite_doctor *doctor)
{
    struct stat info;
    if (stat(doctor->self->wal_path, &info) != 0 || info.st_size <= WAL_SIZE_MAX) {
        return;
    }
    char text[TEXT_SIZE];
    (void)snprintf(
        text, sizeof text,
        "the write-ahead log holds %lld MB: a long-running reader keeps it from being emptied",
        (long long)(info.st_size >> 20));
    report_finding(doctor, "note", QUERN_SEVERITY_NOTE, text, false);
}

static void warn_of_group(const struct qn_sqlite_doctor *doctor)
{
    char text[TEXT_SIZE];
    if (qn_sqlite_place_warning(doctor->self, text, sizeof text)) {
        report_finding(doctor, "place", QUERN_SEVERITY_WARNING, text, false);
    }
}

void qn_sqlite_integrity_notes(struct qn_sqlite_doctor *doctor)
{
    if (doctor->self->memory == NULL) {
        warn_of_group(doctor);
        note_leftovers(doctor);
        note_wal(doctor);
    }
    char text[TEXT_SIZE];
    (void)snprintf(text, sizeof text, "durability %s",
                   qn_sqlite_server_info_durability(doctor->self));
    report_finding(doctor, "note", QUERN_SEVERITY_NOTE, text, false);
}
