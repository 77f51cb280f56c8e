/* SPDX-License-Identifier: MIT */
/* transactional.c - a row of your own and its task, stored together or not at all.
 *
 * The tasks live in the same SQLite file as the program's own table, so one transaction holds
 * both: no order without its e-mail, no e-mail without its order. An existing file is prepared
 * once with `quern db init FILE`; here the client makes a new one. Usage: transactional [FILE]. */
#include <quern/quern.h>
#include <quern/sqlite.h>
#include <stdio.h>
#include <string.h>

static bool sql(sqlite3 *db, const char *text, quern_error *err)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK) {
        return true;
    }
    err->code = QUERN_E_BROKER;
    snprintf(err->text, sizeof err->text, "%s", sqlite3_errmsg(db));
    return false;
}

/* One order and the task that confirms it; `end` is COMMIT or ROLLBACK. */
static bool order(quern_client *client, sqlite3 *db, const char *item, const char *end,
                  quern_error *err)
{
    const quern_task task = {
        .type = "order:confirm", .payload = item, .payload_size = strlen(item)};
    char insert[128];
    snprintf(insert, sizeof insert, "INSERT INTO orders (item) VALUES ('%s')", item);
    bool ok = sql(db, "BEGIN IMMEDIATE", err) && sql(db, insert, err) &&
              quern_client_enqueue_tx(client, db, &task, 1, NULL, err) == QUERN_OK &&
              sql(db, end, err);
    if (ok) {
        quern_client_wake(client); /* so that a sleeping worker starts at once */
    }
    return ok;
}

static bool show(sqlite3 *db, const char *url, quern_error *err)
{
    sqlite3_stmt *count = NULL;
    quern_inspector *inspector = NULL;
    quern_task_list *list = NULL;
    const quern_task_filter filter = {.type = "order:confirm"};
    bool ok =
        sqlite3_prepare_v2(db, "SELECT count(*) FROM orders", -1, &count, NULL) == SQLITE_OK &&
        sqlite3_step(count) == SQLITE_ROW &&
        quern_inspector_open(url, NULL, &inspector, err) == QUERN_OK &&
        quern_inspector_tasks(inspector, &filter, &list, err) == QUERN_OK;
    if (ok) {
        printf("orders: %d, tasks: %zu\n", sqlite3_column_int(count, 0),
               quern_task_list_size(list));
    }
    quern_task_list_free(list);
    quern_inspector_free(inspector);
    sqlite3_finalize(count);
    return ok;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "orders.db";
    quern_client *client = NULL;
    sqlite3 *db = NULL;
    quern_error err = {QUERN_E_BROKER, "cannot open the file"};
    bool ok = quern_client_open(path, NULL, &client, &err) == QUERN_OK &&
              sqlite3_open(path, &db) == SQLITE_OK &&
              sql(db, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item)", &err) &&
              order(client, db, "a pen", "COMMIT", &err) &&
              order(client, db, "a book that is sold out", "ROLLBACK", &err) &&
              order(client, db, "a lamp", "COMMIT", &err) && show(db, path, &err);
    if (!ok) {
        fprintf(stderr, "transactional: %s\n", err.text);
    }
    sqlite3_close(db);
    quern_client_free(client);
    return ok ? 0 : 1;
}
