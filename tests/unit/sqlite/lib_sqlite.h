/* SPDX-License-Identifier: MIT */
/* lib_sqlite.h - a fresh directory with a file for the tests of the SQLite broker. */
#ifndef TESTS_UNIT_LIB_SQLITE_H
#define TESTS_UNIT_LIB_SQLITE_H

#include "lib_test.h"

#include "broker/sqlite/sqlite.h"

struct lib_sqlite {
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 16]; /* dir/tasks.db; not made yet */
};

void lib_sqlite_make(struct lib_sqlite *place);
void lib_sqlite_remove(struct lib_sqlite *place);
/* Creates the file if there is none. */
struct qn_broker *lib_sqlite_open(const char *url);
/* Must be refused: returns the status, and the text in *ret_err. */
quern_status lib_sqlite_refused(const char *url, bool create, quern_error *ret_err);
/* Stores one task with this id in the queue "default". */
quern_status lib_sqlite_enqueue(struct qn_broker *broker, const char *id, quern_error *err);
/* Runs SQL through a connection of its own. */
void lib_sqlite_exec(const char *path, const char *sql);
/* The first column of the first row. */
int64_t lib_sqlite_query(const char *path, const char *sql);
void lib_sqlite_write_file(const char *path, const void *data, size_t size);
/* How many names are in the directory; -1: there is none. */
int lib_sqlite_names_in(const char *dir);
/* dir of the sockets of this file: "PATH-quern". */
void lib_sqlite_wake_dir(const struct lib_sqlite *place, char *out, size_t out_size);
/* Arms for "default". */
void lib_sqlite_arm(struct qn_broker *broker);

#endif
