/* SPDX-License-Identifier: MIT */
/* rule.c - finds the rows that break a rule, and repairs them.
 *
 * Finding is one read transaction, so even a scan of all tasks delays no writer; the findings are
 * kept and reported after it. Repairs are made in write transactions of at most MEND_STEP rows, and
 * each repair checks its condition again, since the data may have changed. A finding is reported as
 * repaired only after the commit that changed its row. When a scan has reached its limit, another
 * one follows as long as repairs make progress. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/sqlite/doctor/doctor.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/run/headers.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "task/name.h"

#define COUNT_MAX INT64_C(1000000000000) /* deaths, probes, ms of a life */
#define FOUND_MAX 1000                   /* findings of one rule in one look */
#define MEND_STEP 100                    /* repairs in one transaction */

struct found {
    const char *queue;
    const char *id;
    const char *text;
    int64_t number; /* these two name the row to the repair */
    const char *key;
    bool repaired;
};

struct search {
    struct qn_arena arena;
    struct found *items; /* room for FOUND_MAX */
    size_t count;
    bool more;
};

/* --- Functions for the statements ---------------------------------------------------------- */

static const char *argument_text(sqlite3_value *value)
{
    const unsigned char *text = sqlite3_value_text(value);
    return text == NULL ? "" : (const char *)text;
}

static void find_any_worker(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    const struct qn_sqlite_doctor *doctor = sqlite3_user_data(context);
    sqlite3_result_int(context, doctor->served.any);
}

static void find_queue_served(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    const struct qn_sqlite_doctor *doctor = sqlite3_user_data(context);
    sqlite3_result_int(context, qn_served_has(&doctor->served, argument_text(values[0])));
}

static void check_name(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    const char *name = argument_text(values[0]);
    bool whole = (size_t)sqlite3_value_bytes(values[0]) == strlen(name);
    sqlite3_result_int(context, whole && qn_name_check("name", name, NULL) == QUERN_OK);
}

static void check_headers(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    const void *blob = sqlite3_value_blob(values[0]);
    size_t size = (size_t)sqlite3_value_bytes(values[0]);
    sqlite3_result_int(context, size == 0 || qn_sqlite_headers_count(blob, size) > 0);
}

static const struct function {
    const char *name;
    int argument_count;
    void (*call)(sqlite3_context *context, int count, sqlite3_value **values);
} functions[] = {
    {"quern_any_worker", 0, find_any_worker},
    {"quern_queue_served", 1, find_queue_served},
    {"quern_name_sound", 1, check_name},
    {"quern_headers_whole", 1, check_headers},
    {"quern_entry_whole", 2, qn_doctor_entries_whole},
    {"quern_entry_due", 5, qn_doctor_entries_due},
};

/* doctor NULL takes them away again: they point to the doctor, which ends before the connection. */
static quern_status set_functions(struct qn_conn *conn, struct qn_sqlite_doctor *doctor,
                                  quern_error *err)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const struct function *function = &functions[i];
        int code = sqlite3_create_function_v2(
            conn->db, function->name, function->argument_count, SQLITE_UTF8 | SQLITE_DIRECTONLY,
            doctor, doctor == NULL ? NULL : function->call, NULL, NULL, NULL);
        if (code != SQLITE_OK) {
            return qn_conn_fail(conn, sqlite3_extended_errcode(conn->db), err);
        }
    }
    return QUERN_OK;
}

/* --- Finding ---------------------------------------------------------------------------------- */

static bool keep(struct search *search, const struct qn_query *query)
{
    struct found *found = &search->items[search->count];
    *found = (struct found){.number = sqlite3_column_int64(query->statement, 3)};
    found->queue = qn_arena_strdup(&search->arena, qn_query_column_text(query, 0));
    found->id = qn_arena_strdup(&search->arena, qn_query_column_text(query, 1));
    found->text = qn_arena_strdup(&search->arena, qn_query_column_text(query, 2));
    found->key = qn_arena_strdup(&search->arena, qn_query_column_text(query, 4));
    search->count++;
    return found->queue != NULL && found->id != NULL && found->text != NULL && found->key != NULL;
}

/* Binds as many of the values as the statement has parameters. */
static void bind_known(struct qn_query *query, const int64_t *values, int count)
{
    int wanted = sqlite3_bind_parameter_count(query->statement);
    for (int i = 0; i < count && i < wanted; i++) {
        qn_query_int(query, values[i]);
    }
}

