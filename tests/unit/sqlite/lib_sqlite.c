/* SPDX-License-Identifier: MIT */
/* lib_sqlite.c - a fresh directory with a file for the tests of the SQLite broker. */
#include "lib_sqlite.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void lib_sqlite_make(struct lib_sqlite *place)
{
    test_dir_make(place->dir);
    (void)snprintf(place->path, sizeof place->path, "%s/tasks.db", place->dir);
}

void lib_sqlite_remove(struct lib_sqlite *place)
{
    test_dir_remove(place->dir);
}

struct qn_broker *lib_sqlite_open(const char *url)
{
    const struct qn_broker_options options = {.create = true};
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    assert_ok(qn_broker_open(url, &options, &broker, &err), err);
    return broker;
}

quern_status lib_sqlite_refused(const char *url, bool create, quern_error *ret_err)
{
    const struct qn_broker_options options = {.create = create};
    struct qn_broker *broker = NULL;
    *ret_err = (quern_error){0};
    quern_status status = qn_broker_open(url, &options, &broker, ret_err);
    assert_int_not_equal(status, QUERN_OK);
    assert_null(broker);
    assert_int_equal(ret_err->code, status);
    assert_true(strlen(ret_err->text) > 0);
    return status;
}

quern_status lib_sqlite_enqueue(struct qn_broker *broker, const char *id, quern_error *err)
{
    const struct qn_task task = {
        .id = id, .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
    quern_status result = QUERN_E_INVALID;
    quern_status status = qn_broker_enqueue(
        broker, &(struct qn_enqueue){(struct qn_stamp){0}, &task, 1, &result}, err);
    return status == QUERN_OK ? result : status;
}

void lib_sqlite_exec(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int64_t lib_sqlite_query(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

void lib_sqlite_write_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    assert_int_equal(close(fd), 0);
}

int lib_sqlite_names_in(const char *dir)
{
    DIR *directory = opendir(dir);
    if (directory == NULL) {
        return -1;
    }
    int count = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    (void)closedir(directory);
    return count;
}

void lib_sqlite_wake_dir(const struct lib_sqlite *place, char *out, size_t out_size)
{
    (void)snprintf(out, out_size, "%s-quern", place->path);
}

void lib_sqlite_arm(struct qn_broker *broker)
{
    const char *queue = "default";
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_arm(broker, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err), err);
}
