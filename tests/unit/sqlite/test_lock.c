/* SPDX-License-Identifier: MIT */
/* test_lock.c - the writer lock: one thread at a time, urgent ones first, no endless wait for other
 * processes, and a clock that is read once the lock is held. */
#include "lib_sqlite.h"

#include "broker/limit/limit.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "task/limit.h"

#include <pthread.h>
#include <string.h>

struct writer {
    struct qn_sqlite *self;
    pthread_t thread;
    char name;
    bool urgent;
    char *order; /* written inside the transaction, so one at a time */
};

static void *write_once(void *user)
{
    struct writer *writer = user;
    struct qn_conn *conn = NULL;
    quern_error err = {0};
    assert_ok(qn_transaction_begin(writer->self, writer->urgent, &conn, &err), err);
    size_t size = strlen(writer->order);
    writer->order[size] = writer->name;
    writer->order[size + 1] = '\0';
    assert_ok(qn_transaction_commit(writer->self, &err), err);
    return NULL;
}

static bool urgent_waits(void *user)
{
    struct qn_writer_lock *lock = user;
    pthread_mutex_lock(&lock->mutex);
    bool waits = !qn_list_empty(&lock->urgent);
    pthread_mutex_unlock(&lock->mutex);
    return waits;
}

static void urgent_writer_passes_those_who_came_before(void **state)
{
    (void)state;
    struct lib_sqlite place;
    char order[8] = "";
    quern_error err = {0};
    struct qn_conn *conn = NULL;
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct writer writers[] = {{.self = self, .name = 'a', .order = order},
                               {.self = self, .name = 'b', .order = order},
                               {.self = self, .name = 'u', .order = order, .urgent = true}};
    assert_ok(qn_transaction_begin(self, false, &conn, &err), err);
    for (size_t i = 0; i < TEST_COUNT(writers); i++) {
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_once, &writers[i]), 0);
    }
    assert_true(test_until(urgent_waits, &self->writer_lock));
    qn_transaction_rollback(self);
    for (size_t i = 0; i < TEST_COUNT(writers); i++) {
        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
    }
    assert_int_equal(strlen(order), 3);
    assert_int_equal(order[0], 'u');
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void *take_once(void *user)
{
    struct qn_writer_lock *lock = user;
    bool is_ours = qn_writer_lock_take(lock, false, TEST_PATIENCE_MS);
    if (is_ours) {
        qn_writer_lock_release(lock);
    }
    return is_ours ? lock : NULL;
}

/* As a thread does that reads page after page of a database in memory. */
static void thread_that_takes_the_lock_again_at_once_starves_nobody(void **state)
{
    (void)state;
    struct qn_writer_lock lock;
    pthread_t thread;
    qn_writer_lock_init(&lock);
    assert_true(qn_writer_lock_take(&lock, false, 0));
    assert_int_equal(pthread_create(&thread, NULL, take_once, &lock), 0);
    void *ended = NULL;
    int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS / 2;
    while (pthread_tryjoin_np(thread, &ended) != 0) {
        assert_true(test_now_ms() < end_ms);
        test_pause_ms(2);
        qn_writer_lock_release(&lock);
        assert_true(qn_writer_lock_take(&lock, false, TEST_PATIENCE_MS));
    }
    assert_ptr_equal(ended, &lock);
    qn_writer_lock_release(&lock);
    qn_writer_lock_finish(&lock);
}

static struct qn_broker *open_impatient(const struct lib_sqlite *place)
{
    const struct qn_broker_options options = {.create = true, .command_timeout_ms = 30};
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    assert_ok(qn_broker_open(place->path, &options, &broker, &err), err);
    return broker;
}

