/* SPDX-License-Identifier: MIT */
/* test_migrate.c - a file of an earlier version with a task in each state: it is opened, nothing is
 * wrong with it, and all that can run runs. */
#include "lib_sqlite.h"

#include <sys/stat.h>

#include "broker/group.h"
#include "broker/sqlite/schema/late_sql.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/schema/schema_sql.h"

#define ROOM 8

static const char *const queues[] = {"default"};

static const char *const steps[] = {sql_schema_1, sql_schema_2, sql_schema_3,
                                    sql_schema_4, sql_schema_5, sql_schema_6};

/* Its active task has a lease of another boot. */
static void make_file(const struct lib_sqlite *place, int64_t version)
{
    char sql[128];
    lib_sqlite_exec(place->path, "PRAGMA journal_mode = wal");
    for (int64_t i = 0; i < version; i++) {
        lib_sqlite_exec(place->path, steps[i]);
    }
    (void)snprintf(sql, sizeof sql, "INSERT INTO quern_meta VALUES (1, %lld, 20, 'earlier', 0)",
                   (long long)version);
    lib_sqlite_exec(place->path, sql);
    lib_sqlite_exec(
        place->path,
        "INSERT INTO quern_queue (no, name) VALUES (1, 'default');"
        "INSERT INTO quern_lock (key, queue, id, until_ms) VALUES ('key', 1, 'pending', "
        "32503680000000);"
        "INSERT INTO quern_task (queue, id, state, place, at_ms, token, lease_until,"
        " worker, retry_count, retry_max, timeout_ms, retention_ms, enqueued_at_ms,"
        " completed_at_ms, type, unique_key, grp, payload) VALUES"
        " (1, 'active', 1, 11, 0, 9, 5000, 8, 0, 25, 1000, 0, 1, 0, 't', NULL, NULL,"
        " NULL),"
        " (1, 'pending', 2, 12, 0, 0, 0, 0, 0, 25, 1000, 0, 1, 0, 't', 'key', NULL,"
        " x'00'),"
        " (1, 'scheduled', 3, 13, 2, 0, 0, 0, 0, 25, 1000, 0, 1, 0, 't', NULL, NULL,"
        " x''),"
        " (1, 'retry', 4, 14, 3, 0, 0, 0, 1, 25, 1000, 0, 1, 0, 't', NULL, NULL, x'70'),"
        " (1, 'archived', 5, 15, 4, 0, 0, 0, 1, 1, 1000, 0, 1, 0, 't', NULL, NULL,"
        " x'70'),"
        " (1, 'completed', 6, 16, 32503680000000, 0, 0, 0, 0, 25, 1000, 9000, 1, 5,"
        " 't', NULL, NULL, x'70'),"
        " (1, 'member', 7, 17, 6, 0, 0, 0, 0, 25, 1000, 0, 1, 0, 't', NULL, 'g', x'70')");
    lib_sqlite_exec(place->path, "UPDATE quern_task SET crash_count = 7, crashed_at_ms = 1"
                                 " WHERE id IN ('pending', 'retry')");
    if (version >= 5) {
        lib_sqlite_exec(place->path, "UPDATE quern_task SET level = 4 WHERE crash_count > 0");
    }
    if (version >= 4) { /* made with the first task of a group */
        lib_sqlite_exec(place->path, sql_late_group);
        lib_sqlite_exec(place->path, sql_late_set);
    }
    if (version >= 5) {
        lib_sqlite_exec(place->path,
                        "UPDATE quern_task SET level = min(crash_count, 4) WHERE crash_count > 0");
    }
    (void)chmod(place->path, 0600);
}

static void fail_if_violated(const quern_finding *finding, void *user)
{
    (void)user;
    if (finding->severity == QUERN_SEVERITY_VIOLATED) {
        fail_msg("%s: %s: %s", finding->invariant, finding->id, finding->text);
    }
}

static void check(struct qn_broker *broker)
{
    quern_error err = {0};
    assert_ok(qn_broker_doctor(broker, false, fail_if_violated, NULL, &err), err);
}