static quern_status find_rows(struct qn_sqlite_doctor *doctor, struct qn_conn *conn,
                              const char *sql, struct search *search, quern_error *err)
{
    const int64_t values[] = {
        doctor->now_ms, doctor->leases_over_ms, QN_SQLITE_SCHEMA_VERSION, QN_ARCHIVE_SIZE_MAX,
        COUNT_MAX,      doctor->shift_ms};
    struct qn_query query = qn_query_start_once(conn, sql);
    bind_known(&query, values, (int)(sizeof values / sizeof values[0]));
    bool memory = true;
    search->more = false;
    while (memory && !search->more && qn_query_row(&query)) {
        search->more = search->count == FOUND_MAX;
        memory = search->more || keep(search, &query);
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

static quern_status find_broken(struct qn_sqlite_doctor *doctor, const char *sql,
                                struct search *search, quern_error *err)
{
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(doctor->self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_conn_limit(conn, 0); /* it reads all tasks */
    qn_arena_reset(&search->arena);
    search->count = 0;
    status = set_functions(conn, doctor, err);
    if (status == QUERN_OK) {
        status = find_rows(doctor, conn, sql, search, err);
    }
    if (set_functions(conn, NULL, NULL) != QUERN_OK && status == QUERN_OK) {
        status = qn_error_nomem(err); /* the only reason there is */
    }
    qn_transaction_read_end(doctor->self);
    return status;
}

/* --- Mending ------------------------------------------------------------------------------------
 */

static quern_status repair_row(struct qn_sqlite_doctor *doctor, struct qn_conn *conn,
                               const char *sql, struct found *found, quern_error *err)
{
    const int64_t values[] = {doctor->now_ms, doctor->leases_over_ms};
    struct qn_query query = qn_query_start_once(conn, sql);
    int wanted = sqlite3_bind_parameter_count(query.statement);
    QN_ASSERT(wanted <= 4);
    qn_query_int(&query, found->number);
    if (wanted > 1) {
        qn_query_text(&query, found->key);
    }
    for (int i = 2; i < wanted; i++) {
        qn_query_int(&query, values[i - 2]);
    }
    int64_t changes = 0;
    quern_status status = qn_query_run(&query, &changes, err);
    found->repaired = status == QUERN_OK && changes > 0;
    return status;
}

/* One transaction's worth from the first on. */
static quern_status repair_step(struct qn_sqlite_doctor *doctor, const char *sql,
                                struct search *search, size_t first, quern_error *err)
{
    size_t end = search->count - first > MEND_STEP ? first + MEND_STEP : search->count;
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(doctor->self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    for (size_t i = first; status == QUERN_OK && i < end; i++) {
        status = repair_row(doctor, conn, sql, &search->items[i], err);
    }
    if (status == QUERN_OK) {
        status = qn_transaction_commit(doctor->self, err);
    } else {
        qn_transaction_rollback(doctor->self);
    }
    for (size_t i = first; status != QUERN_OK && i < end; i++) {
        search->items[i].repaired = false;
    }
    return status;
}

static quern_status repair(struct qn_sqlite_doctor *doctor, const struct qn_rule *rule,
                           struct search *search, quern_error *err)
{
    quern_status status = QUERN_OK;
    if (rule->repair != NULL) {
        for (size_t i = 0; status == QUERN_OK && i < search->count; i += MEND_STEP) {
            status = repair_step(doctor, rule->repair, search, i, err);
        }
    } else if (rule->upkeep != NULL) {
        for (size_t i = 0; status == QUERN_OK && i < search->count; i++) {
            size_t done = 0;
            status = rule->upkeep(doctor, search->items[i].queue, &done, err);
            search->items[i].repaired = status == QUERN_OK && done > 0;
        }
    }
    return status;
}

/* --- Reporting ----------------------------------------------------------------------------------
 */

/* Returns whether anything was repaired. */
static bool report_found(const struct qn_sqlite_doctor *doctor, const struct qn_rule *rule,
                         const struct search *search)
{
    bool repaired = false;
    for (size_t i = 0; i < search->count; i++) {
        const struct found *found = &search->items[i];
        const quern_finding finding = {.invariant = rule->invariant,
                                       .queue = found->queue,
                                       .id = found->id,
                                       .text = found->text,
                                       .severity = rule->severity,
                                       .repaired = found->repaired};
        doctor->on_finding(&finding, doctor->user);
        repaired = repaired || found->repaired;
    }
    return repaired;
}

static void report_more(const struct qn_sqlite_doctor *doctor, const struct qn_rule *rule)
{
    const quern_finding finding = {.invariant = rule->invariant,
                                   .queue = "",
                                   .id = "",
                                   .text = "there are more of the same kind",
                                   .severity = rule->severity};
    doctor->on_finding(&finding, doctor->user);
}

quern_status qn_sqlite_rule_check(struct qn_sqlite_doctor *doctor, const struct qn_rule *rule,
                                  quern_error *err)
{
    struct search search = {0};
    search.items = qn_alloc_zero(FOUND_MAX, sizeof *search.items);
    if (search.items == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    bool again = true;
    while (status == QUERN_OK && again) {
        status = find_broken(doctor, rule->find, &search, err);
        if (status == QUERN_OK && doctor->repair) {
            status = repair(doctor, rule, &search, err);
        }
        bool repaired = report_found(doctor, rule, &search);
        again = search.more && repaired;
        if (status == QUERN_OK && search.more && !again) {
            report_more(doctor, rule);
        }
    }
    qn_arena_finish(&search.arena);
    qn_free(search.items);
    return status;
}