static void lock_kept_by_another_connection_is_busy(void **state)
{
    (void)state;
    struct lib_sqlite place;
    sqlite3 *other = NULL;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = open_impatient(&place);
    assert_int_equal(sqlite3_open(place.path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(lib_sqlite_enqueue(broker, "a", &err), QUERN_E_BUSY);
    assert_non_null(strstr(err.text, place.path));
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void lock_kept_by_another_thread_is_busy(void **state)
{
    (void)state;
    struct lib_sqlite place;
    struct qn_conn *conn = NULL;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = open_impatient(&place);
    struct qn_sqlite *self = qn_sqlite_of(broker);
    assert_ok(qn_transaction_begin(self, false, &conn, &err), err);
    assert_int_equal(lib_sqlite_enqueue(broker, "a", &err), QUERN_E_BUSY);
    qn_transaction_rollback(self);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void reader_holds_up_no_writer(void **state)
{
    (void)state;
    struct lib_sqlite place;
    struct qn_conn *conn = NULL;
    quern_error err = {0};
    int64_t no = 0;
    lib_sqlite_make(&place);
    struct qn_broker *broker = open_impatient(&place);
    struct qn_sqlite *self = qn_sqlite_of(broker);
    assert_ok(qn_transaction_read_begin(self, &conn, &err), err);
    assert_ok(qn_tables_queue_no(conn, "default", false, &no, &err), err);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    assert_ok(qn_tables_queue_no(conn, "default", false, &no, &err), err);
    assert_int_equal(no, 0); /* one snapshot, from the first look on */
    qn_transaction_read_end(self);
    assert_ok(qn_transaction_read_begin(self, &conn, &err), err);
    assert_ok(qn_tables_queue_no(conn, "default", false, &no, &err), err);
    assert_int_not_equal(no, 0);
    qn_transaction_read_end(self);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

/* --- The clock of a writer ------------------------------------------------------------- */

#define START_MS INT64_C(1800000000000)
#define PERIOD_MS (QN_LIMIT_SLOTS * INT64_C(1000))

struct lessee {
    struct qn_broker *broker;
    struct qn_stamp stamp;
    size_t count; /* of runs that it has leased */
};

/* Leases one task, if a limit lets it run. */
static void *lease_one(void *user)
{
    struct lessee *lessee = user;
    struct qn_queue_share queue = {.name = "default", .weight = 1, .quota = 1};
    struct qn_leased *run = NULL;
    lessee->stamp.sequence++;
    struct qn_exchange exchange = {.stamp = lessee->stamp,
                                   .worker_id = "worker-1",
                                   .lease_ms = 30000,
                                   .queues = &queue,
                                   .queue_count = 1,
                                   .room = 1};
    struct qn_exchange_reply reply = {.runs = &run};
    quern_error err = {0};
    TEST_REQUIRE(qn_broker_exchange(lessee->broker, &exchange, &reply, &err) == QUERN_OK);
    lessee->count += reply.run_count;
    qn_leased_free(run);
    return NULL;
}

static bool other_waits(void *user)
{
    struct qn_writer_lock *lock = user;
    pthread_mutex_lock(&lock->mutex);
    bool waits = !qn_list_empty(&lock->others);
    pthread_mutex_unlock(&lock->mutex);
    return waits;
}

/* To the limit its clock would be one that was turned back: what counts would age twice. */
static void lease_that_waited_for_the_lock_is_dated_when_it_has_it(void **state)
{
    (void)state;
    struct lib_sqlite place;
    struct quern_clock clock;
    pthread_t thread;
    quern_error err = {0};
    const char *const ids[] = {"a", "b", "c"};
    const quern_limit limit = {.queue = "default",
                               .name = "",
                               .scope = QUERN_LIMIT_QUEUE,
                               .count = 2,
                               .period_ms = PERIOD_MS};
    lib_sqlite_make(&place);
    qn_clock_init(&clock, START_MS, 1000);
    const struct qn_broker_options options = {.create = true, .clock = &clock};
    struct lessee late = {.stamp.session = 1};
    struct lessee quick = {.stamp.session = 2};
    assert_ok(qn_broker_open(place.path, &options, &late.broker, &err), err);
    assert_ok(qn_broker_open(place.path, &options, &quick.broker, &err), err);
    assert_ok(qn_broker_set_limit(quick.broker, &limit, &err), err);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_ok(lib_sqlite_enqueue(quick.broker, ids[i], &err), err);
    }
    struct qn_writer_lock *lock = &qn_sqlite_of(late.broker)->writer_lock;
    assert_true(qn_writer_lock_take(lock, false, TEST_PATIENCE_MS));
    assert_int_equal(pthread_create(&thread, NULL, lease_one, &late), 0);
    assert_true(test_until(other_waits, lock));
    atomic_fetch_add(&clock.wall_ms, 1000);
    (void)lease_one(&quick);
    qn_writer_lock_release(lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(late.count + quick.count, 2);
    (void)lease_one(&quick); /* none is due yet: it only brings the window up to date */
    atomic_fetch_add(&clock.wall_ms, PERIOD_MS);
    (void)lease_one(&quick);
    assert_int_equal(late.count + quick.count, 2);
    atomic_fetch_add(&clock.wall_ms, 1000);
    (void)lease_one(&quick);
    assert_int_equal(late.count + quick.count, 3);
    qn_broker_close(quick.broker);
    qn_broker_close(late.broker);
    lib_sqlite_remove(&place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(urgent_writer_passes_those_who_came_before),
    cmocka_unit_test(thread_that_takes_the_lock_again_at_once_starves_nobody),
    cmocka_unit_test(lock_kept_by_another_connection_is_busy),
    cmocka_unit_test(lock_kept_by_another_thread_is_busy),
    cmocka_unit_test(reader_holds_up_no_writer),
    cmocka_unit_test(lease_that_waited_for_the_lock_is_dated_when_it_has_it),
};
TEST_MAIN(tests)
