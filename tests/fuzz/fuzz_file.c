/* SPDX-License-Identifier: MIT */
/* fuzz_file.c - an SQLite file that another program has filled: cells of any type and size, a
 * schema that is not ours, pages with any bytes; then every operation of the broker.
 *
 * Made once: a file with tasks in each state, whose tables then forget STRICT, so that cells can
 * take anything. Each input changes cells, restores the text of our schema, may add hostile objects
 * to it, may overwrite bytes of pages, and opens the file as a broker.
 *
 * A change is one byte and its operands: 00-7f a cell, 80-8f the schema, 90-9f bytes of the file;
 * a0-ff ends the changes, and operations follow. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib_fuzz.h"

#define TABLES_MAX 16
#define COLUMNS_MAX 64
#define CHANGES_MAX 64
#define OPERATIONS_MAX 16
#define NAME_SIZE 64

struct table {
    char name[NAME_SIZE];
    char columns[COLUMNS_MAX][NAME_SIZE];
    size_t column_count;
    char *sql; /* ours */
};

static struct table tables[TABLES_MAX];
static size_t table_count;
static char path[128];
static char *file; /* the loose one */
static size_t file_size;

static const char *const statements[] = {
    "CREATE TRIGGER evil AFTER UPDATE ON quern_task BEGIN DELETE FROM quern_task; END",
    "CREATE TRIGGER evil AFTER INSERT ON quern_task BEGIN SELECT RAISE(FAIL, 'no'); END",
    "CREATE TRIGGER evil BEFORE DELETE ON quern_task BEGIN SELECT RAISE(IGNORE); END",
    "CREATE VIEW quern_other AS SELECT * FROM quern_task",
    "DROP TABLE quern_queue",
    "DROP TABLE quern_session",
    "ALTER TABLE quern_task ADD COLUMN evil TEXT DEFAULT 'evil'",
    "ALTER TABLE quern_task RENAME COLUMN place TO plaice",
    "DELETE FROM quern_meta",
    "UPDATE quern_meta SET schema_version = 9223372036854775807",
    "UPDATE sqlite_schema SET sql = replace(sql, 'INTEGER', 'TEXT') WHERE name = 'quern_task'",
    "DELETE FROM sqlite_schema WHERE type = 'index'",
    "CREATE INDEX evil ON quern_task(abs(seq))",
    "PRAGMA user_version = -1",
    "PRAGMA application_id = 7",
    "DROP TABLE quern_queue; CREATE VIEW quern_queue AS SELECT 1 AS no, 'default' AS name"};

static void do_sql(sqlite3 *db, const char *sql)
{
    (void)sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static sqlite3 *open_raw(void)
{
    sqlite3 *db = NULL;
    fuzz_require(sqlite3_open(path, &db) == SQLITE_OK);
    do_sql(db, "PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF;"
               "PRAGMA ignore_check_constraints = ON; PRAGMA writable_schema = ON");
    return db;
}

/* --- The first file ------------------------------------------------------------------- */

static void put_tasks(struct qn_broker *broker)
{
    quern_error err = {0};
    quern_status result;
    char id[8];
    for (int i = 0; i < 8; i++) {
        (void)snprintf(id, sizeof id, "id%d", i % 4);
        const struct qn_task task = {.id = id,
                                     .queue = i < 4 ? "default" : "q",
                                     .type = "type",
                                     .payload = "payload",
                                     .payload_size = 7,
                                     .retry_max = 25,
                                     .timeout_ms = 60000,
                                     .retention_ms = 3600000,
                                     .unique_ms = i == 1 ? 60000 : 0,
                                     .unique_key = i == 1 ? "key" : NULL,
                                     .group = i == 7 ? "group" : NULL,
                                     .process_at_ms = i == 6 ? INT64_C(4000000000000) : 0,
                                     .state = i == 7   ? QUERN_TASK_AGGREGATING
                                              : i == 6 ? QUERN_TASK_SCHEDULED
                                                       : QUERN_TASK_PENDING};
        fuzz_require(qn_broker_enqueue(broker,
                                       &(struct qn_enqueue){(struct qn_stamp){5, (uint64_t)i + 1},
                                                            &task, 1, &result},
                                       &err) == QUERN_OK);
    }
}

/* Leases two runs and ends others, so that each state is there. */
static void end_tasks(struct qn_broker *broker)
{
    static const uint8_t script[] = {
        FUZZ_HEARTBEAT, FUZZ_EXCHANGE, 0, 8, FUZZ_EXCHANGE, 3, 0, 2, 4, 0};
    struct fuzz_input input = {.data = script, .size = sizeof script};
    fuzz_operate(broker, &input, 5);
}

static int take_column(void *user, int count, char **values, char **names)
{
    struct table *table = user;
    (void)count;
    (void)names;
    if (table->column_count < COLUMNS_MAX) {
        (void)snprintf(table->columns[table->column_count++], NAME_SIZE, "%s", values[0]);
    }
    return 0;
}

static int take_table(void *user, int count, char **values, char **names)
{
    (void)user;
    (void)count;
    (void)names;
    if (table_count < TABLES_MAX) {
        struct table *table = &tables[table_count++];
        (void)snprintf(table->name, NAME_SIZE, "%s", values[0]);
        table->sql = strdup(values[1]);
    }
    return 0;
}

static void loosen(void)
{
    sqlite3 *db = open_raw();
    (void)sqlite3_exec(db,
                       "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name LIKE"
                       " 'quern%' AND sql LIKE '%STRICT' ORDER BY name",
                       take_table, NULL, NULL);
    for (size_t i = 0; i < table_count; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql, "SELECT name FROM pragma_table_info('%.64s')",
                       tables[i].name);
        (void)sqlite3_exec(db, sql, take_column, &tables[i], NULL);
    }
    do_sql(db, "UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 6)"
               " WHERE type = 'table' AND name LIKE 'quern%' AND sql LIKE '% STRICT'");
    fuzz_require(sqlite3_close(db) == SQLITE_OK);
    fuzz_require(table_count > 2);
}

