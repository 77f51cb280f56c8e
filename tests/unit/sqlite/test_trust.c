/* SPDX-License-Identifier: MIT */
/* test_trust.c - foreign objects in a file of ours: tables that were changed are refused by name,
 * triggers and views do not run, and no statement runs for ever. */
#include "lib_sqlite.h"

#include "broker/sqlite/store/transaction.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Makes a file with tasks in it, changes it, and opens it again: it must be refused with `text`. */
static void assert_refused(const char *sql, const char *text)
{
    struct lib_sqlite place;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    qn_broker_close(broker);
    lib_sqlite_exec(place.path, sql);
    assert_int_equal(lib_sqlite_refused(place.path, true, &err), QUERN_E_CORRUPT);
    if (strstr(err.text, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    }
    lib_sqlite_remove(&place);
}

static void changed_tables_are_refused_with_the_difference(void **state)
{
    (void)state;
    assert_refused(
        "ALTER TABLE quern_task ADD COLUMN price INTEGER",
        "the table quern_task is not as quern created it: the column price is not quern's");
    assert_refused("ALTER TABLE quern_task ADD COLUMN h TEXT AS (hex(zeroblob(1000000)))",
                   "the column h is not quern's");
    assert_refused("ALTER TABLE quern_worker RENAME COLUMN host TO hostess",
                   "the table quern_worker is not as quern created it: the column hostess is not");
    assert_refused("ALTER TABLE quern_worker DROP COLUMN host",
                   "the table quern_worker is not as quern created it: the column host is missing");
    assert_refused("DROP TABLE quern_lock", "the table quern_lock is missing");
    assert_refused("DROP TABLE quern_lock; CREATE VIEW quern_lock AS SELECT 1 AS key",
                   "the table quern_lock is missing");
    assert_refused("DROP TABLE quern_lock; CREATE TABLE quern_lock (key TEXT PRIMARY KEY,"
                   " queue INTEGER, id TEXT, until_ms INTEGER CHECK (until_ms <> 5),"
                   " fixed INTEGER)",
                   "the table quern_lock is not as quern created it; it was not used");
    assert_refused("DROP INDEX quern_lock_until;"
                   " CREATE UNIQUE INDEX quern_lock_until ON quern_lock (until_ms)",
                   "the index quern_lock_until is not as quern created it");
}

static void words_hidden_in_quoted_names_are_no_comments(void **state)
{
    (void)state;
    assert_refused("PRAGMA writable_schema = ON; UPDATE sqlite_schema"
                   " SET sql = replace(sql, 'STRICT', 'STRICT/*') WHERE name = 'quern_session'",
                   "");
    assert_refused(
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema"
        " SET sql = replace(sql, 'reply ', 'reply BLOB CONSTRAINT \"/*\" CHECK (0), \"*/\" ')"
        " WHERE name = 'quern_session'",
        "the table quern_session is not as quern created it");
}

/* The broker of a file that was changed since its creation. */
static struct qn_broker *open_changed(struct lib_sqlite *place, const char *sql)
{
    lib_sqlite_make(place);
    qn_broker_close(lib_sqlite_open(place->path));
    lib_sqlite_exec(place->path, sql);
    return lib_sqlite_open(place->path);
}

static void comments_spaces_and_quotes_make_no_other_table(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err = {0};
    struct qn_broker *broker = open_changed(
        &place, "DROP TABLE quern_lock; CREATE TABLE \"quern_lock\" (\"key\" TEXT PRIMARY KEY,"
                " -- a word\n [queue] INTEGER NOT NULL,id TEXT NOT\tNULL,/* and another */"
                "until_ms INTEGER NOT NULL,fixed INTEGER NOT NULL DEFAULT 0)STRICT,WITHOUT ROWID;"
                "CREATE INDEX quern_lock_until ON quern_lock(until_ms)");
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void triggers_of_others_do_not_run(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err = {0};
    struct qn_broker *broker = open_changed(
        &place, "CREATE TABLE book (id TEXT);"
                "CREATE TRIGGER spy AFTER INSERT ON quern_task BEGIN"
                " INSERT INTO book VALUES (new.id); END;"
                "CREATE TRIGGER eater BEFORE INSERT ON quern_task WHEN new.id = 'b' BEGIN"
                " SELECT raise(IGNORE); END;"
                "CREATE VIEW quern_report AS SELECT * FROM quern_task");
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    assert_ok(lib_sqlite_enqueue(broker, "b", &err), err);
    assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM book"), 0);
    assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM quern_task"), 2);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static const char endless[] =
    "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";

static void a_statement_ends_at_its_deadline(void **state)
{
    (void)state;
    struct qn_conn *conn = calloc(1, sizeof *conn);
    quern_error err = {0};
    assert_non_null(conn);
    assert_ok(qn_conn_open(conn, ":memory:", SQLITE_OPEN_READWRITE, 0, &err), err);
    qn_conn_limit(conn, 1);
    assert_int_equal(qn_conn_exec(conn, endless, &err), QUERN_E_TIMEOUT);
    assert_non_null(strstr(err.text, "took too long"));
    qn_conn_limit(conn, 0);
    assert_ok(qn_conn_exec(conn, "SELECT 1", &err), err);
    qn_conn_close(conn);
    free(conn);
}

static void *hurry(void *argument)
{
    struct qn_sqlite *self = argument;
    atomic_store(&self->base.hurries, true);
    return NULL;
}

/* It has a minute, but the worker is to end. */
static void a_statement_ends_when_somebody_is_in_a_hurry(void **state)
{
    (void)state;
    struct lib_sqlite place;
    pthread_t thread;
    struct qn_conn *conn = NULL;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    struct qn_sqlite *self = qn_sqlite_of(broker);
    assert_ok(qn_transaction_read_begin(self, &conn, &err), err);
    qn_transaction_read_end(self);
    assert_ptr_equal(self->reader.hurries, &self->base.hurries);
    assert_ok(qn_transaction_begin(self, false, &conn, &err), err);
    int64_t begun_at_ms = test_now_ms();
    assert_int_equal(pthread_create(&thread, NULL, hurry, self), 0);
    assert_int_equal(qn_conn_exec(conn, endless, &err), QUERN_E_TIMEOUT);
    assert_true(test_now_ms() - begun_at_ms < 4000);
    qn_transaction_rollback(self);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err); /* short statements still run */
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void connections_trust_nothing_in_the_file(void **state)
{
    (void)state;
    static const int off[] = {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                              SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_FKEY};
    struct lib_sqlite place;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *reader = NULL;
    assert_ok(qn_transaction_read_begin(self, &reader, &err), err);
    qn_transaction_read_end(self);
    sqlite3 *dbs[] = {self->writer.db, self->reader.db};
    for (size_t i = 0; i < 2; i++) {
        int value = -1;
        for (size_t j = 0; j < sizeof off / sizeof off[0]; j++) {
            assert_int_equal(sqlite3_db_config(dbs[i], off[j], -1, &value), SQLITE_OK);
            assert_int_equal(value, 0);
        }
        assert_int_equal(sqlite3_db_config(dbs[i], SQLITE_DBCONFIG_DEFENSIVE, -1, &value), 0);
        assert_int_equal(value, 1);
        assert_true(sqlite3_limit(dbs[i], SQLITE_LIMIT_LENGTH, -1) <= 600 << 20);
    }
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(changed_tables_are_refused_with_the_difference),
    cmocka_unit_test(words_hidden_in_quoted_names_are_no_comments),
    cmocka_unit_test(comments_spaces_and_quotes_make_no_other_table),
    cmocka_unit_test(triggers_of_others_do_not_run),
    cmocka_unit_test(a_statement_ends_at_its_deadline),
    cmocka_unit_test(a_statement_ends_when_somebody_is_in_a_hurry),
    cmocka_unit_test(connections_trust_nothing_in_the_file),
};
TEST_MAIN(tests)