static void send_heartbeat(struct qn_broker *broker)
{
    const struct qn_queue_share share = {.name = "default", .weight = 1};
    const struct qn_heartbeat heartbeat = {.worker_id = "w",
                                           .owner = "nowhere",
                                           .host = "h",
                                           .status = "active",
                                           .queues = "default=1",
                                           .concurrency = ROOM,
                                           .queue_shares = &share,
                                           .queue_count = 1};
    quern_error err = {0};
    assert_ok(qn_broker_heartbeat(broker, &heartbeat, &err), err);
}

/* Leases all pending tasks and finishes them; returns how many there were. */
static size_t run_all(struct qn_broker *broker)
{
    struct qn_leased *runs[ROOM];
    struct qn_outcome outcomes[ROOM];
    enum qn_applied applied[ROOM];
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = ROOM};
    struct qn_exchange exchange = {.stamp = {1, 1},
                                   .worker_id = "w",
                                   .host = "h",
                                   .lease_ms = 30000,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = ROOM,
                                   .start_count_now = ROOM};
    struct qn_exchange_reply reply = {.runs = runs, .applied = applied};
    quern_error err = {0};
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    size_t count = reply.run_count;
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_DONE, .started = true};
    }
    exchange = (struct qn_exchange){.stamp = {1, 2},
                                    .worker_id = "w",
                                    .host = "h",
                                    .lease_ms = 30000,
                                    .outcomes = outcomes,
                                    .outcome_count = count};
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
    return count;
}

static bool aggregate_now(const char *queue, const char *group,
                          struct qn_group_settings *ret_settings, void *user)
{
    (void)queue, (void)group, (void)user;
    *ret_settings = (struct qn_group_settings){.max_size = 1};
    return true;
}

static void drop_group(struct qn_broker *broker)
{
    struct qn_group_cursor cursor = {0};
    const struct qn_aggregate aggregate = {.queue = "default",
                                           .worker_id = "w",
                                           .lease_ms = 30000,
                                           .cursor = &cursor,
                                           .settings = aggregate_now};
    struct qn_aggregate_reply reply = {0};
    quern_error err = {0};
    assert_ok(qn_broker_aggregate(broker, &aggregate, &reply, &err), err);
    assert_non_null(reply.set);
    assert_int_equal(reply.set->count, 1);
    assert_string_equal(reply.set->members[0]->task.id, "member");
    const struct qn_finish_set finish = {.stamp = {2, 1}, .set = reply.set};
    assert_ok(qn_broker_finish_set(broker, &finish, &err), err);
    qn_group_set_free(reply.set);
}

static void file_of_each_version_is_opened_and_emptied(void **state)
{
    (void)state;
    for (int64_t version = 1; version <= (int64_t)TEST_COUNT(steps); version++) {
        const struct qn_upkeep upkeep = {{queues, 1}, 100};
        struct lib_sqlite place;
        quern_error err = {0};
        size_t count = 0;
        int64_t next_due_at_ms = 0;
        lib_sqlite_make(&place);
        make_file(&place, version);
        struct qn_broker *broker = lib_sqlite_open(place.path);
        assert_int_equal(lib_sqlite_query(place.path, "SELECT schema_version FROM quern_meta"),
                         QN_SQLITE_SCHEMA_VERSION);
        check(broker);
        assert_int_equal(lib_sqlite_query(place.path, "SELECT sum(level) FROM quern_task"), 8);
        send_heartbeat(broker);
        assert_ok(qn_broker_recover(broker, upkeep, NULL, &count, &err), err);
        assert_int_equal(count, 1);
        assert_ok(qn_broker_forward(broker, upkeep, &count, &next_due_at_ms, &err), err);
        assert_int_equal(count, 2);
        assert_int_equal(run_all(broker), 4);
        assert_int_equal(lib_sqlite_query(place.path,
                                          "SELECT count(*) FROM sqlite_schema WHERE name IN"
                                          " ('quern_task_group', 'quern_task_set')"),
                         2);
        drop_group(broker);
        check(broker);
        assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM quern_task"), 2);
        assert_int_equal(lib_sqlite_query(place.path, "SELECT count(*) FROM quern_lock"), 0);
        qn_broker_close(broker);
        qn_broker_close(lib_sqlite_open(place.path)); /* from now on as any other */
        lib_sqlite_remove(&place);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(file_of_each_version_is_opened_and_emptied),
};
TEST_MAIN(tests)
