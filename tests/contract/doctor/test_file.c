/* SPDX-License-Identifier: MIT */
/* test_file.c - findings about the SQLite file as a whole, and the files beside it. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/sqlite/schema/migrate.h"
#include "lib_doctor.h"

static void missing_index_changed_table_and_wrong_version_are_reported(struct contract *c)
{
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    struct doctor_report report = {0};
    assert_ok(quern_inspector_open(c->url, NULL, &inspector, &err), err);
    doctor_plant(c, "DROP INDEX quern_lock_until; UPDATE quern_meta SET schema_version = 99;"
                    "ALTER TABLE quern_worker ADD COLUMN price INTEGER");
    assert_ok(quern_inspector_check(inspector, false, doctor_keep, &report, &err), err);
    doctor_assert_line(&report, "I9 /: the index quern_lock_until is missing");
    doctor_assert_line(&report, "I9 /: the table quern_worker is no longer as quern created it");
    char line[64];
    (void)snprintf(line, sizeof line, "I9 /: quern_meta has schema 99, this library has %d",
                   QN_SQLITE_SCHEMA_VERSION);
    doctor_assert_line(&report, line);
    quern_inspector_free(inspector);
}

static void what_others_put_on_our_tables_is_named(struct contract *c)
{
    struct doctor_report report = {0};
    doctor_plant(c, "CREATE TABLE audit (id TEXT);"
                    "CREATE TRIGGER own AFTER INSERT ON audit BEGIN SELECT 1; END;"
                    "CREATE TRIGGER spy AFTER INSERT ON QUERN_task BEGIN SELECT 1; END;"
                    "CREATE VIEW report AS SELECT count(*) FROM quern_task;"
                    "CREATE UNIQUE INDEX only_one ON quern_task (type);"
                    "CREATE INDEX by_type ON quern_task (type, state)");
    doctor_check(c, false, &report);
    doctor_assert_line(&report, "I9 /: the trigger spy on QUERN_task is not quern's");
    doctor_assert_line(&report, "note /: the view report is not quern's");
    doctor_assert_line(&report, "I9 /: the index only_one on quern_task is not quern's: it may");
    doctor_assert_line(&report, "note /: the index by_type on quern_task is not quern's");
    assert_null(strstr(report.lines, "own"));
    assert_int_equal(report.violated, 0);
}

/* Overwrites the pages behind the first ones, as a failing disk would. */
static void damage_pages(struct contract *c)
{
    char path[TEST_DIR_SIZE + 16];
    (void)snprintf(path, sizeof path, "%s/tasks.db", c->store.dir);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 40 * 4096);
    assert_int_equal(fseek(file, size - 12 * 4096, SEEK_SET), 0);
    char noise[4096];
    memset(noise, 0xa5, sizeof noise);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(fwrite(noise, sizeof noise, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

static void damaged_pages_are_reported_and_nothing_is_written(struct contract *c)
{
    contract_put_many(c, "default", "t", 2000);
    doctor_plant(c, "UPDATE quern_meta SET counter = 1; PRAGMA wal_checkpoint(TRUNCATE)");
    qn_broker_close(c->broker);
    c->broker = NULL;
    damage_pages(c);
    quern_inspector *inspector = NULL;
    struct doctor_report report = {0};
    quern_error err = {0};
    assert_ok(quern_inspector_open(c->url, NULL, &inspector, &err), err);
    quern_status status = quern_inspector_check(inspector, true, doctor_keep, &report, &err);
    assert_true(status == QUERN_OK || status == QUERN_E_CORRUPT);
    assert_int_equal(report.repaired, 0);
    assert_true(report.violated > 0 || status == QUERN_E_CORRUPT);
    quern_inspector_free(inspector);
}

static void sockets_of_the_dead_are_noted_and_removed(struct contract *c)
{
    char dir[TEST_DIR_SIZE + 32];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(dir, sizeof dir, "%s/tasks.db-quern", c->store.dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chdir(dir), 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%032x.w", 7);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    assert_int_equal(close(fd), 0); /* the name stays */
    assert_int_equal(chdir("/"), 0);
    struct doctor_report report;
    doctor_check(c, false, &report);
    doctor_assert_line(&report, "note /: 1 socket of a dead process is in the directory");
    doctor_check(c, true, &report);
    doctor_check(c, false, &report);
    assert_null(strstr(report.lines, "that died"));
}

static void log_that_grew_too_large_is_noted(struct contract *c)
{
    char path[TEST_DIR_SIZE + 32];
    (void)snprintf(path, sizeof path, "%s/tasks.db-wal", c->store.dir);
    struct doctor_report report;
    doctor_check(c, false, &report);
    assert_null(strstr(report.lines, "write-ahead log"));
    assert_int_equal(truncate(path, 70 << 20), 0); /* a hole: takes no space */
    doctor_check(c, false, &report);
    doctor_assert_line(&report, "note /: the write-ahead log holds 70 MB");
}

/* The best of three. */
static int64_t check_us(struct contract *c)
{
    int64_t best_us = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        struct doctor_report report;
        int64_t begun_ns = qn_clock_mono_ns();
        doctor_check(c, false, &report);
        int64_t took_us = (qn_clock_mono_ns() - begun_ns) / 1000;
        best_us = took_us < best_us ? took_us : best_us;
    }
    return best_us;
}

/* Checking a process takes longer than the rest of the check of its worker. With one such check for
 * each queue, 20 queues took 15 to 20 times as long. */
static void processes_of_workers_are_judged_once_however_many_queues_there_are(struct contract *c)
{
    enum { QUEUES = 20, TIMES_MAX = 5 };
    contract_heartbeat(c->broker, "crowd-0");
    doctor_plant(
        c, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
           "INSERT INTO quern_worker (no, id, owner, host, pid, status, queues, concurrency,"
           "strict, started_at_ms, heartbeat_at_ms) SELECT no + i, 'crowd-' || i, owner, host, pid,"
           "status, queues, concurrency, strict, started_at_ms, heartbeat_at_ms "
           "FROM n, quern_worker WHERE id = 'crowd-0'");
    int64_t one_us = 0;
    for (int i = 0; i < QUEUES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "unserved-%d", i);
        contract_put(c, name, name);
        one_us = i == 0 ? check_us(c) : one_us;
    }
    int64_t all_us = check_us(c);
    print_message("1 queue: %lld us, %d queues: %lld us\n", (long long)one_us, QUEUES,
                  (long long)all_us);
    assert_true(all_us < TIMES_MAX * one_us);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("sqlite", missing_index_changed_table_and_wrong_version_are_reported),
    CONTRACT_TEST_ONLY("sqlite", what_others_put_on_our_tables_is_named),
    CONTRACT_TEST_ONLY("sqlite", damaged_pages_are_reported_and_nothing_is_written),
    CONTRACT_TEST_ONLY("sqlite", sockets_of_the_dead_are_noted_and_removed),
    CONTRACT_TEST_ONLY("sqlite",
                       processes_of_workers_are_judged_once_however_many_queues_there_are),
    CONTRACT_TEST_ONLY("sqlite", log_that_grew_too_large_is_noted),
};
CONTRACT_MAIN(tests)