static void keep_file(void)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    fuzz_require(fd >= 0 && fstat(fd, &info) == 0);
    file_size = (size_t)info.st_size;
    file = malloc(file_size);
    fuzz_require(file != NULL && read(fd, file, file_size) == (ssize_t)file_size);
    (void)close(fd);
}

static void make_first(void)
{
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    const struct qn_broker_options options = {.create = true};
    (void)snprintf(path, sizeof path, "%s/file.db", fuzz_dir());
    fuzz_require(qn_broker_open(path, &options, &broker, &err) == QUERN_OK);
    put_tasks(broker);
    end_tasks(broker);
    qn_broker_close(broker);
    loosen();
    keep_file();
}

/* --- Changes -------------------------------------------------------------------------- */

static void bind_value(sqlite3_stmt *statement, struct fuzz_input *input)
{
    static const double reals[] = {0.5, 1e308, -1e308, 9.3e18, 1e-320};
    char text[256];
    size_t size;
    uint8_t kind = fuzz_byte(input);
    switch (kind % 6) {
    case 0:
        (void)sqlite3_bind_int64(statement, 1, fuzz_number(input));
        break;
    case 1:
        size = fuzz_text(input, text, sizeof text);
        (void)sqlite3_bind_text(statement, 1, text, (int)size, SQLITE_TRANSIENT);
        break;
    case 2:
        size = fuzz_text(input, text, sizeof text);
        (void)sqlite3_bind_blob(statement, 1, text, (int)size, SQLITE_TRANSIENT);
        break;
    case 3:
        (void)sqlite3_bind_double(statement, 1, reals[fuzz_byte(input) % 5]);
        break;
    case 4:
        (void)sqlite3_bind_zeroblob(statement, 1, 1 << (fuzz_byte(input) % 20));
        break;
    default:
        (void)sqlite3_bind_null(statement, 1);
    }
}

static void change_cell(sqlite3 *db, struct fuzz_input *input, uint8_t byte)
{
    const struct table *table = &tables[byte % table_count];
    const char *column = table->columns[fuzz_byte(input) % table->column_count];
    char sql[300];
    sqlite3_stmt *statement = NULL;
    (void)snprintf(sql, sizeof sql,
                   "UPDATE %s SET %s = ?1 WHERE rowid = (SELECT rowid FROM %s LIMIT 1 OFFSET %d)",
                   table->name, column, table->name, fuzz_byte(input) % 10);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK) {
        bind_value(statement, input);
        (void)sqlite3_step(statement);
    }
    (void)sqlite3_finalize(statement);
}

static void restore_schema(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    fuzz_require(sqlite3_prepare_v2(db, "UPDATE sqlite_schema SET sql = ?1 WHERE name = ?2", -1,
                                    &statement, NULL) == SQLITE_OK);
    for (size_t i = 0; i < table_count; i++) {
        (void)sqlite3_bind_text(statement, 1, tables[i].sql, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(statement, 2, tables[i].name, -1, SQLITE_STATIC);
        (void)sqlite3_step(statement);
        (void)sqlite3_reset(statement);
    }
    (void)sqlite3_finalize(statement);
}

static void write_file(void)
{
    char other[160];
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(other, sizeof other, "%s%s", path, suffixes[i]);
        (void)unlink(other);
    }
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    fuzz_require(fd >= 0 && write(fd, file, file_size) == (ssize_t)file_size);
    (void)close(fd);
}

static void overwrite(struct fuzz_input *input)
{
    char bytes[64];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    fuzz_require(fd >= 0);
    size_t at = fuzz_word(input) % file_size;
    size_t size = fuzz_text(input, bytes, sizeof bytes);
    (void)!pwrite(fd, bytes, size, (off_t)at);
    (void)close(fd);
}

static void change_file(struct fuzz_input *input)
{
    sqlite3 *db = open_raw();
    const char *hostile[CHANGES_MAX];
    size_t hostile_count = 0;
    size_t overwritten = 0;
    do_sql(db, "BEGIN");
    for (size_t i = 0; i < CHANGES_MAX && input->size > 0; i++) {
        uint8_t byte = fuzz_byte(input);
        if (byte >= 0xa0) {
            break;
        }
        if (byte < 0x80) {
            change_cell(db, input, byte);
        } else if (byte < 0x90) {
            hostile[hostile_count++] = statements[byte & 15];
        } else {
            overwritten++;
        }
    }
    restore_schema(db);
    do_sql(db, "COMMIT");
    (void)sqlite3_close(db);
    db = open_raw();
    for (size_t i = 0; i < hostile_count; i++) {
        do_sql(db, hostile[i]);
    }
    (void)sqlite3_close(db);
    for (size_t i = 0; i < overwritten; i++) {
        overwrite(input);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.data = data, .size = size};
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    const struct qn_broker_options options = {.command_timeout_ms = 500};
    if (file == NULL) {
        make_first();
    }
    write_file();
    change_file(&input);
    if (qn_broker_open(path, &options, &broker, &err) == QUERN_OK) {
        fuzz_operate(broker, &input, OPERATIONS_MAX);
        qn_broker_close(broker);
    }
    return 0;
}
