/* SPDX-License-Identifier: MIT */
/* test_corrupt.c - files that are no database of ours, or not any more: they are refused with a
 * reason, or opened; nothing crashes, and a file that was refused is left byte for byte as it was.
 * This is about the SQLite broker's file, so it looks into it with SQLite itself. */
#include "lib_test.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "broker/inspect.h"
#include "quern/quern.h"
#include "task/limits.h"

struct bytes {
    unsigned char *data;
    size_t size;
};

struct place {
    char dir[TEST_DIR_SIZE];
    char path[128];
};

static struct bytes read_file(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    struct bytes bytes = {.data = malloc((size_t)info.st_size + 1), .size = (size_t)info.st_size};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_non_null(bytes.data);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, bytes.data, bytes.size), bytes.size);
    (void)close(fd);
    return bytes;
}

static void write_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    (void)close(fd);
}

static void place_make(struct place *place)
{
    test_dir_make(place->dir);
    (void)snprintf(place->path, sizeof place->path, "%s/tasks.db", place->dir);
}

/* Opens it as a client would, making what is missing. */
static quern_status open_path(const char *path, struct qn_broker **ret_broker, quern_error *err)
{
    const struct qn_broker_options options = {.create = true};
    return qn_broker_open(path, &options, ret_broker, err);
}

static void assert_refused_untouched(const char *path, quern_status expected)
{
    struct bytes before = read_file(path);
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    assert_int_equal(open_path(path, &broker, &err), expected);
    assert_null(broker);
    assert_int_equal(err.code, expected);
    assert_true(strlen(err.text) > 10);
    struct bytes after = read_file(path);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    free(before.data);
    free(after.data);
}

/* A healthy file with tasks in several states, closed cleanly. */
static void make_healthy(const char *path)
{
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(path, NULL, &client, &err), err);
    for (int i = 0; i < 60; i++) {
        char payload[600];
        memset(payload, 'a' + i % 26, sizeof payload);
        quern_task task = {.type = i % 2 == 0 ? "even" : "odd",
                           .queue = i % 3 == 0 ? "other" : NULL,
                           .payload = payload,
                           .payload_size = sizeof payload,
                           .delay_ms = i % 5 == 0 ? 1000 : 0,
                           .unique_ms = i % 7 == 0 ? 60000 + i : 0};
        quern_status status = quern_client_enqueue(client, &task, NULL, &err);
        assert_true(status == QUERN_OK || status == QUERN_E_DUPLICATE);
    }
    quern_client_free(client);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static bool ignore_task(const quern_task_info *info, void *user)
{
    (void)info;
    (void)user;
    return true;
}

static bool ignore_queue(const quern_queue_info *queue, void *user)
{
    (void)queue;
    (void)user;
    return true;
}

static void ignore_finding(const quern_finding *finding, void *user)
{
    (void)finding;
    (void)user;
}

/* Uses everything; that an operation fails is fine, that it crashes is not. */
static void use(struct qn_broker *broker)
{
    const char *queue = "default";
    struct qn_leased *runs[4] = {0};
    struct qn_queue_share share = {.name = queue, .weight = 1, .quota = 4};
    struct qn_exchange exchange = {.worker_id = "w",
                                   .lease_ms = QN_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 4,
                                   .start_count_now = 4};
    struct qn_exchange_reply reply = {.runs = runs};
    const quern_task_filter filter = {.limit = 1000};
    size_t count = 0;
    int64_t due_at_ms = 0;
    if (qn_broker_exchange(broker, &exchange, &reply, NULL) == QUERN_OK) {
        for (size_t i = 0; i < reply.run_count; i++) {
            qn_leased_free(runs[i]);
        }
    }
    (void)!qn_broker_forward(broker, (struct qn_upkeep){{&queue, 1}, 10}, &count, &due_at_ms, NULL);
    (void)!qn_broker_recover(broker, (struct qn_upkeep){{&queue, 1}, 10}, NULL, &count, NULL);
    (void)!qn_broker_prune(broker, (struct qn_upkeep){{&queue, 1}, 10}, &count, NULL);
    (void)!qn_broker_tasks(broker, &filter, ignore_task, NULL, NULL);
    (void)!qn_broker_queues(broker, NULL, ignore_queue, NULL, NULL);
    (void)!qn_broker_doctor(broker, false, ignore_finding, NULL, NULL);
}

/* --- What was never ours ------------------------------------------------------------ */

static void text_file_is_refused(void **state)
{
    (void)state;
    struct place place;
    char text[5000];
    place_make(&place);
    memset(text, 'x', sizeof text);
    write_file(place.path, text, sizeof text);
    assert_refused_untouched(place.path, QUERN_E_CORRUPT);
    write_file(place.path, "dear diary\n", 11);
    assert_refused_untouched(place.path, QUERN_E_CORRUPT);
    test_dir_remove(place.dir);
}

static void file_with_other_tables_is_refused_with_advice(void **state)
{
    (void)state;
    struct place place;
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    place_make(&place);
    run_sql(place.path, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT)");
    struct bytes before = read_file(place.path);
    assert_int_not_equal(open_path(place.path, &broker, &err), QUERN_OK);
    assert_non_null(strstr(err.text, "quern db init"));
    struct bytes after = read_file(place.path);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    free(before.data);
    free(after.data);
    const struct qn_broker_options init = {.create = true, .init = true};
    assert_ok(qn_broker_open(place.path, &init, &broker, &err), err);
    qn_broker_close(broker);
    run_sql(place.path, "INSERT INTO accounts (name) VALUES ('still here')");
    test_dir_remove(place.dir);
}

static void file_of_a_newer_version_is_refused(void **state)
{
    (void)state;
    struct place place;
    place_make(&place);
    make_healthy(place.path);
    run_sql(place.path, "UPDATE quern_meta SET schema_version = schema_version + 1;"
                        "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_refused_untouched(place.path, QUERN_E_CORRUPT);
    test_dir_remove(place.dir);
}

static void empty_file_becomes_a_database(void **state)
{
    (void)state;
    struct place place;
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    place_make(&place);
    write_file(place.path, "", 0);
    assert_ok(open_path(place.path, &broker, &err), err);
    use(broker);
    qn_broker_close(broker);
    test_dir_remove(place.dir);
}

static void missing_file_is_not_created_unless_requested(void **state)
{
    (void)state;
    struct place place;
    struct qn_broker *broker = NULL;
    struct stat info;
    quern_error err = {0};
    const struct qn_broker_options options = {.create = false};
    place_make(&place);
    assert_int_equal(qn_broker_open(place.path, &options, &broker, &err), QUERN_E_NOT_FOUND);
    assert_int_equal(stat(place.path, &info), -1);
    test_dir_remove(place.dir);
}

static void directory_and_unwritable_place_are_refused(void **state)
{
    (void)state;
    struct place place;
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    place_make(&place);
    assert_int_not_equal(open_path(place.dir, &broker, &err), QUERN_OK);
    assert_int_not_equal(open_path("/proc/tasks.db", &broker, &err), QUERN_OK);
    assert_int_not_equal(open_path("/nonexistent/tasks.db", &broker, &err), QUERN_OK);
    assert_null(broker);
    test_dir_remove(place.dir);
}

/* --- What was ours ------------------------------------------------------------------ */

/* Puts the damaged bytes where a broker finds them, and nothing beside them. */
static void try_damaged(const struct place *place, const struct bytes *bytes)
{
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    char side[160];
    (void)snprintf(side, sizeof side, "%s-wal", place->path);
    (void)unlink(side);
    (void)snprintf(side, sizeof side, "%s-shm", place->path);
    (void)unlink(side);
    write_file(place->path, bytes->data, bytes->size);
    if (open_path(place->path, &broker, &err) == QUERN_OK) {
        use(broker);
        qn_broker_close(broker);
        return;
    }
    assert_true(strlen(err.text) > 0);
    struct bytes after = read_file(place->path);
    assert_int_equal(after.size, bytes->size);
    assert_memory_equal(after.data, bytes->data, after.size);
    free(after.data);
}

static void truncated_file_crashes_nobody(void **state)
{
    (void)state;
    struct place place;
    place_make(&place);
    make_healthy(place.path);
    struct bytes healthy = read_file(place.path);
    const size_t sizes[] = {1,    15,   16,   50,   99,   100,  101,  512,
                            1024, 4095, 4096, 4097, 8192, 9000, 16384};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        if (sizes[i] < healthy.size) {
            const struct bytes cut = {.data = healthy.data, .size = sizes[i]};
            try_damaged(&place, &cut);
        }
    }
    const struct bytes half = {.data = healthy.data, .size = healthy.size / 2};
    try_damaged(&place, &half);
    free(healthy.data);
    test_dir_remove(place.dir);
}

static void flipped_bits_crash_nobody(void **state)
{
    (void)state;
    struct place place;
    struct qn_random random;
    size_t rounds = test_full() ? 2000 : 100;
    qn_random_init_seed(&random, test_seed());
    place_make(&place);
    make_healthy(place.path);
    struct bytes healthy = read_file(place.path);
    struct bytes damaged = {.data = malloc(healthy.size), .size = healthy.size};
    assert_non_null(damaged.data);
    for (size_t round = 0; round < rounds; round++) {
        memcpy(damaged.data, healthy.data, healthy.size);
        /* Half of the rounds hit the first pages, where the schema is. */
        size_t span = round % 2 == 0 && healthy.size > 8192 ? 8192 : healthy.size;
        for (uint64_t flips = 1 + qn_random_below(&random, 8); flips > 0; flips--) {
            size_t at = qn_random_below(&random, span);
            damaged.data[at] ^= (unsigned char)(1U << qn_random_below(&random, 8));
        }
        try_damaged(&place, &damaged);
    }
    free(damaged.data);
    free(healthy.data);
    test_dir_remove(place.dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(text_file_is_refused),
    cmocka_unit_test(file_with_other_tables_is_refused_with_advice),
    cmocka_unit_test(file_of_a_newer_version_is_refused),
    cmocka_unit_test(empty_file_becomes_a_database),
    cmocka_unit_test(missing_file_is_not_created_unless_requested),
    cmocka_unit_test(directory_and_unwritable_place_are_refused),
    cmocka_unit_test(truncated_file_crashes_nobody),
    cmocka_unit_test(flipped_bits_crash_nobody),
};
TEST_MAIN(tests)
